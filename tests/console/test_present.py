"""Entries and trail lines as sentences: pure, by tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from bridge.console import present
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import Entry
from tests.support.builders import ANONYMOUS, NOW, PHONE, done_entry, make_call, make_entry, parked_entry, queued_entry, running_entry


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (12_000, "3 h 20 min"), (400_000, "4 days")],
)
def test_a_span_is_as_exact_as_people_need(seconds: float, text: str) -> None:
    assert present.span(seconds) == text


@pytest.mark.parametrize(
    ("at", "zone", "text"),
    [
        (NOW, "UTC", "15:04"),
        (NOW, "America/Chicago", "09:04"),
        (NOW - 86_400, "UTC", "14 Jan, 15:04"),
        (NOW - 20 * 86_400, "UTC", "26 Dec 2025, 15:04"),
        (None, "UTC", ""),
    ],
)
def test_a_moment_is_told_in_the_locations_time(at: float | None, zone: str, text: str) -> None:
    assert present.moment(at, NOW, present.zone_of(zone)) == text


@pytest.mark.parametrize("name", [None, "", "Mars/Olympus", "../../etc/passwd"])
def test_a_zone_that_is_not_known_is_utc(name: str | None) -> None:
    assert present.zone_of(name) is UTC


PAUSED = moves.wait(running_entry(), NOW, delay=30, spend=True, cause="crm.429", message="m", step=None, trace_id=None)
SENTENCES: list[tuple[Entry, str]] = [
    (queued_entry(), "Accepted, and waits for a worker."),
    (running_entry(), "A worker is at it: attempt 1, since 15:04:05."),
    (PAUSED, "Accepted; goes on at 15:04:35, because GoHighLevel asked us to slow down."),
    (replace(PAUSED, next_try_at=NOW - 1, waiting_for="the call goes on"), "Accepted; goes on any moment, because the call goes on."),
    (
        by_hand.replay(parked_entry(), NOW, start_at=NOW - 1),
        "Accepted; goes on any moment, because it is being replayed, and live calls go first.",
    ),
    (parked_entry(), "Needs attention: it was refused, and no retry mends that."),
    (replace(done_entry(), contact_id="c1", contact_created=True), "Done: a new lead was made."),
    (replace(done_entry(), contact_id="c1"), "Done: the call is with its contact."),
    (replace(done_entry(), reason="the caller withheld the number"), "Done without a lead: the caller withheld the number."),
    (by_hand.close(parked_entry(), reason="rang them", by="otto"), "Closed by hand by otto."),
]


@pytest.mark.parametrize(("entry", "sentence"), SENTENCES)
def test_how_it_stands_is_one_sentence(entry: Entry, sentence: str) -> None:
    assert present.sentence(entry, NOW, UTC) == sentence


@pytest.mark.parametrize("entry", [entry for entry, _ in SENTENCES])
def test_what_happens_next_is_always_said(entry: Entry) -> None:
    assert len(present.next_step(entry, NOW, UTC)) > 10


def test_a_number_is_masked_unless_it_may_be_seen() -> None:
    entry = make_entry()
    assert (present.caller(entry), present.caller(entry, clear=True)) == ("+…34", PHONE)
    assert (present.dialled(entry), present.dialled(entry, clear=True)) == ("+…99", "+15550109999")


def test_who_has_no_number_is_told_in_words() -> None:
    withheld = make_entry(facts=make_call(caller=ANONYMOUS))
    assert (present.caller(withheld), present.caller(withheld, clear=True)) == ("number withheld", "number withheld (anonymous)")
    assert present.caller(make_entry(facts=make_call(caller=None))) == "caller not told yet"


STORY = [
    ({"what": "event new", "event": "voice", "source": "spool"}, "in", "It had waited in the spool"),
    ({"what": "attempt ended", "attempt": 2, "outcome": "done"}, "good", "Attempt 2 brought everything"),
    (
        {"what": "attempt ended", "attempt": 2, "outcome": "done", "next_try_at": NOW, "why": "the call goes on"},
        "good",
        "It goes on at 15:04:05",
    ),
    ({"what": "attempt ended", "outcome": "again", "cause": "crm.timeout", "step": "note_call"}, "wait", "at “write the call's note”"),
    ({"what": "needs attention", "message": "It broke.", "cause": "crm.403"}, "bad", "It came to need attention: It broke."),
    ({"what": "lead", "how": "found", "contact_id": "c1"}, "good", "The caller's contact was found."),
    ({"what": "lead", "how": "some newer way"}, "good", "The contact was settled."),
    ({"what": "replayed", "by": "otto", "reason": "mended", "step": "tag_lead"}, "person", "otto put the call back. It starts over at"),
    ({"what": "closed", "by": "otto", "reason": "r", "bulk": "1f"}, "person", "otto closed it by hand, as one of many. Reason: r"),
    ({"what": "worker died"}, "bad", "during attempt ?"),
    ({"what": "something of a newer release"}, "work", "Something of a newer release."),
]


@pytest.mark.parametrize(("line", "kind", "text"), STORY)
def test_a_line_of_the_trail_is_a_sentence(line: dict, kind: str, text: str) -> None:
    told = present.story({"at": NOW} | line, NOW, UTC)
    assert told.kind == kind
    assert text in told.text


def test_the_trace_of_the_vendor_stands_beside_the_sentence() -> None:
    line = {"at": NOW, "what": "needs attention", "message": "It broke.", "cause": "crm.403", "trace_id": "t-1"}
    assert present.story(line, NOW, UTC).detail == "crm.403 · trace t-1"


def test_an_odd_id_cannot_lead_the_link_elsewhere() -> None:
    entry = replace(make_entry(), contact_id="../../x?y#z")
    assert present.contact_url(entry) == "https://app.gohighlevel.com/v2/location/loc1/contacts/detail/..%2F..%2Fx%3Fy%23z"
    assert present.contact_url(make_entry()) is None
