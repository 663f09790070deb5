"""The text of a note: the same facts, the same words; what strangers say stays inert."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.call import Caller, CallerKind, Input, Leg, Recording, Status, Transcript
from handlers import note_text
from handlers.note_text import CUT, KEY_LINE, extend, holds_all, inert, render, words_digest
from tests.support.builders import make_call

BEGAN = datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)


def lines(*, zone: str | None = None, limit: int | None = None, **facts) -> list[str]:
    return render(make_call(**facts), zone=zone, limit=limit).split("\n")


def test_a_whole_call_is_told_in_order() -> None:
    told = lines(
        zone="America/Chicago",
        caller_name="JANE",
        city="SPRINGFIELD",
        state="IL",
        country="US",
        forwarded_from="+15550107777",
        started_at=BEGAN,
        duration_s=125,
        inputs=(Input("digits", "1"), Input("speech", "sales"), Input("digits", "")),
        legs=(Leg("CA9", "+15550100042", Status.NO_ANSWER, 20),),
        recordings=(Recording("RE1", "https://r.example.com/1", 61),),
        transcripts=(Transcript("TR1", "Please call back"), Transcript("TR2", "")),
    )
    assert told == [
        "Inbound call",
        "From: +15550101234 · JANE · SPRINGFIELD, IL, US",
        "Called: +15550109999",
        "Forwarded from: +15550107777",
        "Began: Jan 15, 2026, 9:04 AM (America/Chicago) · 2026-01-15T15:04:05Z",
        "Outcome: completed, 2 min 5 s",
        "Pressed: 1",
        "Said: sales",
        "Pressed: nothing",
        "Transferred to: +15550100042 (no answer, 20 s)",
        "Recording: https://r.example.com/1, 1 min 1 s",
        "Message: Please call back",
        "Callbridge call twilio-CA1",
    ]


@pytest.mark.parametrize(
    ("caller", "wanted"),
    [
        (Caller("(555) 010-1234", CallerKind.PSTN, "+15550101234", "7"), "From: +15550101234 ext. 7 (sent as (555) 010-1234)"),
        (Caller("+1 (555) 010-1234", CallerKind.PSTN, "+15550101234"), "From: +15550101234"),
        (Caller("Anonymous", CallerKind.WITHHELD), "From: withheld (Anonymous)"),
        (Caller("  ", CallerKind.EMPTY), "From: no number"),
        (Caller("sip:jane@example.com", CallerKind.SIP), "From: sip (sip:jane@example.com)"),
    ],
)
def test_who_rang_is_told_as_it_is_known(caller: Caller, wanted: str) -> None:
    assert wanted in lines(caller=caller)


def test_a_caller_who_was_not_told_has_no_line() -> None:
    assert not any(line.startswith("From") for line in lines(caller=None))


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"started_at": BEGAN}, "Began: 2026-01-15T15:04:05Z"),
        ({"answered_at": BEGAN}, "Answered: 2026-01-15T15:04:05Z"),
        ({"ended_at": BEGAN}, "Ended: 2026-01-15T15:04:05Z"),
    ],
)
def test_the_first_known_time_is_told(facts: dict, wanted: str) -> None:
    assert wanted in lines(**facts)


@pytest.mark.parametrize("zone", ["Not/AZone", "../etc/passwd", "", "Mars\x00"])
def test_a_zone_that_nobody_knows_is_left_out(zone: str) -> None:
    assert "Began: 2026-01-15T15:04:05Z" in lines(zone=zone, started_at=BEGAN)


def test_noon_and_midnight_are_told_apart() -> None:
    noon, midnight = BEGAN.replace(hour=12), BEGAN.replace(hour=0)
    assert any("12:04 PM (UTC)" in line for line in lines(zone="UTC", started_at=noon))
    assert any("12:04 AM (UTC)" in line for line in lines(zone="UTC", started_at=midnight))


def test_an_unknown_status_shows_the_word_of_the_phone_system() -> None:
    told = lines(status=Status.UNKNOWN, raw_status="parked <b>")
    assert "Outcome: no end was reported (the phone system says “parked \u2039b\u203a”)" in told


@pytest.mark.parametrize("status", Status)
def test_every_status_has_its_words(status: Status) -> None:
    assert note_text._STATUS[status]


# ---- Foreign text


@given(st.text(max_size=200))
def test_foreign_text_stays_inert(text: str) -> None:
    safe = inert(text)
    assert not re.search(r"[<>\r\n\u2028\u2029\x00-\x1f\u202e]|\{\{|\}\}", safe)
    assert inert(safe) == safe
    safe.encode()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<script>x</script>", "\u2039script\u203ax\u2039/script\u203a"),
        ("{{contact.email}}", "{ {contact.email} }"),
        ("{{{x}}}", "{ { {x} } }"),
        ("a\nCallbridge call twilio-CA2", "a Callbridge call twilio-CA2"),
        ("\u202eevil\u202c", "evil"),
        ("\ud83d", "?"),
    ],
)
def test_what_could_run_or_deceive_is_defused(text: str, wanted: str) -> None:
    assert inert(text) == wanted


def test_nobody_can_forge_a_line_of_ours() -> None:
    evil = "x\nOutcome: busy\r\nCallbridge call twilio-CA2"
    told = lines(caller_name=evil, city=evil, transcripts=(Transcript("t", evil),), inputs=(Input("speech", evil),), dialled=evil)
    assert [line for line in told if line.startswith(("Outcome", KEY_LINE))] == ["Outcome: completed", "Callbridge call twilio-CA1"]


# ---- Limits


@given(st.integers(200, 5000), st.integers(0, 6000))
def test_a_note_keeps_its_limit_and_its_key(limit: int, size: int) -> None:
    note = render(make_call(transcripts=(Transcript("t", "word " * (size // 5)),)), zone=None, limit=limit)
    assert len(note) <= limit
    assert note.endswith("\nCallbridge call twilio-CA1")
    assert (CUT in note) is (len(render(make_call(transcripts=(Transcript("t", "word " * (size // 5)),)), zone=None, limit=None)) > limit)


def test_the_longest_key_leaves_the_note_whole_enough_to_be_found() -> None:
    call = make_call(provider="p" * 64, account="a" * 64, root_id="r" * 64, transcripts=(Transcript("t", "word " * 100),))
    note = render(call, zone=None, limit=200)
    assert note == f"\n{CUT}\n{KEY_LINE}{call.key}"


# ---- Finding and extending


def test_a_foreign_note_gets_the_lines_that_it_lacks() -> None:
    body = "<p>Inbound call</p><p>Said: a &amp; b</p>staff wrote this<br>Callbridge call twilio-CA1"
    rendered = "Inbound call\nSaid: a & b\nOutcome: busy\nCallbridge call twilio-CA1"
    assert extend(body, rendered) == f"{body}<p>Outcome: busy</p>"
    assert extend(extend(body, rendered), rendered) == extend(body, rendered)


def test_lines_are_added_in_the_notes_own_dress() -> None:
    rendered = "Inbound call\nSaid: a & b"
    assert extend("Inbound call\nring back", rendered) == "Inbound call\nring back\nSaid: a & b"
    assert extend("Inbound call<BR />ring back", rendered) == "Inbound call<BR />ring back<p>Said: a &amp; b</p>"


# ---- Telling our words from a person's


SENT = "Inbound call\nSaid: a & b &lt; “c”\nRecording: https://r.example.com/1?a=1&b=2, 12 s\n\nCallbridge call twilio-CA1"


@pytest.mark.parametrize(
    "shown",
    [
        SENT,
        SENT.replace("\n", "\r\n") + "\n",
        SENT.replace("\n", " "),
        SENT.replace("\n", "<br />\n"),
        "<p>" + html.escape(SENT).replace("\n", "</p>\n<p>") + "</p>",
        "<div class='x'>" + SENT.replace("&", "&amp;").replace(" ", "&nbsp;").replace("\n", "</div><DIV>") + "</div>",
        "<p>" + re.sub(r"(https://[^,]+)", r'<a href="\1" target="_blank">\1</a>', SENT).replace("\n", "<br>") + "</p>\u200b",
        "<ul><li><span style='color:red'>" + SENT.replace("\n", "</span></li><li><span>") + "</span></li></ul>",
    ],
)
def test_our_words_are_known_again_in_whatever_dress(shown: str) -> None:
    assert words_digest(shown) == words_digest(SENT)


@pytest.mark.parametrize(
    "edited",
    [
        SENT + "\ncalled back, wants Tuesday",
        "<p>" + SENT.replace("\n", "</p><p>") + "</p><p>called back</p>",
        SENT.replace("a & b", "a and b"),
        SENT.replace("12 s", "12 s!"),
        SENT + "\n<called back>",
        SENT + '<img src="sketch.png">',
        SENT.replace("Inbound call\n", ""),
        "",
    ],
)
def test_a_changed_word_is_seen(edited: str) -> None:
    assert words_digest(edited) != words_digest(SENT)


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=200).filter(str.strip))
def test_what_a_person_adds_is_never_taken_for_ours_nor_lost(text: str) -> None:
    edited = f"{render(make_call(), zone=None, limit=None)}\n{html.escape(text)}"
    assert words_digest(edited) != words_digest(render(make_call(), zone=None, limit=None))
    assert extend(edited, render(make_call(duration_s=61), zone=None, limit=None)).startswith(edited)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("Inbound call\nCallbridge call twilio-CA1", True),
        ("<p>Inbound call</p><p>Callbridge call twilio-CA1</p>", True),
        ("", True),
        ("Inbound call\nring back\nCallbridge call twilio-CA1", False),
        ("Inbound call, ring back", False),
    ],
)
def test_a_text_holds_a_note_only_where_no_line_of_it_would_be_lost(body: str, wanted: bool) -> None:
    assert holds_all("Inbound call\nOutcome: busy\nCallbridge call twilio-CA1", body) is wanted


@pytest.mark.timeout(10)
@pytest.mark.parametrize("hostile", ["<", "<p ", "&amp;", "&", "<br", "</", "\n<a "])
def test_a_hostile_text_costs_no_time(hostile: str) -> None:
    assert len(words_digest(hostile * 100_000)) == 16
