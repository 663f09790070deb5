"""Later calls of the same caller: whoever has been brought since need not be brought again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from bridge.intake.replay import began_at
from bridge.ledger import keys
from bridge.ledger.entry import Entry, State
from bridge.ledger.store import Store

LOOK = 200  # newest calls of a caller that are looked through, whatever became of them
READ = 20  # of those that are done, the newest


def brought(store: Store, entries: Iterable[Entry]) -> dict[str, Entry]:
    """Call key → a call of the same caller that began after it and has its lead, the newest. However the calls after that one went.

    Bounded work for each caller, so a caller with hundreds of failed calls since may be missed. Raises redis.RedisError.
    """
    phones = {entry.call_key: phone for entry in entries if (phone := entry.facts.caller.e164 if entry.facts.caller else None)}
    done = _done(store, sorted(set(phones.values())))
    known = {entry.call_key: entry for entry in store.get_many({call_key for calls in done.values() for call_key in calls})}
    told = {}
    for entry in entries:
        others = [known[one] for one in done.get(phones.get(entry.call_key, ""), ()) if one in known and one != entry.call_key]
        later = [one for one in others if one.state is State.DONE and one.contact_id and began_at(one) > began_at(entry)]
        if later:
            told[entry.call_key] = max(later, key=began_at)
    return told


def _done(store: Store, phones: Sequence[str]) -> dict[str, list[str]]:
    """Telephone number → keys of its newest calls that are done."""
    with store.connection.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.zrange(keys.index("caller", keys.digest(phone)), 0, LOOK - 1, desc=True)
        rows = dict(zip(phones, cast("list[list[bytes]]", pipe.execute()), strict=True))
    rows = {phone: calls for phone, calls in rows.items() if calls}
    with store.connection.pipeline(transaction=False) as pipe:
        for calls in rows.values():
            pipe.zmscore(keys.state_index(State.DONE), calls)  # type: ignore[arg-type]  # bytes are keys as well
        scores = cast("list[list[float | None]]", pipe.execute())
    done = zip(rows.items(), scores, strict=True)
    return {
        phone: [call.decode() for call, score in zip(calls, told, strict=True) if score is not None][:READ] for (phone, calls), told in done
    }
