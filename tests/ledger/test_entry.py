"""What an entry says about when somebody has to look at it, and that it comes back from Redis as it went there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from bridge.call import Caller, CallerKind, Input, Leg, Recording, Status, Transcript
from bridge.ledger import moves
from bridge.ledger.entry import LEASE_GRACE_S, Entry, Plan, Seen, State
from tests.support.builders import NOW, done_entry, make_call, make_entry, parked_entry, queued_entry, running_entry

CODEC = TypeAdapter(Entry)


@pytest.mark.parametrize(
    ("entry", "look_at"),
    [
        (make_entry(), None),
        (queued_entry(), NOW + moves.CHECK_QUEUED_AFTER_S),
        (running_entry(), NOW + 30 + LEASE_GRACE_S),
        (moves.finish(running_entry(), Plan(wait_until=NOW + 99), NOW), NOW + 99),
        (done_entry(), None),
        (parked_entry(), None),
        (moves.put_back(running_entry(), NOW, delay=4), NOW + 4),
    ],
)
def test_the_sweeper_looks_when_there_is_something_to_see(entry: Entry, look_at: float | None) -> None:
    assert entry.look_at == look_at


def test_a_call_that_was_parked_unreported_is_looked_after_until_it_is_reported() -> None:
    parked = moves.take(queued_entry(), make_call(dialled="+15550100000"), Seen("f", "status", NOW + 3))[1]
    assert parked.look_at == NOW + 3 + moves.CHECK_QUEUED_AFTER_S
    assert moves.reported(parked).look_at is None


def full_entry() -> Entry:
    call = make_call(
        caller=Caller("“Zoë” <sip:+1…>", CallerKind.SIP, extension="7"),
        caller_name="Zoë 𝄞 \u2028",
        started_at=datetime(2026, 1, 15, 9, 4, 5, 123456, tzinfo=UTC),
        duration_s=0,
        inputs=(Input("digits", "", "menu", None), Input("speech", "hello", "menu", "d1")),
        recordings=(Recording("r", "https://r", 0),),
        transcripts=(Transcript("t", "text"),),
        legs=(Leg("l", None, Status.BUSY, None),),
    )
    entry = moves.park(running_entry(facts=call), NOW + 1 / 3, parked_entry().trouble, unreported=True)
    return moves.record(moves.intend(entry, "a", NOW), "b", NOW, version=2, result={"note_id": "n1"})


@pytest.mark.parametrize("entry", [make_entry(), running_entry(), done_entry(), full_entry()])
def test_an_entry_comes_back_as_it_was_written(entry: Entry) -> None:
    assert CODEC.validate_json(CODEC.dump_json(entry, exclude_defaults=True)) == entry


def test_an_entry_of_an_older_version_is_still_read() -> None:
    older = CODEC.dump_json(queued_entry(), exclude_defaults=True)
    assert b"answered_at" not in older
    assert CODEC.validate_json(older).answered_at is None


def test_the_words_for_states_never_change() -> None:
    assert [state.value for state in State] == ["accepted", "running", "done", "needs_attention"]
