"""What one EXEC writes beside the entry: its index rows, the hour's figures, how calls ended, and what is still owed for it."""

from __future__ import annotations

from redis.client import Pipeline

from bridge.ledger import index, keys, owed
from bridge.ledger.entry import Entry

# KEYS[1] who is owed since when   KEYS[2] histogram since the ledger's birth   KEYS[3] the day's figures
# ARGV[1] call key   ARGV[2] now   ARGV[3] prefix of the field in the day's figures   ARGV[4…] upper bounds of the buckets
_TOOK = """
local since = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not since then return end
local took, bucket = math.max(tonumber(ARGV[2]) - tonumber(since), 0), '+Inf'
for i = 4, #ARGV do
  if took <= tonumber(ARGV[i]) then bucket = ARGV[i] break end
end
redis.call('HINCRBY', KEYS[2], bucket, 1)
redis.call('HINCRBYFLOAT', KEYS[2], 'sum', string.format('%.3f', took))
redis.call('HINCRBY', KEYS[3], ARGV[3] .. bucket, 1)
"""


def write(pipe: Pipeline, old: Entry | None, entry: Entry, now: float) -> None:
    """Add the difference between `old` and `entry` to the caller's MULTI. `now` is in seconds since the epoch, by Redis's clock."""
    _index(pipe, old, entry)
    _count_hour(pipe, old, entry, now)
    for name in index.ended(old, entry):
        pipe.hincrby(keys.COUNT, name, 1)
    _owe(pipe, old, entry, now)


def _index(pipe: Pipeline, old: Entry | None, entry: Entry) -> None:
    difference = index.difference(old, entry)
    for name in difference.gone:
        pipe.zrem(name, entry.call_key)
    for name, score in difference.changed.items():
        pipe.zadd(name, {entry.call_key: score})


def _owe(pipe: Pipeline, old: Entry | None, entry: Entry, now: float) -> None:
    """Time what was reached before the row that says since when goes."""
    process, hour = owed.process(entry), index.hour(now)
    name, day = keys.owed(process), keys.hours(hour // 24)
    for what in owed.reached(old, entry):
        bounds = (str(bound) for bound in owed.BOUNDS)
        pipe.eval(_TOOK, 3, name, keys.took(process, what), day, entry.call_key, repr(now), f"{hour}.{what}_s:", *bounds)
        pipe.expire(day, keys.HOURS_LIFE_S)
    row = owed.row(old, entry, now)
    if row is not None and row.score is None:
        pipe.zrem(name, entry.call_key)
    elif row is not None and row.score is not None:
        pipe.zadd(name, {entry.call_key: row.score})


def _count_hour(pipe: Pipeline, old: Entry | None, entry: Entry, now: float) -> None:
    hour = index.hour(now)
    told = index.counted(old, entry)
    for what in told:
        pipe.hincrby(keys.hours(hour // 24), f"{hour}.{what}", 1)
    if told:
        pipe.expire(keys.hours(hour // 24), keys.HOURS_LIFE_S)
