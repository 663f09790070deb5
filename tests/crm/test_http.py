import os
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bridge.crm.http import BODY_MAX_BYTES, Http
from bridge.crm.outcomes import Broken, Kind, Response
from bridge.errors import WrongSettings
from tests.crm.conftest import TIMEOUTS
from tests.crm.scripted import Reply


@pytest.fixture
def http(server):
    http = Http(base_url=server.url, token="pit-test", timeouts=TIMEOUTS)
    yield http
    http.close()


def test_request_carries_the_headers_that_the_api_asks_for_and_no_location_id(http, server):
    server.answer = lambda _: Reply(201, {"ok": True}, headers={"X-RateLimit-Remaining": "7"})
    response = http.send("POST", "/contacts/", kind=Kind.CREATE, body={"phone": "+12025550143"})
    assert response == Response(201, {"content-length": "12", "x-ratelimit-remaining": "7"}, b'{"ok": true}')
    headers = server.received[0].headers
    assert headers["authorization"] == "Bearer pit-test"
    assert headers["version"] == "2021-07-28"
    assert (headers["accept"], headers["content-type"], headers["user-agent"]) == ("application/json", "application/json", "callbridge")
    assert "location-id" not in headers
    assert server.received[0].json == {"phone": "+12025550143"}


def test_plus_goes_out_encoded(http, server):
    http.send("GET", "/find", kind=Kind.READ, query={"number": "+12025550143"})
    assert server.received[0].target == "/find?number=%2B12025550143"


def test_read_sends_no_body_and_no_content_type(http, server):
    http.send("GET", "/find", kind=Kind.READ)
    assert server.received[0].body == b""
    assert "content-type" not in server.received[0].headers


@pytest.mark.parametrize("token", ["", "pit-1\n", "pit 1", "pit-ü"])
def test_token_that_cannot_stand_in_a_header_names_the_setting_and_not_the_token(token):
    with pytest.raises(WrongSettings, match="GHL_TOKEN") as caught:
        Http(base_url="http://127.0.0.1:9", token=token, timeouts=TIMEOUTS)
    assert not token.strip() or token.strip() not in str(caught.value)


def test_redirect_is_not_followed(http, server):
    server.answer = lambda _: Reply(307, {}, headers={"Location": "/elsewhere"})
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}).status == 307
    assert len(server.received) == 1


def test_proxy_and_netrc_of_the_environment_change_nothing(http, server, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert http.send("GET", "/", kind=Kind.READ).status == 200
    assert server.received[0].headers["authorization"] == "Bearer pit-test"


def test_refused_connection_sent_nothing():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        http = Http(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", token="t", timeouts=TIMEOUTS)
        assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is Broken.NOT_SENT


def test_failed_tls_handshake_sent_nothing(server):
    http = Http(base_url=server.url.replace("http:", "https:"), token="t", timeouts=TIMEOUTS)
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is Broken.NOT_SENT


def test_hanging_tls_handshake_sent_nothing_and_ends_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        http = Http(base_url=f"https://127.0.0.1:{silent.getsockname()[1]}", token="t", timeouts=TIMEOUTS)
        started = time.monotonic()
        assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is Broken.NOT_SENT
        assert time.monotonic() - started < TIMEOUTS.total_s


def test_slow_name_lookup_sends_nothing_afterwards(http, server, monkeypatch):
    lookup = socket.getaddrinfo

    def slow(*args, **kwargs):
        time.sleep(TIMEOUTS.connect_s + 0.05)
        return lookup(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is Broken.NOT_SENT
    assert server.received == []


@pytest.mark.parametrize(
    ("how", "broken"),
    [("hang", Broken.TIMEOUT), ("drip_headers", Broken.TIMEOUT), ("reset", Broken.RESET), ("cut", Broken.RESET)],
)
def test_request_without_an_answer_ends_in_time_and_says_how(http, server, how, broken):
    server.answer = lambda _: Reply(201, {"contact": {"id": "c" * 200}}, how=how)
    started = time.monotonic()
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is broken
    assert time.monotonic() - started < TIMEOUTS.total_s + 0.2
    assert len(server.received) == 1  # nothing sends a write a second time


@pytest.mark.parametrize(("how", "broken"), [("drip", Broken.TIMEOUT), ("truncate", Broken.RESET)])
def test_status_outlives_a_body_that_breaks_off(http, server, how, broken):
    server.answer = lambda _: Reply(401, {"message": "Invalid JWT" * 20}, how=how)
    started = time.monotonic()
    response = http.send("GET", "/", kind=Kind.READ)
    assert (response.status, response.broken) == (401, broken)
    assert time.monotonic() - started < TIMEOUTS.total_s + 0.2


def test_endless_body_is_cut_at_the_limit(http, server):
    server.answer = lambda _: Reply(200, body=b"x" * (BODY_MAX_BYTES + 100_000))
    response = http.send("GET", "/", kind=Kind.READ)
    assert response.broken is Broken.TOO_LARGE
    assert len(response.body) == BODY_MAX_BYTES


def test_reads_share_a_connection_and_a_create_gets_a_new_one(http, server):
    for kind in (Kind.READ, Kind.READ, Kind.CREATE, Kind.IDEMPOTENT_WRITE):
        http.send("POST", "/", kind=kind, body={})
    assert [received.connection for received in server.received] == [1, 1, 2, 2]


def test_connection_closed_while_idle_costs_nothing(http, server):
    server.answer = lambda _: Reply(200, {}, how="leave")
    for kind in (Kind.READ, Kind.READ, Kind.CREATE):
        assert http.send("POST", "/", kind=kind, body={}).status == 200
        assert server.ended.acquire(timeout=5)


def test_forked_child_does_not_speak_on_its_parents_connection(http, server):
    http.send("GET", "/parent", kind=Kind.READ)
    child = os.fork()
    if not child:
        outcome = http.send("GET", "/child", kind=Kind.READ)
        os._exit(0 if isinstance(outcome, Response) else 1)
    assert os.waitpid(child, 0)[1] == 0
    http.send("GET", "/parent", kind=Kind.READ)
    assert [(received.path, received.connection) for received in server.received] == [("/parent", 1), ("/child", 2), ("/parent", 1)]


@pytest.fixture
def tls_server(server, tmp_path):
    """The scripted server behind TLS, with a certificate made for it; gives the base URL and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(certificate.public_bytes(Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.wrap = lambda sock: context.wrap_socket(sock, server_side=True)
    return server.url.replace("http://127.0.0.1", "https://localhost"), file


def test_over_tls_an_answer_is_read_and_a_drip_ends_in_time(server, tls_server):
    url, certificate = tls_server
    http = Http(base_url=url, token="t", timeouts=TIMEOUTS)
    http._current_session().verify = str(certificate)
    server.answer = lambda _: Reply(200, {"ok": True})
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}).body == b'{"ok": true}'
    server.answer = lambda _: Reply(200, {"ok": "x" * 100}, how="drip")
    started = time.monotonic()
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}).broken is Broken.TIMEOUT
    assert time.monotonic() - started < TIMEOUTS.total_s + 0.2
    http.close()


def test_certificate_of_nobody_known_is_refused_before_anything_is_sent(server, tls_server):
    http = Http(base_url=tls_server[0], token="t", timeouts=TIMEOUTS)
    assert http.send("POST", "/contacts/", kind=Kind.CREATE, body={}) is Broken.NOT_SENT
    assert server.received == []
