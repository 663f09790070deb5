"""Asking for lists: time-outs with names, one deadline for all pages, 429 obeyed, and credentials that go to one host alone.

Every request is a read (or a log-in) and safe to repeat. What fails is `Transient`, to be asked again later, or `Permanent`: a setting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from bridge.errors import Permanent, Transient
from bridge.providers.lists.base import Ask, Page

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 20.0  # between two bytes; DEADLINE_S bounds the whole
DEADLINE_S = 180.0
BODY_MAX_BYTES = 32 * 1024 * 1024
TRIES = 4
_PAUSE_S = 1.0  # doubled with each try, unless the server names another
_CHUNK_BYTES = 64 * 1024


class Fetcher:
    """Asks one host. `credentials` names the settings that a refusal is about."""

    def __init__(
        self,
        base_url: str,
        credentials: str,
        *,
        deadline_s: float = DEADLINE_S,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = base_url + "/"
        self._host = urlsplit(base_url).netloc
        self._credentials = credentials
        self._deadline = monotonic() + deadline_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._session = requests.Session()
        self._session.trust_env = False  # a stray ~/.netrc or HTTP_PROXY would change where the credentials go

    def get(self, ask: Ask, headers: Mapping[str, str]) -> Page:
        return self._send("GET", ask, headers, None)

    def post(self, ask: Ask, headers: Mapping[str, str], form: Mapping[str, str]) -> Page:
        return self._send("POST", ask, headers, form)

    def close(self) -> None:
        self._session.close()

    def _send(self, method: str, ask: Ask, headers: Mapping[str, str], form: Mapping[str, str] | None) -> Page:
        """Raises Transient or Permanent. The text of the HTTP library's errors holds the URL, and with it ids: it is not passed on."""
        url = self._url(ask)
        for number in range(TRIES):
            try:
                status, answered, body = self._exchange(method, url, headers, form)
            except requests.RequestException as error:
                failure = Transient(f"{self._host} did not answer ({type(error).__name__})", cause="list.away")
                self._pause(_PAUSE_S * 2**number, failure)
                continue
            if 200 <= status < 300:
                return Page(_document(body, self._host), answered)
            if status == 429 or status >= 500:
                failure = Transient(f"{self._host} answered {status}", cause=f"list.{status}")
                self._pause(_retry_after(answered) or _PAUSE_S * 2**number, failure)
                continue
            raise self._refused(status)
        raise failure

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        told = {"Accept": "application/json", "User-Agent": "callbridge", **headers}
        timeout = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        with self._session.request(method, url, headers=told, data=form, timeout=timeout, allow_redirects=False, stream=True) as answer:
            content = bytearray()
            for chunk in answer.iter_content(_CHUNK_BYTES):
                content += chunk
                if len(content) > BODY_MAX_BYTES or self._monotonic() > self._deadline:
                    raise requests.Timeout("the answer is too long, or takes too long")
            return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, bytes(content)

    def _url(self, ask: Ask) -> str:
        """Absolute. An answer that names another host for its next page is not followed: the credentials would go there."""
        base = urlsplit(self._base)
        url = urljoin(self._base, ask.target) if ask.target.startswith(("/", "http://", "https://")) else self._base + ask.target
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) != (base.scheme, base.netloc):
            raise Permanent(f"{self._host} names another host for its next page", cause="list.other_host", hint="Tell us of it.")
        return url

    def _pause(self, seconds: float, failure: Transient) -> None:
        """Wait before the next try; raise the failure instead where the time for the whole list would be over by then."""
        if self._monotonic() + seconds > self._deadline:
            failure.retry_in = seconds
            raise failure
        self._sleep(seconds)

    def _refused(self, status: int) -> Permanent:
        hint = f"Check {self._credentials}." if status in {401, 403, 404} else "The request is not understood: the API may have changed."
        return Permanent(f"{self._host} refused the list of calls ({status})", cause=f"list.{status}", hint=hint)


def _document(body: bytes, host: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(body.decode("utf-8", "replace").removeprefix("\ufeff"), parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise Transient(f"{host} answered with something that is no JSON", cause="list.unreadable") from None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, where the server names them; 0 is taken for a second, so that nothing is asked without a pause."""
    told = headers.get("retry-after", "").strip()
    return max(float(told), 1.0) if told.isascii() and told.isdigit() else None
