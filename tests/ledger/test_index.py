"""Which rows an entry has, and what it adds to its hour: pure, by tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.ledger import index, keys, moves
from bridge.ledger.entry import Cause, Entry
from tests.support.builders import (
    ANONYMOUS,
    NOW,
    PHONE,
    done_entry,
    entry_in,
    make_call,
    make_entry,
    parked_entry,
    queued_entry,
    running_entry,
)

DIALLED = "+15550109999"
WITHHELD = "without_lead.the caller withheld the number"


def test_an_entry_stands_in_the_index_of_everything_that_it_is() -> None:
    entry = moves.adopt(parked_entry(), "c1", created=True)
    assert index.rows(entry) == {
        "cb:index:all": NOW,
        "cb:index:state:needs_attention": NOW,
        "cb:index:cause:permanent": NOW,
        "cb:index:owner:anna": NOW,
        "cb:index:provider:twilio": NOW,
        "cb:index:location:loc1": NOW,
        "cb:index:contact:c1": NOW,
        f"cb:index:dialled:{keys.digest(DIALLED)}": NOW,
        f"cb:index:caller:{keys.digest(PHONE)}": NOW,
        "cb:index:last4:1234": NOW,
        "cb:index:attention": NOW + 60,
    }


def test_a_caller_without_a_number_stands_in_no_index_of_callers() -> None:
    names = index.rows(make_entry(facts=make_call(caller=ANONYMOUS, dialled=None)))
    assert not [name for name in names if ":caller:" in name or ":last4:" in name or ":dialled:" in name]


def test_no_number_stands_in_the_name_of_an_index() -> None:
    names = " ".join(index.rows(parked_entry()))
    assert PHONE.strip("+") not in names
    assert DIALLED.strip("+") not in names


@pytest.mark.parametrize("before", [None, *("accepted", "running", "done", "needs_attention")])
@pytest.mark.parametrize("after", ["accepted", "running", "done", "needs_attention"])
def test_the_difference_leads_from_any_entry_to_any_other(before: str | None, after: str) -> None:
    old, new = entry_in(before) if before else None, entry_in(after)
    difference = index.difference(old, new)
    shown = index.rows(old) if old else {}
    for name in difference.gone:
        del shown[name]
    assert shown | difference.changed == index.rows(new)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (running_entry(), parked_entry(), ("parked",)),
        (None, parked_entry(), ("parked",)),  # a conflict, or a call that died three times: no worker parks those
        (parked_entry(), parked_entry(), ()),
        (running_entry(), replace(done_entry(), contact_id="c1"), ("done",)),
        (running_entry(), replace(done_entry(), contact_id=None, reason="the caller withheld the number"), ("done", WITHHELD)),
        (queued_entry(), replace(done_entry(), contact_id=None, reason="wrong number", closed_by="anna"), ()),
        (done_entry(), queued_entry(), ()),
    ],
)
def test_an_end_is_counted_once_whoever_brings_it_about(old: Entry | None, new: Entry, told: tuple[str, ...]) -> None:
    assert index.ended(old, new) == told


def test_what_has_not_changed_is_not_written() -> None:
    entry = queued_entry()
    assert index.difference(entry, entry) == index.Difference((), {})
    assert index.difference(entry, replace(entry, check_at=NOW + 99)).changed == {keys.DUE: NOW + 99}


AGAIN = {"delay": 1.0, "spend": True, "cause": "worker.shutdown", "message": "over", "step": None, "trace_id": None}
DYING = replace(running_entry(), deaths=moves.DEATHS_ALLOWED - 1)
LEAD = moves.adopt(running_entry(), "c1", created=True)
COUNTED: list[tuple[Entry | None, Entry, tuple[str, ...]]] = [
    (None, queued_entry(), ("accepted",)),
    (queued_entry(), running_entry(), ()),
    (running_entry(), LEAD, ("leads",)),
    (LEAD, LEAD, ()),
    (moves.lose_contact(LEAD), LEAD, ()),
    (running_entry(), parked_entry(), ("failures",)),
    (parked_entry(), parked_entry(Cause.CONFLICT), ()),
    (parked_entry(), queued_entry(), ()),
    (done_entry(), parked_entry(), ("failures",)),
    (running_entry(), moves.put_back(running_entry(), NOW), ("died",)),
    (DYING, moves.put_back(DYING, NOW), ("failures", "died")),
    (running_entry(), moves.begin(running_entry(), NOW, lease_s=30, worker="w2"), ("died",)),
    (running_entry(), moves.wait(running_entry(), NOW, **AGAIN | {"cause": "worker.timeout"}), ("timed_out",)),
    (running_entry(), moves.wait(running_entry(), NOW, **AGAIN), ()),
    (moves.wait(running_entry(), NOW, **AGAIN | {"cause": "worker.timeout"}), queued_entry(), ()),
]


@pytest.mark.parametrize(("old", "new", "told"), COUNTED)
def test_a_call_is_counted_once_for_each_thing_that_it_becomes(old: Entry | None, new: Entry, told: tuple[str, ...]) -> None:
    assert index.counted(old, new) == told
