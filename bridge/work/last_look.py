"""The last look before a replayed call sends anything: what a person has not answered for stops it.

A page that puts a thousand calls back cannot ask about each of them, and hours may pass until their turn comes. So each asks by itself,
right before its first effect, at the pace of work that may wait: one request, and one more where the call has a contact already.
"""

from __future__ import annotations

from bridge.crm.base import Crm
from bridge.errors import Permanent
from bridge.intake import replay
from bridge.ledger.by_hand import FIND
from bridge.ledger.entry import Entry

HINT = "Look at the contact, then replay the call with a reason if it shall be brought all the same, else close it."


def take(crm: Crm, entry: Entry, now: float, *, new_for_s: float) -> None:
    """Returns where nothing speaks against the replay that nobody has answered for.

    Raises Permanent with the first that does: its cause is one of replay.WORDS. Raises StepFailed where the CRM cannot be asked.
    A contact that the call itself made less than `new_for_s` seconds ago may not show everywhere: that it does not is no doubt.
    """
    made = entry.steps.get(FIND)
    is_new = entry.contact_created and made is not None and now < made.at + new_for_s
    known = replay.OF_NEW if is_new else ()
    seen = replay.ask(crm, entry)
    for doubt in replay.doubts(entry, seen):
        if doubt.name not in (*entry.vouched, *known):
            raise Permanent(doubt.say, cause=replay.WORDS[doubt.name], hint=HINT)
