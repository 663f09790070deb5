"""What the commands and the worker need to read the phone systems' own lists of calls, built from the parts."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from bridge.crm.pacing import LIVE_SHARE
from bridge.intake.backfill import REQUESTS_A_CALL, Backfill, Found
from bridge.intake.catch_up import CatchUp
from bridge.ledger import owed
from bridge.parts import Parts
from bridge.providers import lists
from bridge.providers.lists import Lists
from bridge.settings import Settings
from bridge.watch import notify
from bridge.watch.silence import Silence
from bridge.watch.standing import Book


def configured(parts: Parts) -> Lists:
    """Raises WrongSettings where a setting of a list cannot be used."""
    return lists.build(parts.settings, parts.providers)


def pause_s(settings: Settings) -> float:
    """Between the starts of two calls that came by backfill: together they leave live calls their share of the CRM's budget."""
    background_rate = settings.ghl_burst / settings.ghl_burst_window_s * (1 - LIVE_SHARE)
    return REQUESTS_A_CALL / background_rate


def make_backfill(parts: Parts) -> Backfill:
    return Backfill(parts.store, parts.plan, parts.settings, every_s=pause_s(parts.settings))


def make_silence(parts: Parts) -> Silence:
    settings = parts.settings
    return Silence(
        store=parts.store,
        book=Book(parts.connection),
        routes=notify.routes(settings),
        public_url=settings.public_url,
        owner=settings.bridge_owner,
        process=owed.PROCESS,
        after_calls=settings.silence_after_calls,
    )


def make_catch_up(parts: Parts) -> CatchUp:
    """The backfill that runs by itself, with the silence alarm behind it. Connects to nothing."""
    settings, silence, found_lists = parts.settings, make_silence(parts), configured(parts)
    providers = sorted(parts.providers)

    def after(found: Sequence[Found]) -> None:
        missed = {name: [key for one in found if one.listed.lister.name == name for key in one.missed] for name in providers}
        silence.look(providers, missed)

    return CatchUp(
        parts.store,
        make_backfill(parts),
        found_lists,
        every_s=settings.backfill_every_s,
        overlap_s=settings.backfill_overlap_s,
        after=after,
    )


def start_catch_up(parts: Parts, stopping: threading.Event) -> None:
    """In a thread of its own: reading a list takes longer than the sweeper's lease lasts. `parts` belong to that thread alone."""
    if parts.settings.backfill_every_s:
        catch_up = make_catch_up(parts)
        threading.Thread(target=catch_up.run, args=(stopping.wait,), name="backfill", daemon=True).start()
