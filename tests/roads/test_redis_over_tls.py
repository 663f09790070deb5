"""Redis as Heroku has it: `rediss://` with a certificate that nobody vouches for.

The embedded server has no TLS, so a TLS end stands before it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest

from bridge.sandbox.processes import free_port
from tests.roads import support
from tests.test_connections import pass_on, self_signed


class TlsEnd:
    """Listens with TLS and passes on to a port that is told later. Each connection has a thread."""

    def __init__(self, folder):
        self.port, self.target = free_port(), 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self_signed(folder))
        self.stop = threading.Event()
        self.threads = []

    def accept(self):
        with socket.create_server(("127.0.0.1", self.port)) as listener:
            listener.settimeout(0.1)
            while not self.stop.is_set():
                with contextlib.suppress(TimeoutError):
                    self.begin(self.serve, listener.accept()[0])

    def serve(self, plain):
        with contextlib.suppress(OSError), plain:
            plain.settimeout(5)
            with (
                self.context.wrap_socket(plain, server_side=True) as client,
                socket.create_connection(("127.0.0.1", self.target)) as server,
            ):
                pass_on(client, server, self.stop)

    def begin(self, target, *arguments):
        self.threads.append(threading.Thread(target=target, args=arguments))
        self.threads[-1].start()


@pytest.fixture
def tls_end(tmp_path):
    end = TlsEnd(tmp_path)
    end.begin(end.accept)
    yield end
    end.stop.set()
    for thread in end.threads:
        thread.join()


def test_calls_become_leads_over_a_self_signed_redis(tls_end, tmp_path):
    url = f"rediss://127.0.0.1:{tls_end.port}/0"

    def stand_before(deployment):
        tls_end.target = deployment.redis.port

    with support.road(tmp_path / "tls", workers=1, before_start=stand_before, REDIS_URL=url) as road:
        calls = [road.call() for _ in range(3)]
        road.play(road.ended(call) for call in calls)
        road.await_done(calls)
        for call in calls:
            road.assert_one_lead(call)
        assert "without verifying its certificate" in road.deployment.log("web-1").read_text()
