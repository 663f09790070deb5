"""The proofs themselves: against the providers' own libraries, and against whatever is sent instead of a proof."""

from __future__ import annotations

import base64
import hashlib
from contextlib import nullcontext
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook
from twilio.request_validator import RequestValidator, get_signature_algorithm

from bridge.errors import Refused
from bridge.providers import reading, signatures
from tests.providers.support import NOW, OLD_SECRET, SECRET, TOKEN, VECTORS

KEY = signatures.standard_secret(SECRET)
FORM_VECTORS = [
    vector for vector in VECTORS if vector["provider"] == "twilio" and vector["valid"] and vector["id"] != "twilio-lenient-get-escapes"
]


class Repeated(dict):
    """The official validator asks for `getlist` where a name may be repeated."""

    def getlist(self, name):
        return self[name]


@pytest.mark.parametrize("vector", FORM_VECTORS, ids=lambda vector: vector["id"])
def test_the_official_validator_agrees(vector):
    validator = RequestValidator(vector["secret"])
    algorithm = get_signature_algorithm(vector["headers"].get("X-Twilio-Webhooks-Signature-Settings"))
    is_json = vector["headers"].get("Content-Type") == "application/json"
    params = vector["body"] if is_json else Repeated(parse_qs(vector["body"], keep_blank_values=True))
    assert validator.validate(vector["url"], params, vector["headers"]["X-Twilio-Signature"], algorithm)


def test_the_examples_of_the_vendor_come_out():
    fields = reading.form_fields(b"Digits=1234&To=%2B18005551212&From=%2B14158675310&Caller=%2B14158675310&CallSid=CA1234567890ABCDE")
    assert signatures.twilio_signature("12345", "https://example.com/myapp.php?foo=1&bar=2", fields) == "L/OH5YylLD5NRKLltdqwSvS0BnU="


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6))
def test_our_twilio_signature_is_the_library_s(pairs):
    pairs = [(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in pairs]
    params = Repeated()
    for name, value in pairs:
        params.setdefault(name.decode(), []).append(value.decode())
    url = "https://ivr.example.com/webhooks/twilio/voice"
    assert signatures.twilio_signature(TOKEN, url, pairs) == RequestValidator(TOKEN).compute_signature(url, params)


@given(st.binary(max_size=50))
def test_our_standard_signature_is_the_library_s(body):
    text = body.decode("utf-8", "replace")
    expected = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(NOW, UTC), text)
    assert signatures.standard_signature(KEY, "msg_1", str(int(NOW)), text.encode()) == expected


def message(body=b"{}", secret=SECRET, at=NOW, message_id="msg_1"):
    timestamp = str(int(at))
    signature = signatures.standard_signature(signatures.standard_secret(secret), message_id, timestamp, body)
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}


def verify(headers, body=b"{}", secrets=(SECRET,), now=NOW):
    keys = [signatures.standard_secret(secret) for secret in secrets]
    return signatures.verify_standard(headers, body, keys, now=now, setting="GENERIC_SECRET")


@pytest.mark.parametrize(("others", "is_proven"), [(signatures.MOST_ENTRIES - 1, True), (signatures.MOST_ENTRIES, False)])
def test_a_genuine_entry_may_stand_behind_others_but_not_behind_thousands(others, is_proven):
    genuine = message()
    headers = genuine | {"webhook-signature": "v1,AAAA " * others + genuine["webhook-signature"]}
    with nullcontext() if is_proven else pytest.raises(Refused):
        assert verify(headers) == "msg_1"


def test_any_of_several_secrets_proves_a_message():
    assert verify(message(secret=OLD_SECRET), secrets=(SECRET, OLD_SECRET)) == "msg_1"


@pytest.mark.parametrize("junk", ["v1a,AAAA", "v1,%%%", "v1", ",", "v2,", "v1,é", "v1,AAAA,BBBB"])
def test_broken_and_unknown_entries_are_passed_over(junk):
    headers = message()
    assert verify(headers | {"webhook-signature": f"{junk} {headers['webhook-signature']}"}) == "msg_1"


@pytest.mark.parametrize(("age", "fresh"), [(0, True), (300, True), (301, False), (-300, True), (-301, False)])
def test_the_window_of_time_is_closed_on_both_sides(age, fresh):
    if fresh:
        assert verify(message(at=NOW - age))
    else:
        with pytest.raises(Refused, match="clock") as refusal:
            verify(message(at=NOW - age))
        assert (refusal.value.status, refusal.value.reason) == (403, "signature stale")


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_401(missing):
    headers = {name: value for name, value in message().items() if name != missing}
    with pytest.raises(Refused) as refusal:
        verify(headers)
    assert refusal.value.status == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": str(int(NOW) + 1)},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "1e9"},
        {"webhook-signature": "v1,"},
    ],
)
def test_a_changed_header_is_403(changed):
    with pytest.raises(Refused) as refusal:
        verify(message() | changed)
    assert refusal.value.status == 403


@given(st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()), st.binary(max_size=50))
def test_whatever_is_sent_is_refused_and_nothing_else(headers, body):
    with pytest.raises(Refused):
        verify(headers, body)


@pytest.mark.parametrize(
    ("secret", "why"), [("", "shorter"), ("whsec_", "shorter"), ("whsec_c2hvcnQ=", "shorter"), ("whsec_***", "base64"), ("é", "base64")]
)
def test_a_secret_that_protects_nothing_is_an_error(secret, why):
    with pytest.raises(ValueError, match=why):
        signatures.standard_secret(secret)


def test_a_secret_needs_no_padding_and_no_prefix():
    assert signatures.standard_secret(SECRET.rstrip("=")) == signatures.standard_secret(SECRET.removeprefix("whsec_")) == KEY


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("https://h.example:8443/x?a=1", "https://h.example/x?a=1"),
        ("https://h.example/x", "https://h.example:443/x"),
        ("http://h.example:8080/x", "http://h.example:8080/x"),
        ("https://user:pw@h.example:8443/x", "https://h.example:8443/x"),
        ("https://user:pw@h.example:8443/x", "https://h.example/x"),
        ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]/x"),
    ],
)
def test_a_url_is_tried_with_and_without_port_and_never_with_a_user(url, spelled):
    urls = signatures.twilio_urls(url, is_get=False)
    assert spelled in urls
    assert not any("user" in tried for tried in urls)


def test_a_query_is_never_sorted_and_unescaped_on_get_alone():
    url = "https://h.example/x?b=%40&a=%27"
    assert "https://h.example/x?b=@&a='" in signatures.twilio_urls(url, is_get=True)
    assert all("?b=%40&a=%27" in tried for tried in signatures.twilio_urls(url, is_get=False))


@pytest.mark.parametrize("signed", [b"CallerName=Ren%E9", "CallerName=René".encode(), "CallerName=Ren\ufffd".encode()])
def test_bytes_that_are_no_utf8_are_proven_however_the_signer_read_them(signed):
    url = "https://ivr.example.com/webhooks/twilio/voice"
    given = signatures.twilio_signature(TOKEN, url, reading.form_fields(signed))
    assert signatures.twilio_proves(given, TOKEN, [url], signatures.twilio_readings(reading.form_fields(b"CallerName=Ren%E9")))
    assert not signatures.twilio_proves(given, TOKEN, [url], signatures.twilio_readings(reading.form_fields(b"CallerName=Rena")))


def test_a_body_is_bound_by_exactly_one_digest():
    digest = hashlib.sha256(b"{}").hexdigest().encode()
    assert signatures.body_digest_matches([(b"bodySHA256", digest)], b"{}")
    assert signatures.body_digest_matches([(b"bodySHA256", digest.upper())], b"{}")
    assert not signatures.body_digest_matches([(b"bodySHA256", digest)], b"[]")
    assert not signatures.body_digest_matches([(b"bodySHA256", digest)] * 2, b"{}")
    assert not signatures.body_digest_matches([], b"{}")


def test_comparing_takes_any_text():
    assert not signatures.same("é\ud83d", base64.b64encode(b"x").decode())
    assert signatures.same("abc", "abc")
