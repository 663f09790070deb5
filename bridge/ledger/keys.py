"""The catalogue of every Redis key that is ours. RQ's own keys are listed in its documentation and start with `rq:`.

| key | type | holds | life |
| --- | --- | --- | --- |
| `cb:born` | string | when this ledger was first written, seconds by Redis's clock | for ever |
| `cb:replaced` | string | this ledger replaced another: Redis lost everything | an hour |
| `cb:entry:<call key>` | string | the entry, JSON (bridge/ledger/entry.py) | open: no end; done: DONE_DAYS; by hand: ATTENTION_DAYS |
| `cb:trail:<call key>` | list | its story, a JSON line for each thing that happened, the newest TRAIL_LINES | as the entry |
| `cb:raw:<call key>` | list | the events as they came, JSON, the first RAW_EVENTS | as the entry |
| `cb:repeats:<call key>` | hash | event fingerprint → how often it was delivered again | as the entry |
| `cb:index:all` | zset | call keys by the time they were accepted | trimmed with the entries |
| `cb:index:<name>:<value>` | zset | the same for one value of those that `rows` names (bridge/ledger/index.py) | trimmed with the entries |
| `cb:index:state:<state>` | zset | one of them, which `/metrics` reads as well | trimmed with the entries |
| `cb:index:attention` | zset | call keys that need attention, by the time until when somebody should have acted | while they do |
| `cb:index:owed:<process>` | zset | call keys by the time since which something is owed for them (bridge/ledger/owed.py) | while it is |
| `cb:took:<process>:<what>` | hash | histogram, seconds from owed to there: upper bound → how many, `sum` | for ever |
| `cb:alert:<process>:<cause>` | string | an alert, JSON: since when, who was told what (bridge/watch/standing.py) | ALERT_LIFE_S |
| `cb:storm:<digest>` | list | when alerts of one cause were let through, newest first (bridge/watch/guard.py) | a minute, renewed |
| `cb:storm:<digest>:bucket` | hash | when five may leave in a row again, and when one was last seen | five hours, less with fewer |
| `cb:storm:<digest>:withheld` | string | how many were only counted since | two hours, renewed |
| `cb:hours:<day>` | hash | `<hour>.<what>` → how many were accepted, failed, became leads, and how fast; since the epoch | HOURS_LIFE_S |
| `cb:replays` | string | when the next replay may start, so that a thousand of them leave room for live calls | until then |
| `cb:login:*` | string | failed logins to the console, by address and by name (Flask-Limiter) | a quarter of an hour, an hour |
| `cb:bulk:*` | string, hash | bulk actions of the console (bridge/console/bulk.py) | an hour to a week |
| `cb:logout:<session>` | string | a session that was ended before its time | 12 hours |
| `cb:index:due` | zset | call keys by the time at which the sweeper has to look at them | while open |
| `cb:claim:<location>:<digest>` | hash | who creates this contact, or which one it is (claims.py) | 400 days after its last use |
| `cb:count` | hash | name → how often since the ledger was born | for ever |
| `cb:ignored:<shelf>` | zset | requests that made no call (bridge/ledger/ignored.py): id, reason, by time | IGNORED_DAYS |
| `cb:ignored:<shelf>:raw` | hash | the same → the event as it came, JSON | with its row |
| `cb:ignored:<shelf>:bytes` | string | how much they hold together | for ever |
| `cb:ignored` | list | the same as version 1.0.0 kept it; brought over to `unread` | until then |
| `cb:no-lead:<call key>` | string | outbound or internal: this call makes no lead, whatever its later events leave out | NO_LEAD_LIFE_S |
| `cb:sweeper` | string | which sweeper of the deployment acts now | SWEEPER_LEASE_S, renewed |
| `cb:location:<location>` | string | the location's settings as the CRM told them | one hour; a minute where it refused to |
| `cb:pace:<location>:*` | zset, string | the rate budget shared by all workers (bridge/crm/pacing.py) | a window to two days |
| `cb:backfill:*`, `cb:sums` | string, hash | how far the providers' lists were read, and the daily sums | till read again |
| `cb:silence:*` | hash, string | when each number was last heard, and what is missed (bridge/watch/silence.py) | weeks |
"""

from __future__ import annotations

import hashlib

BORN = "cb:born"
REPLACED = "cb:replaced"
ALL = "cb:index:all"
DUE = "cb:index:due"
ATTENTION = "cb:index:attention"
COUNT = "cb:count"
IGNORED = "cb:ignored"
SWEEPER = "cb:sweeper"
REPLAYS = "cb:replays"
LOGINS = "cb:login:"

TRAIL_LINES = 300
RAW_EVENTS = 32
UNREAD_BYTES = 32 * 1024 * 1024  # some 15,000 events of the usual size
UNREAD_KEPT = 50_000
OTHER_BYTES = 8 * 1024 * 1024
OTHER_KEPT = 500
NO_LEAD_LIFE_S = 86_400
HOURS_LIFE_S = 100 * 86_400
ALERT_LIFE_S = 7 * 86_400


def entry(call_key: str) -> str:
    return f"cb:entry:{call_key}"


def trail(call_key: str) -> str:
    return f"cb:trail:{call_key}"


def raw(call_key: str) -> str:
    return f"cb:raw:{call_key}"


def repeats(call_key: str) -> str:
    return f"cb:repeats:{call_key}"


def of_call(call_key: str) -> tuple[str, ...]:
    """Every key that lives and dies with one entry."""
    return entry(call_key), trail(call_key), raw(call_key), repeats(call_key)


def index(name: str, value: str) -> str:
    return f"cb:index:{name}:{value}"


def shelf(name: str) -> tuple[str, str, str]:
    """Rows, documents and size of one shelf of ignored events."""
    rows = f"cb:ignored:{name}"
    return rows, f"{rows}:raw", f"{rows}:bytes"


def bulk_shown(name: str) -> str:
    """What a page of bulk actions has shown, until it is pressed."""
    return f"cb:bulk:shown:{name}"


def bulk(work_id: str) -> str:
    return f"cb:bulk:{work_id}"


def bulk_rows(work_id: str) -> str:
    return f"{bulk(work_id)}:rows"


def bulk_lock(work_id: str) -> str:
    """There while a request works at it."""
    return f"{bulk(work_id)}:at work"


def logged_out(session_id: str) -> str:
    """There for as long as the cookie of an ended session could still be shown, by whoever has a copy."""
    return f"cb:logout:{session_id}"


def no_lead(call_key: str) -> str:
    return f"cb:no-lead:{call_key}"


def state_index(state: str) -> str:
    return index("state", state)


def owed(process: str) -> str:
    return index("owed", process)


def took(process: str, what: str) -> str:
    return f"cb:took:{process}:{what}"


def alert(process: str, cause: str) -> str:
    return f"cb:alert:{process}:{cause}"


def storm(fingerprint: str) -> str:
    """`fingerprint` may be anything that tells causes apart."""
    return f"cb:storm:{digest(fingerprint)}"


def hours(day: int) -> str:
    """`day` counts from the epoch (UTC)."""
    return f"cb:hours:{day}"


def digest(number: str) -> str:
    """In place of a number, so that none stands in the name of a key."""
    return hashlib.sha256(number.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def claim(location_id: str, who: str) -> str:
    """`who` is the caller in E.164, or a call key where the caller has no identity. Digested, so that no number stands in a key."""
    return f"cb:claim:{location_id}:{digest(who)}"
