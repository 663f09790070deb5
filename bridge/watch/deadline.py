"""A conversation over a socket that is over at one instant, whatever the other side does.

A socket's own time-out begins anew with each byte, so an answer that drips would never end.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from requests.utils import DEFAULT_CA_BUNDLE_PATH


class Deadline:
    """`connect` inside `with`; `seconds` after its begin the connection is cut, and what waits for an answer fails with OSError or EOF."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._held: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        for held in self._held:
            held.close()

    def connect(self, host: str, port: int, context: ssl.SSLContext | None = None) -> socket.socket:
        """A connection, encrypted by `context`. Raises OSError; TimeoutError where it took too long, and nothing has been said on it.

        Looking up a name has no time limit of its own, and each address gets a fresh one: hence the look at the clock afterwards.
        """
        made = socket.create_connection((host, port), timeout=max(self._left(), 0.001))
        try:
            self._held.append(made.dup())  # wrapping takes the first one's place, and cutting either cuts the connection
            made.settimeout(max(self._left(), 0.001))
            if context is not None:
                made = context.wrap_socket(made, server_hostname=host)
            if self._left() <= 0:
                raise TimeoutError("connecting took too long")
        except OSError:
            made.close()
            raise
        return made

    def _left(self) -> float:
        return self._at - time.monotonic()

    def _cut(self) -> None:
        for held in self._held:
            with suppress(OSError):  # it has ended by itself
                held.shutdown(socket.SHUT_RDWR)


def encrypted() -> ssl.SSLContext:
    """Checks the certificate and the name in it, against the authorities that requests trusts as well."""
    return ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
