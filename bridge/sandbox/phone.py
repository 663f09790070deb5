"""A phone company for the demo, the tests and `simulate`: signed webhooks about made-up calls, and everything that goes wrong with them.

What it makes depends on its seed alone, so that a run can be repeated. Making a delivery touches nothing; only `send` and what is built
on it speaks to a server.
"""

from __future__ import annotations

import base64
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import requests

from bridge.providers import reading, signatures

SAMPLES = Path(__file__).parent.parent / "providers" / "samples"
HERE = frozenset({"127.0.0.1", "localhost", "::1"})  # names of this machine
FORM = "application/x-www-form-urlencoded; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One HTTP request of a provider, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class PhoneCall:
    """A made-up call. Numbers are E.164, or whatever a phone system puts in their place; `started` is seconds since the epoch."""

    sid: str
    caller: str
    dialled: str
    started: float


def new_call(rng: random.Random, *, caller: str | None = None, dialled: str = "+15550109999", started: float = 1_768_489_445) -> PhoneCall:
    """A call with a random id and, unless told, a random number of the range for fiction (+1 555 010 xxxx)."""
    return PhoneCall(f"CA{rng.getrandbits(128):032x}", caller or f"+1555010{rng.randrange(10_000):04d}", dialled, started)


@dataclass(frozen=True, slots=True)
class TwilioPhone:
    """Twilio. `url` is where requests go; `signed_url` is what Twilio was configured with, where a proxy stands between."""

    url: str
    token: str
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    account: str = "AC00000000000000000000000000000001"
    signed_url: str = ""

    def voice(self, call: PhoneCall, **extra: str) -> Delivery:
        """The first request, which waits for TwiML. `extra` adds or replaces parameters."""
        return self.post("voice", self._fields(call, "ringing") | extra)

    def gather(self, call: PhoneCall, *, digits: str | None = None, speech: str | None = None, prompt: str = "gather") -> Delivery:
        entered = {"Digits": digits, "SpeechResult": speech}
        return self.post(prompt, self._fields(call, "in-progress") | {name: value for name, value in entered.items() if value is not None})

    def status(self, call: PhoneCall, status: str, *, after_s: int = 0, **extra: str) -> Delivery:
        """A status callback `after_s` seconds into the call, which is also its duration where the status is final."""
        ended = {"CallDuration": str(after_s), "Duration": str(-(-after_s // 60))} if status not in {"ringing", "in-progress"} else {}
        source = {"CallbackSource": "call-progress-events", "Timestamp": _rfc2822(call.started + after_s)}
        return self.post("status", self._fields(call, status) | source | ended | extra)

    def recording(self, call: PhoneCall, *, duration_s: int = 30, status: str = "completed") -> Delivery:
        """A recording callback; it names neither caller nor dialled number."""
        sid = "RE" + call.sid[2:]
        url = f"https://api.twilio.com/2010-04-01/Accounts/{self.account}/Recordings/{sid}"
        told = {"RecordingSid": sid, "RecordingUrl": url, "RecordingStatus": status, "RecordingDuration": str(duration_s)}
        return self.post("recording", {"AccountSid": self.account, "CallSid": call.sid} | told)

    def child_leg(self, call: PhoneCall, to: str, status: str = "completed", *, duration_s: int = 20) -> Delivery:
        """The status of a leg that <Dial> made: an id of its own, the visit as its parent."""
        leg = replace(call, sid=f"CA{self.rng.getrandbits(128):032x}", dialled=to)
        return self.status(leg, status, after_s=duration_s, ParentCallSid=call.sid, Direction="outbound-dial")

    def whole_call(self, call: PhoneCall, *, digits: str = "1") -> list[Delivery]:
        """An ordinary visit, in order."""
        ringing, answered, ended = self.voice(call), self.status(call, "in-progress", after_s=2), self.status(call, "completed", after_s=40)
        return [ringing, answered, self.gather(call, digits=digits), ended, self.recording(call)]

    def post(self, what: str, fields: Mapping[str, str] | Sequence[tuple[str, str]], *, token: str = "") -> Delivery:
        """Any signed form request; a fresh idempotency token, as for each event that is no retry."""
        body = urlencode(list(fields.items()) if isinstance(fields, Mapping) else fields).encode()
        path = f"/webhooks/twilio/{what}".rstrip("/")
        signed = (self.signed_url or self.url) + path
        headers = {
            "Content-Type": FORM,
            "User-Agent": "TwilioProxy/1.1",
            "I-Twilio-Idempotency-Token": f"{self.rng.getrandbits(128):032x}",
            "X-Twilio-Signature": signatures.twilio_signature(token or self.token, signed, reading.form_fields(body)),
        }
        return Delivery("POST", self.url + path, headers, body)

    def _fields(self, call: PhoneCall, status: str) -> dict[str, str]:
        whose = {"AccountSid": self.account, "ApiVersion": "2010-04-01", "CallSid": call.sid, "Direction": "inbound"}
        return whose | {"CallStatus": status, "From": call.caller, "To": call.dialled}


@dataclass(frozen=True, slots=True)
class GenericPhone:
    """A phone system that signs JSON (Standard Webhooks). `now` is its clock."""

    url: str
    secret: str
    now: Callable[[], float] = time.time

    def event(self, kind: str, call: PhoneCall, *, message_id: str = "", **data: object) -> Delivery:
        """Any event: `call.started`, `call.input`, … A retry repeats `message_id`."""
        told = {"call_id": call.sid, "direction": "inbound", "from": call.caller, "to": call.dialled} | data
        body = json.dumps({"type": kind, "timestamp": _iso(call.started), "data": told}).encode()
        return self.sign(body, message_id or f"{call.sid}-{kind}")

    def sign(self, body: bytes, message_id: str) -> Delivery:
        timestamp = str(int(self.now()))
        signature = signatures.standard_signature(signatures.standard_secret(self.secret), message_id, timestamp, body)
        named = {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
        return Delivery("POST", f"{self.url}/webhooks/generic/events", {"Content-Type": "application/json"} | named, body)


# ---- What goes wrong between a phone company and us


def conflicting(phone: TwilioPhone, call: PhoneCall) -> list[Delivery]:
    """Two requests under one call id that name different callers."""
    return [phone.voice(call), phone.voice(replace(call, caller="+15550106666"))]


def final_first(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The same events backwards: the call has ended before it rings."""
    return list(reversed(deliveries))


def storm(phone: TwilioPhone, calls: int, over_s: float) -> list[tuple[float, Delivery]]:
    """First requests of `calls` new calls, spread at random over `over_s` seconds: when to send (from now), and what."""
    times = sorted(phone.rng.uniform(0, over_s) for _ in range(calls))
    return [(at, phone.voice(new_call(phone.rng))) for at in times]


def send(delivery: Delivery, *, timeout_s: float = 15) -> requests.Response:
    """Send one request, as patient as Twilio. Redirects are not followed; a bridge on this machine is reached without a proxy."""
    with requests.Session() as session:
        session.trust_env = False  # the machine's ~/.netrc would put its own password in place of a provider's
        session.proxies = {} if urlsplit(delivery.url).hostname in HERE else requests.utils.get_environ_proxies(delivery.url)
        return session.request(
            delivery.method, delivery.url, headers=dict(delivery.headers), data=delivery.body, timeout=timeout_s, allow_redirects=False
        )


Send = Callable[[Delivery], requests.Response]


def send_together(deliveries: Sequence[Delivery], post: Send = send) -> list[requests.Response]:
    """All at the same instant, a thread each. `[delivery] * n` is a redelivery n times over."""
    gate = threading.Barrier(len(deliveries))

    def wait_and_post(delivery: Delivery) -> requests.Response:
        gate.wait(timeout=10)
        return post(delivery)

    with ThreadPoolExecutor(max_workers=len(deliveries)) as pool:
        return list(pool.map(wait_and_post, deliveries))


def play(plan: Iterable[tuple[float, Delivery]], post: Send = send, *, threads: int = 8) -> list[requests.Response]:
    """Send each delivery at its time, in seconds from now; a slow answer holds up no other until all threads are busy."""
    begin = time.monotonic()
    with ThreadPoolExecutor(max_workers=threads) as pool:
        sent = []
        for at, delivery in plan:
            time.sleep(max(0.0, begin + at - time.monotonic()))
            sent.append(pool.submit(post, delivery))
        return [answer.result() for answer in sent]


# ---- Samples


def sample_names(provider: str) -> list[str]:
    return sorted(path.stem for path in (SAMPLES / provider).glob("*.headers"))


def sample(provider: str, name: str) -> Delivery:
    """A sample as it was recorded: `<name>.headers` (method and URL, headers, remarks) and its body beside it."""
    first, *lines = (SAMPLES / provider / f"{name}.headers").read_text("utf-8").splitlines()
    method, url = first.split(" ", 1)
    headers = dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    bodies = [path for path in (SAMPLES / provider).glob(f"{name}.*") if path.suffix != ".headers"]
    return Delivery(method, url, headers, bodies[0].read_bytes() if bodies else b"")


def new_ids(delivery: Delivery, rng: random.Random) -> Delivery:
    """The same Twilio sample about a new call: each call id in its body and URL is replaced by a random one, alike where alike."""
    fresh: dict[str, str] = {}

    def swap(match: re.Match[str]) -> str:
        return fresh.setdefault(match[0], f"{match[0][:2]}{rng.getrandbits(128):032x}")

    url, body = (re.sub(r"\b(?:CA|RE|TR)[0-9a-f]{32}\b", swap, text) for text in (delivery.url, delivery.body.decode()))
    return replace(delivery, url=url, body=body.encode())


def new_secret(rng: random.Random) -> str:
    """A secret for Standard Webhooks."""
    return "whsec_" + base64.b64encode(rng.randbytes(32)).decode()


def whole_calls(phone: TwilioPhone, count: int) -> Iterator[list[Delivery]]:
    """The deliveries of `count` ordinary visits."""
    for _ in range(count):
        yield phone.whole_call(new_call(phone.rng))


def _rfc2822(at: float) -> str:
    return format_datetime(datetime.fromtimestamp(at, UTC))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
