"""The one shape of a call: its key, and what merging two events keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.call import Call, Caller, CallerKind, Input, Leg, Recording, Status, Transcript, call_key, carries, contradicts, merge
from tests.support.builders import ANONYMOUS, CALLER, make_call

BEGAN = datetime(2026, 1, 15, 9, 4, 5, tzinfo=UTC)
INSTANTS = st.none() | st.integers(0, 5).map(lambda minutes: BEGAN + timedelta(minutes=minutes))
SMALL = st.none() | st.integers(0, 5)
IDS = st.sampled_from(["a", "b", "c"])
PARTS = {
    "inputs": st.builds(Input, st.just("digits"), st.sampled_from("12"), st.just("menu"), st.sampled_from(["d1", "d2"])),
    "recordings": st.builds(Recording, IDS, st.just("https://r.example.com"), SMALL),
    "transcripts": st.builds(Transcript, IDS, st.just("hello")),
    "legs": st.builds(Leg, IDS, st.just("+15550100001"), st.sampled_from(Status), SMALL),
}


@st.composite
def events(draw) -> Call:
    """Events about one call that do not contradict each other."""
    lists = {name: tuple(draw(st.lists(part, max_size=3, unique_by=repr))) for name, part in PARTS.items()}
    times = {name: draw(INSTANTS) for name in ("started_at", "answered_at", "ended_at")}
    caller = draw(st.sampled_from([None, CALLER, ANONYMOUS, Caller("", CallerKind.EMPTY)]))
    status = draw(st.sampled_from(Status))
    call = make_call(caller=caller, status=status, raw_status=status.value, duration_s=draw(SMALL), **times, **lists)
    return merge(call, call)  # one part for each id, as an adapter makes it


def what_matters(call: Call) -> tuple:
    caller = None if call.caller is None else call.caller.e164
    times = (call.started_at, call.answered_at, call.ended_at, call.duration_s)
    return caller, call.status, call.raw_status, times, set(call.inputs), call.recordings, call.transcripts, call.legs


@given(events(), events())
def test_a_repeat_changes_nothing(known: Call, news: Call) -> None:
    once = merge(known, news)
    assert merge(once, news) == once
    assert merge(once, known) == once


@given(st.lists(events(), min_size=2, max_size=3))
def test_the_order_of_events_does_not_matter(told: list[Call]) -> None:
    results = set()
    for order in permutations(told):
        known = order[0]
        for news in order[1:]:
            known = merge(known, news)
        results.add(repr([sorted(map(repr, part)) if isinstance(part, set) else part for part in what_matters(known)]))
    assert len(results) == 1


@given(events(), events())
def test_nothing_is_lost_by_merging(known: Call, news: Call) -> None:
    merged = merge(known, news)
    for name in PARTS:
        wanted = {getattr(part, "id", part) for call in (known, news) for part in getattr(call, name)}
        assert {getattr(part, "id", part) for part in getattr(merged, name)} == wanted


@pytest.mark.parametrize("final", [status for status in Status if status.is_final])
@pytest.mark.parametrize("late", [status for status in Status if not status.is_final])
def test_a_final_status_is_never_left_again(final: Status, late: Status) -> None:
    merged = merge(make_call(status=final, raw_status="end"), make_call(status=late, raw_status="late"))
    assert (merged.status, merged.raw_status) == (final, "end")


def test_the_last_five_statuses_are_final() -> None:
    assert [status for status in Status if status.is_final] == list(Status)[3:]
    assert make_call().is_over
    assert not make_call(status=Status.RINGING).is_over


def test_the_raw_word_belongs_to_the_status_that_won() -> None:
    unknown, ringing = make_call(status=Status.UNKNOWN, raw_status="parked"), make_call(status=Status.RINGING, raw_status=None)
    assert merge(unknown, ringing).raw_status is None
    assert merge(ringing, unknown).raw_status is None
    assert merge(replace(ringing, raw_status=None), replace(ringing, raw_status="ring")).raw_status == "ring"


def test_the_first_telling_of_a_plain_text_stays() -> None:
    merged = merge(make_call(caller_name="JANE", city=None), make_call(caller_name="JOHN", city="SPRINGFIELD"))
    assert (merged.caller_name, merged.city) == ("JANE", "SPRINGFIELD")


def test_the_caller_id_that_tells_most_stays() -> None:
    ranked = [None, Caller("", CallerKind.EMPTY), ANONYMOUS, CALLER]
    for less, more in combinations(ranked, 2):
        assert merge(make_call(caller=less), make_call(caller=more)).caller == more
        assert merge(make_call(caller=more), make_call(caller=less)).caller == more


def test_the_same_key_pressed_twice_is_kept_twice() -> None:
    pressed = [Input("digits", "1", "menu", delivery) for delivery in ("d1", "d2")]
    merged = merge(make_call(inputs=(pressed[0],)), make_call(inputs=(pressed[1],)))
    assert merged.inputs == tuple(pressed)


def test_parts_told_twice_are_completed() -> None:
    known = make_call(
        recordings=(Recording("r", "", None),), transcripts=(Transcript("t", ""),), legs=(Leg("l", None, Status.RINGING, None),)
    )
    news = make_call(
        recordings=(Recording("r", "https://r", 9),), transcripts=(Transcript("t", "hi"),), legs=(Leg("l", "+1", Status.BUSY, 2),)
    )
    for merged in (merge(known, news), merge(news, known)):
        assert (merged.recordings, merged.transcripts, merged.legs) == (news.recordings, news.transcripts, news.legs)


OTHER = Caller("+15550105678", CallerKind.PSTN, "+15550105678")
CLIENT = Caller("client:Alice", CallerKind.CLIENT)


@pytest.mark.parametrize(
    ("news", "wanted"),
    [
        (make_call(), False),
        (make_call(caller=None, dialled=None), False),
        (make_call(caller=Caller("(555) 010-1234", CallerKind.PSTN, CALLER.e164)), False),
        (make_call(caller=Caller("", CallerKind.EMPTY)), False),
        (make_call(caller=OTHER), True),
        (make_call(caller=ANONYMOUS), False),
        (make_call(caller=CLIENT), True),
        (make_call(dialled="+15550108888"), True),
    ],
)
def test_another_caller_or_dialled_number_is_a_contradiction(news: Call, wanted: bool) -> None:
    assert contradicts(make_call(), news) is wanted
    assert contradicts(news, make_call()) is wanted


def test_names_of_soft_phones_are_compared_without_case() -> None:
    assert not contradicts(make_call(caller=CLIENT), make_call(caller=Caller(" CLIENT:alice ", CallerKind.CLIENT)))


# ---- The key

ID = st.text(min_size=1, max_size=80)
PROVIDER = st.sampled_from(["twilio", "telnyx"])


@given(PROVIDER, st.text(max_size=20), ID)
def test_a_call_key_is_a_job_id(provider: str, account: str, root_id: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", call_key(provider, account, root_id), re.ASCII)


@given(st.tuples(PROVIDER, st.text(max_size=5), ID), st.tuples(PROVIDER, st.text(max_size=5), ID))
def test_two_calls_never_share_a_key(one: tuple, other: tuple) -> None:
    assert (call_key(*one) == call_key(*other)) is (one == other)


@pytest.mark.parametrize("other", ["ca1", "CA1 ", "CA1\n", "C-A1", "CA-1", "_CA1"])
def test_ids_that_nearly_agree_have_their_own_keys(other: str) -> None:
    assert call_key("twilio", "", "CA1") != call_key("twilio", "", other)


def test_the_keys_of_known_calls_never_change() -> None:
    assert call_key("twilio", "", "CA1") == "twilio-CA1"
    assert call_key("twilio", "AC2", "CA1") == "twilio-AC2-CA1"
    assert call_key("telnyx", "", "v3:MdI9") == "telnyx-_" + "8cd81220a9e47eb57b094241e84198f27af3461f"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("Callbridge call twilio-CA1", True),
        ("<p>Callbridge call twilio-CA1</p>", True),
        ("x twilio-CA1, y", True),
        ("Callbridge call twilio-CA11", False),
        ("Callbridge call my-twilio-CA1", False),
        ("Callbridge call twilio-CA1-b", False),
        ("", False),
    ],
)
def test_a_note_is_found_by_exactly_its_key(body: str, wanted: bool) -> None:
    assert carries(body, "twilio-CA1") is wanted
