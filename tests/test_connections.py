"""The impatient client, the patient one, and TLS as Heroku has it."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridge import connections
from bridge.connections import await_redis, web_connection, worker_connection

NOWHERE = "redis://127.0.0.1:1/0"  # nothing listens on port 1


def test_both_answer_in_bytes_as_rq_expects(redis_url, connection):
    connection.set("key", "value")
    for client in (web_connection(redis_url), worker_connection(redis_url)):
        with client:
            assert client.get("key") == b"value"


def test_the_web_does_not_wait_for_a_redis_that_is_away():
    began = time.monotonic()
    with web_connection(NOWHERE) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    assert time.monotonic() - began < 0.4


def test_the_web_gives_up_on_a_redis_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(connections, "READ_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, web_connection(f"redis://127.0.0.1:{silent.getsockname()[1]}/0") as client:
        began = time.monotonic()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        assert time.monotonic() - began < 2


def test_the_web_replaces_a_connection_that_redis_closed(redis_url, connection):
    """Heroku closes idle connections; without this each such call would go to the spool."""
    with web_connection(redis_url) as client:
        identity = client.client_id()
        connection.client_kill_filter(_id=identity)
        assert client.ping()
        assert client.client_id() != identity


@pytest.mark.parametrize(("make", "expected"), [(web_connection, 1), (worker_connection, 4)])
def test_a_worker_tries_again_and_the_web_does_not(make, expected, monkeypatch):
    """What is sent again may be done twice: the reply may have been all that was lost."""
    monkeypatch.setattr(connections, "_PATIENCE", (0.01, 0.02, 3))
    attempts = []

    def refuse(connection: redis.Connection) -> None:
        attempts.append(connection)
        raise ConnectionRefusedError

    monkeypatch.setattr(redis.Connection, "_connect", refuse)
    with make(NOWHERE) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    assert len(attempts) == expected


def test_waiting_for_redis_ends_when_it_answers_and_is_told_once(connection, monkeypatch, caplog):
    answers = [redis.ConnectionError("away"), redis.TimeoutError("away"), True]

    def ping() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(connection, "ping", ping)
    with caplog.at_level(logging.WARNING):
        await_redis(connection, pause_s=0.01)
    assert answers == []
    assert [record.message.partition(";")[0] for record in caplog.records] == ["Redis does not answer (ConnectionError)"]


@pytest.mark.parametrize("make", [web_connection, worker_connection])
def test_a_self_signed_redis_is_reached_as_on_heroku(make, tls_port, connection, caplog):
    connections._say_unverified.cache_clear()
    connection.set("key", "value")
    with caplog.at_level(logging.INFO), make(f"rediss://127.0.0.1:{tls_port}/0") as client, make(f"rediss://127.0.0.1:{tls_port}/0"):
        assert client.get("key") == b"value"
    assert len([record for record in caplog.records if "without verifying" in record.message]) == 1


def test_a_url_may_ask_for_verification(tls_port, connection, monkeypatch):
    monkeypatch.setattr(connections, "_PATIENCE", (0.01, 0.02, 1))
    strict = worker_connection(f"rediss://127.0.0.1:{tls_port}/0?ssl_cert_reqs=required")
    with strict, pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        strict.ping()


@pytest.fixture
def tls_port(redis_server, tmp_path) -> Iterator[int]:
    """A TLS end with a self-signed certificate before the tests' Redis; the embedded server has no TLS of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=relay, args=(listener, context, redis_server.folder / "redis.sock", stop))
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        thread.join()


def relay(listener: socket.socket, context: ssl.SSLContext, target: Path, stop: threading.Event) -> None:
    """One client after the other is enough here."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError, OSError), contextlib.ExitStack() as stack:
            plain = stack.enter_context(listener.accept()[0])
            plain.settimeout(5)
            client = stack.enter_context(context.wrap_socket(plain, server_side=True))
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.connect(str(target))
            pass_on(client, server, stop)


def pass_on(client: ssl.SSLSocket, server: socket.socket, stop: threading.Event) -> None:
    while not stop.is_set():
        for source in select.select([client, server], [], [], 0.1)[0]:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis.example")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
