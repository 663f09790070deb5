"""What a person may do to an entry. Pure, like the other moves (bridge/ledger/moves.py), on which it builds.

A replay is not queued at once: it waits for its turn, and the sweeper starts it (`REPLAY` says so). A thousand of them would otherwise
stand in the queue before the next live call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bridge.errors import WrongMove
from bridge.ledger import moves
from bridge.ledger.entry import DUE_IN_S, Entry, State

REPLAY = "replay"
FIND = "find_or_create_lead"  # the step that says which contact is the call's; the others build on it


def mark(entry: Entry) -> str:
    """What a page has seen of an entry. An action on another mark is refused: the call has moved on since the page was made."""
    return f"{entry.state.value}.{entry.version}.{entry.attempt}"


def replay(
    entry: Entry,
    now: float,
    *,
    start_at: float,
    from_step: str | None = None,
    order: Sequence[str] = (),
    vouched: tuple[str, ...] = (),
) -> Entry:
    """Put a call back, to be started at `start_at`. With `from_step` that step and those behind it in `order` are done again.

    `vouched` names what speaks against it and was answered for; what else speaks against it stops it before its first effect
    (bridge/work/last_look.py). Raises WrongMove for a call that waits or runs already.
    """
    if entry.state not in (State.NEEDS_ATTENTION, State.DONE):
        raise WrongMove(f"{entry.call_key}: it is {entry.state} already; a replay would change nothing")
    fresh = redo(entry, from_step, order) if from_step else entry
    back = replace(moves.replay(fresh, now), is_replay=True, vouched=vouched)
    return replace(back, queued_at=None, check_at=None, next_try_at=start_at, waiting_for=REPLAY)


def redo(entry: Entry, step: str, order: Sequence[str]) -> Entry:
    """The entry as if `step` and those behind it had not been done. What they left in the CRM is looked for before anything is written."""
    kept = {name: done for name, done in entry.steps.items() if name in order[: order.index(step)]}
    found_anew = step == FIND
    return replace(
        entry,
        steps=kept,
        notes_unknown=True,
        contact_id=None if found_anew else entry.contact_id,
        contact_created=False if found_anew else entry.contact_created,
    )


def adopt(entry: Entry, now: float, contact_id: str, *, start_at: float, vouched: tuple[str, ...] = ()) -> Entry:
    """A person says which contact is the call's; the steps behind that are done anew on it. `vouched` and WrongMove as in `replay`."""
    back = replay(entry, now, start_at=start_at, vouched=vouched)
    adopted = moves.adopt(replace(back, steps={}, intents={}, notes_unknown=True), contact_id, created=False)
    return moves.record(adopted, FIND, now, version=entry.version, result={"how": "by hand"})


def close(entry: Entry, *, reason: str, by: str) -> Entry:
    """Done, by hand. Raises WrongMove for a call that does not need attention."""
    if entry.state is not State.NEEDS_ATTENTION:
        raise WrongMove(f"{entry.call_key}: it is {entry.state}; only a call that needs attention can be closed by hand")
    return moves.close(entry, reason=reason, by=by)


def assign(entry: Entry, now: float, owner: str) -> Entry:
    """Somebody else answers for it. A call that needs attention is due anew from now, at the earliest at its old time."""
    if entry.trouble is None:
        return replace(entry, owner=owner)
    due_at = max(entry.trouble.due_at, now + DUE_IN_S) if owner != entry.owner else entry.trouble.due_at
    return replace(entry, owner=owner, trouble=replace(entry.trouble, due_at=due_at))


def postpone(entry: Entry, start_at: float) -> Entry:
    """A replay whose turn has come while live calls wait."""
    return replace(entry, next_try_at=start_at)
