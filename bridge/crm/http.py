"""One exchange over HTTPS with GoHighLevel, with every way it can end as a value.

Nothing is retried, redirected or raised here: whether a request may be sent again is decided elsewhere, knowing what it does.

Connections are kept for reads and idempotent writes, where a connection that the server closed at the same moment costs one more try.
Before a create all idle ones are dropped, so that it always goes out on a new connection: on a kept one, "closed while idle" and "answer
lost" look alike, and each would send a caller through the long way of settling. The price is one TLS handshake per new caller.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from requests.exceptions import InvalidURL
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError
from urllib3.util import Retry, Timeout

from bridge.crm.outcomes import Broken, Kind, Outcome, Response
from bridge.errors import WrongSettings

API_VERSION = "2021-07-28"  # the one that public code and the vendor's contact and location specs agree on
BODY_MAX_BYTES = 8 * 1024 * 1024  # the notes of a contact come unpaged; 4 kB each, this is some two thousand calls of one caller
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. `connect_s` holds for name lookup, all addresses and the TLS handshake together, `total_s` for the whole exchange."""

    connect_s: float = 3.05
    read_s: float = 10.0

    @property
    def total_s(self) -> float:
        return self.connect_s + self.read_s


class Http:
    """The connection to one base URL with one token. Connects at the first request, and anew in a forked child.

    Raises WrongSettings where the token could not stand in a header.
    """

    def __init__(self, *, base_url: str, token: str, timeouts: Timeouts) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            # Otherwise the HTTP library refuses the header, with the token in its message.
            raise WrongSettings(["GHL_TOKEN: one word without spaces or line breaks, such as pit-…"])
        self.timeouts = timeouts
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._session: requests.Session | None = None
        self._session_pid = 0

    def send(
        self, method: str, path: str, *, kind: Kind, query: Mapping[str, str] | None = None, body: Mapping[str, object] | None = None
    ) -> Outcome:
        """Send one request and wait for its whole answer, never longer than the time-outs say. Returns every outcome, raises none.

        No part of a request is sent once `connect_s` is over, and nothing is read once `total_s` is.
        """
        session = self._current_session()
        if kind is Kind.CREATE:
            session.get_adapter(self._base_url).close()
        try:
            return self._exchange(session, method, self._url(path, query), body)
        except (requests.RequestException, HTTPError) as error:
            # Not chained to what the caller raises: the text of these errors holds the URL, and with it the caller's number.
            return _how_it_broke(error)

    def close(self) -> None:
        if self._session and self._session_pid == os.getpid():
            self._session.close()
        self._session = None

    def _exchange(self, session: requests.Session, method: str, url: str, body: Mapping[str, object] | None) -> Response:
        timeouts = self.timeouts
        with session.request(
            method,
            url,
            data=None if body is None else json.dumps(body).encode(),
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout=Timeout(connect=timeouts.connect_s, read=timeouts.read_s, total=timeouts.total_s),  # type: ignore[arg-type]  # - requests takes urllib3's Timeout, its stubs do not say so
            allow_redirects=False,
            stream=True,
        ) as response:
            content, broken = _read(response)
            return Response(response.status_code, {name.lower(): value for name, value in response.headers.items()}, content, broken)

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        # urlencode writes the plus of a phone number as %2B; left bare it would be read as a space, and nobody would be found.
        return f"{self._base_url}{path}" + (f"?{urlencode(query)}" if query else "")

    def _current_session(self) -> requests.Session:
        """The session of this process: a connection shared with the parent across a fork would mix two conversations."""
        if self._session is None or self._session_pid != os.getpid():
            self._session, self._session_pid = _new_session(self._token), os.getpid()
        return self._session


def _new_session(token: str) -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # the environment is read in one place; a stray ~/.netrc or HTTP_PROXY would change where the token goes
    session.auth = _Bearer(token)
    session.headers.update({"Version": API_VERSION, "Accept": "application/json", "User-Agent": "callbridge"})
    adapter = _Adapter(max_retries=Retry(0, read=False))
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _read(response: requests.Response) -> tuple[bytes, Broken | None]:
    """The body, and why it is not whole. The status is known by now, and a refusal stays one even when its text gets lost."""
    content = bytearray()
    try:
        for chunk in response.iter_content(_CHUNK_BYTES):
            content += chunk
            if len(content) > BODY_MAX_BYTES:
                return bytes(content[:BODY_MAX_BYTES]), Broken.TOO_LARGE
    except requests.RequestException as error:
        return bytes(content), _how_it_broke(error)
    return bytes(content), None


def _how_it_broke(error: Exception) -> Broken:
    cause = error.args[0] if error.args else None
    if isinstance(error, InvalidURL) or isinstance(getattr(cause, "reason", None), _NotConnectedError):
        return Broken.NOT_SENT
    if isinstance(error, requests.Timeout) or isinstance(cause, ReadTimeoutError):
        return Broken.TIMEOUT
    return Broken.RESET


class _Bearer(AuthBase):
    """The token as the session's own authentication, where no log of headers or repr shows it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _NotConnectedError(NewConnectionError):
    """Raised for whatever happens before a connection stands, TLS included: nothing of the request has been sent."""


class _DeadlineReader(io.RawIOBase):
    """Reads a socket until one instant. A socket's own time-out starts anew with each byte, so a slow drip would never end."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - any writable buffer, as in io.RawIOBase
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not end in time")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    """An answer whose headers and body together have to come within the time-out that the socket had when waiting began."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(sock, *args, **kwargs)
        deadline = time.monotonic() + (sock.gettimeout() or 0.0)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, deadline))


def _connect_in_time(connection: HTTPConnection, connect: Callable[[], None]) -> None:
    """Make every failure to connect one error, and count a connection that took longer than its time-out as none."""
    started = time.monotonic()
    limit = connection.timeout
    try:
        connect()
    except (OSError, HTTPError, http.client.HTTPException) as error:  # not wider: RQ's time-out of a job may come up here too
        raise _NotConnectedError(connection, type(error).__name__) from error
    # Looking up a name has no time-out and each address gets a fresh one. Sent now, the request could outlive the lease that
    # was checked for it.
    if limit and time.monotonic() - started > limit:
        connection.close()
        raise _NotConnectedError(connection, "connecting took too long")


class _PlainConnection(HTTPConnection):
    response_class = _DeadlineResponse

    def connect(self) -> None:
        _connect_in_time(self, super().connect)


class _TlsConnection(HTTPSConnection):
    response_class = _DeadlineResponse

    def connect(self) -> None:
        _connect_in_time(self, super().connect)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}
