"""Who may create the contact of one caller, and which contact it is: the lasting record per (location, caller).

Two things with different lives are kept in it. The *lease* is the right to act: it runs out, and a fencing token that grows with each
acquisition makes late writes of an earlier holder fail. The *memory* never runs out with it: an announced create stays open until its
outcome is known, and the contact id stays once it is.

All of it is Lua, with times by Redis's clock (bridge/clock.py), so that the clock of one machine cannot end another's lease. A holder
judges its lease by its own monotonic clock, counted from before it asked, so it never believes it to be longer than the others do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import redis

from bridge.clock import Clock
from bridge.errors import Fenced, NotYet
from bridge.ledger import keys

LIFE_S = 400 * 86_400
POLL_S = 0.05

# KEYS[1] the claim (hash: owner, token, lease_until, contact_id, contact_at, intent_at, intents)
# ARGV[1] now   ARGV[2] owner   ARGV[3] lease, seconds   ARGV[4] life, seconds
# Returns {got, token, contact_id, intent age or "", intents, seconds until the other's lease ends, seconds since the CRM showed it}.
# A claim that knows its contact is only read: nobody has to wait for a lease that nobody needs.
_ACQUIRE = """
local now = tonumber(ARGV[1])
local c = redis.call('HMGET', KEYS[1], 'owner', 'token', 'lease_until', 'contact_id', 'intent_at', 'intents', 'contact_at')
local age = c[5] and tostring(now - tonumber(c[5])) or ''
if c[4] then
  redis.call('EXPIRE', KEYS[1], ARGV[4])
  return {1, c[2] or '0', c[4], age, c[6] or '0', '0', tostring(now - (tonumber(c[7]) or 0))}
end
if c[1] and c[1] ~= ARGV[2] and tonumber(c[3]) > now then
  return {0, c[2], '', age, c[6] or '0', tostring(tonumber(c[3]) - now), '0'}
end
local token = (tonumber(c[2]) or 0) + 1
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'token', token, 'lease_until', tostring(now + tonumber(ARGV[3])))
redis.call('EXPIRE', KEYS[1], ARGV[4])
return {1, tostring(token), '', age, c[6] or '0', '0', '0'}
"""

# KEYS[1] the claim   ARGV[1] now   ARGV[2] token   ARGV[3] lease, seconds
# ARGV[4] seconds until the announced request can no longer be under way, or "" to announce nothing
# Returns 1, or 0 where the token is not the newest any more.
_EXTEND = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] or not redis.call('HGET', KEYS[1], 'owner') then return 0 end
local now = tonumber(ARGV[1])
redis.call('HSET', KEYS[1], 'lease_until', tostring(now + tonumber(ARGV[3])))
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'intent_at', tostring(now + tonumber(ARGV[4])))
  redis.call('HINCRBY', KEYS[1], 'intents', 1)
end
return 1
"""

# KEYS[1] the claim   ARGV[1] now   ARGV[2] token   ARGV[3] contact id, or ""
# ARGV[4] 1: forget the intent, 2: its answer was lost just now
# Returns 1, or 0 where the token is not the newest any more.
_SETTLE = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return 0 end
if ARGV[4] == '1' then redis.call('HDEL', KEYS[1], 'intent_at') end
if ARGV[4] == '2' then redis.call('HSET', KEYS[1], 'intent_at', ARGV[1]) end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'contact_id', ARGV[3], 'contact_at', ARGV[1]) end
return 1
"""

# KEYS[1] the claim   ARGV[2] token. Gives the lease up; the memory stays.
_RELEASE = """
if redis.call('HGET', KEYS[1], 'token') == ARGV[2] then redis.call('HDEL', KEYS[1], 'owner', 'lease_until') end
return 1
"""

# KEYS[1] the claim   ARGV[1] now   ARGV[2] the contact that the CRM has just shown for this caller
_CONFIRM = """
if redis.call('HGET', KEYS[1], 'contact_id') == ARGV[2] then redis.call('HSET', KEYS[1], 'contact_at', ARGV[1]) end
return 1
"""

# KEYS[1] the claim   ARGV[2] the contact that is gone. Another contact, learnt meanwhile, stays.
_FORGET = """
if redis.call('HGET', KEYS[1], 'contact_id') == ARGV[2] then redis.call('HDEL', KEYS[1], 'contact_id', 'contact_at') end
return 1
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker holds. Without a contact id it holds the lease until `deadline` (its own monotonic clock)."""

    name: str
    token: str
    contact_id: str | None
    contact_age_s: float  # since the CRM last showed that contact for this caller
    intent_age_s: float | None  # since an earlier create of unknown outcome was last possibly under way; None: there is none
    intents: int  # creates announced so far
    deadline: float

    def outlives(self, seconds: float, now: float) -> bool:
        return self.deadline - now > seconds


class Claims:
    """The claims of one deployment. Every method raises redis.RedisError when Redis cannot be reached."""

    def __init__(
        self,
        connection: redis.Redis,
        clock: Clock,
        *,
        lease_s: float,
        wait_s: float = 2.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._monotonic = monotonic
        self._sleep = sleep

    def acquire(self, location_id: str, who: str, *, owner: str) -> Claim:
        """The claim on `who` in a location. Waits `wait_s` for another holder, then raises NotYet (`claim.busy`)."""
        name = keys.claim(location_id, who)
        give_up = self._monotonic() + self._wait_s
        while True:
            asked = self._monotonic()
            got, token, contact_id, age, intents, left, contact_age = self._run(_ACQUIRE, name, owner, self._lease_s, LIFE_S)
            if got:
                return Claim(
                    name,
                    token.decode(),
                    contact_id.decode() or None,
                    float(contact_age),
                    float(age) if age else None,
                    int(intents),
                    asked + self._lease_s,
                )
            if asked >= give_up:
                raise NotYet(
                    "another call of the same caller is creating the contact", cause="claim.busy", retry_in=min(float(left), 1.0) + 0.1
                )
            self._sleep(POLL_S)

    def announce(self, claim: Claim, *, timeout_s: float) -> Claim:
        """Write the intent to create, with a lease that outlives the request's whole timeout. Raises Fenced, having written nothing."""
        return self._extend(claim, lease_s=max(self._lease_s, timeout_s + 1.0), under_way_s=timeout_s)

    def renew(self, claim: Claim) -> Claim:
        """A full lease again. Raises Fenced."""
        return self._extend(claim, lease_s=self._lease_s, under_way_s=None)

    def resolve(self, claim: Claim, contact_id: str) -> None:
        """This caller's contact is known; no create is open any more. Raises Fenced: whoever holds the claim now finds it by looking."""
        self._settle(claim, contact_id, "1")

    def withdraw(self, claim: Claim) -> None:
        """The announced create is known to have created nothing. Raises Fenced."""
        self._settle(claim, "", "1")

    def lost(self, claim: Claim) -> None:
        """The answer to the announced create was lost just now: settling counts from here. Raises Fenced."""
        self._settle(claim, "", "2")

    def release(self, claim: Claim) -> None:
        if claim.contact_id is None:
            self._run(_RELEASE, claim.name, claim.token)

    def confirm(self, claim: Claim) -> None:
        """The CRM has shown once more that this contact is the caller's."""
        self._run(_CONFIRM, claim.name, claim.contact_id or "")

    def forget(self, location_id: str, who: str, contact_id: str) -> None:
        """The CRM says that this contact is gone, or is not this caller's any more."""
        self._run(_FORGET, keys.claim(location_id, who), contact_id)

    def now(self) -> float:
        """The clock by which `Claim.deadline` is judged."""
        return self._monotonic()

    def _extend(self, claim: Claim, *, lease_s: float, under_way_s: float | None) -> Claim:
        asked = self._monotonic()
        if not self._run(_EXTEND, claim.name, claim.token, lease_s, "" if under_way_s is None else under_way_s):
            raise Fenced("another worker holds this caller's claim now")
        return replace(claim, deadline=asked + lease_s, intents=claim.intents + (under_way_s is not None))

    def _settle(self, claim: Claim, contact_id: str, intent: str) -> None:
        if not self._run(_SETTLE, claim.name, claim.token, contact_id, intent):
            raise Fenced("another worker holds this caller's claim now")

    def _run(self, script: str, name: str, *arguments: str | float) -> Any:  # noqa: ANN401 - a script answers what it wants
        return self._connection.eval(script, 1, name, repr(self._clock.now()), *(str(argument) for argument in arguments))
