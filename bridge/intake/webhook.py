"""A webhook's way in: prove the sender, read the event, keep it, answer. The CRM is never asked, so the answer never waits for it.

What is kept where: an event in the ledger; one that makes no call among the ignored, raw and with its reason (whole, where it could not be
understood); either of them in the local spool while Redis cannot be reached. What is not proven to come from the provider is answered 401
or 403 and leaves a counter, nothing else.
"""

from __future__ import annotations

import collections
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import redis

from bridge.errors import Refused, Unstorable
from bridge.intake.accept import Acceptor, Event
from bridge.intake.raw import masks, raw
from bridge.intake.spool import Spool, Spooled
from bridge.ledger.entry import Taken
from bridge.ledger.store import Store
from bridge.providers.base import Answer, Heard, Ignored, Kind, Provider, Sender, WebhookRequest
from bridge.watch.logs import bound, fact

log = logging.getLogger(__name__)

BODY_LIMIT = 256 * 1024
REST_S = 1.0  # how long a Redis that just failed is left alone: nobody on the line waits for a second time-out


@dataclass
class Receiver:
    """The webhook room, without a web framework."""

    providers: Mapping[str, Provider]
    acceptor: Acceptor
    store: Store
    spool: Spool
    secrets: Sequence[str] = ()  # what no stored event may hold
    flush_after_s: float = 5.0

    def __post_init__(self) -> None:
        self._masks = masks(self.secrets)
        self._refusals: collections.Counter[str] = collections.Counter()
        self._flush: threading.Timer | None = None
        self._lock = threading.Lock()
        self._rest_until = 0.0

    def receive(self, provider: Provider, request: WebhookRequest) -> Answer:
        """What the provider gets to hear. Never raises."""
        try:
            sender = _verify(provider, request)
        except Refused as refused:
            self._count(f"refused.{provider.name}:{refused.reason}")
            fact(log, "webhook refused", provider=provider.name, reason=refused.reason, hint=str(refused))
            return Answer(refused.status, "application/json", json.dumps({"error": str(refused)}).encode())
        heard = _parse(provider, request, sender)
        if isinstance(heard, Ignored) and not heard.keep:
            self._count(f"events.ignored:{heard.reason}")
            return provider.answer(heard.kind, request)
        try:
            self._keep(provider, request, sender, heard)
        except Unstorable as unstorable:
            fact(log, "event could not be kept", level=logging.ERROR, provider=provider.name, error=unstorable)
            return Answer(503, "text/plain", b"The event could not be stored; send it again.\n", {"Retry-After": "5"})
        return provider.answer(heard.kind, request)

    def take_spooled(self, item: Spooled) -> None:
        """Bring one event from the spool into the ledger. Raises redis.RedisError while Redis cannot be reached, and then it stays."""
        provider = self.providers[item.provider]
        public_url = item.headers.get(PUBLIC_URL_HEADER, "")
        headers = {name: value for name, value in item.headers.items() if name != PUBLIC_URL_HEADER}
        path, mark, _ = item.path.partition("?")
        request = WebhookRequest(item.method, path, item.query, headers, item.body, public_url, item.received_at, bool(mark))
        sender = _verify(provider, request) if item.account is None else Sender(item.account)  # proven when it came, if by another secret
        self._store_event(request, _parse(provider, request, sender), source="spool")

    def _count(self, name: str) -> None:
        """Kept in memory and written a little later, many at once: a forged request costs no round trip."""
        with self._lock:
            self._refusals[name] += 1
            if self._flush is None:
                self._flush = threading.Timer(self.flush_after_s, self.flush_counts)
                self._flush.daemon = True
                self._flush.start()

    def flush_counts(self) -> None:
        """Write the refusals counted since the last time."""
        with self._lock:
            counted, self._refusals, self._flush = self._refusals, collections.Counter(), None
        try:
            self.store.count_many(counted)
        except redis.RedisError:
            with self._lock:
                self._refusals.update(counted)

    def _keep(self, provider: Provider, request: WebhookRequest, sender: Sender, heard: Heard | Ignored) -> None:
        """In the ledger, or in the spool: while Redis is away, or where it cannot be taken. Raises Unstorable."""
        if time.monotonic() >= self._rest_until:
            try:
                self._store_event(request, heard, source="webhook")
            except redis.RedisError as error:
                self._rest_until = time.monotonic() + REST_S
                fact(log, "Redis is away; events go to the spool", level=logging.WARNING, error=error)
            except ValueError as error:  # such as an entry that a newer release wrote, after a step back: others can be taken
                fact(log, "an event could not be taken; it waits in the spool", level=logging.ERROR, provider=provider.name, error=error)
            else:
                return
        headers = dict(request.headers) | {PUBLIC_URL_HEADER: request.public_url}
        path = f"{request.path}?" if request.has_bare_mark else request.path
        self.spool.put(Spooled(provider.name, request.method, path, request.query, headers, request.body, request.now, sender.account))

    def _store_event(self, request: WebhookRequest, heard: Heard | Ignored, *, source: str) -> None:
        if isinstance(heard, Ignored):
            self._store_ignored(request, heard, source)
            return
        kept = raw(request, source, self._masks)
        event = Event(heard.call, request.what, heard.content, heard.delivery_id, source, kept, heard.is_guess)
        with bound(call_key=heard.call.key):
            taken = self.acceptor.accept(event)
            fact(log, "event ignored" if taken is Taken.IGNORED else "event accepted", taken=taken.value, what=request.what, source=source)

    def _store_ignored(self, request: WebhookRequest, heard: Ignored, source: str) -> None:
        if heard.call is not None:
            kept = raw(request, source, self._masks)
            self.acceptor.ignore(heard.call, request.what, kept, heard.reason, source=source)
        else:
            kept = raw(request, source, self._masks, is_whole=not heard.is_understood)
            self.store.keep_ignored(kept, heard.reason, is_understood=heard.is_understood)
        fact(log, "event ignored", reason=heard.reason, what=request.what)


PUBLIC_URL_HEADER = "x-callbridge-public-url"  # in the spool only: the base that the signature was made for


def _verify(provider: Provider, request: WebhookRequest) -> Sender:
    """A question mark with nothing behind it may have been signed, or left out."""
    if request.has_bare_mark:
        try:
            return _verify_as_sent(provider, request)
        except Refused:
            return _verify_as_sent(provider, replace(request, has_bare_mark=False))
    return _verify_as_sent(provider, request)


def _verify_as_sent(provider: Provider, request: WebhookRequest) -> Sender:
    try:
        return provider.verify(request)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"the signature could not be read ({type(error).__name__})", reason="unreadable") from error


def _parse(provider: Provider, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
    try:
        return provider.parse(request, sender)
    except Exception as error:
        log.exception("a signed event could not be read")
        return Ignored(f"could not be read: {type(error).__name__}", Kind.VOICE if request.what.startswith("voice") else Kind.NEWS)
