"""The recorded requests of the hosted phone systems are proven and read; what was tampered with is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import jwt
import pytest

from bridge.errors import Refused
from bridge.providers import registry
from bridge.providers.base import Heard
from bridge.sandbox.phone import Delivery
from tests.providers.hosted_cases import ENVIRONMENT, QUO_KEY
from tests.providers.support import received, settings

RECORDED = json.loads((Path(__file__).parent / "vectors_hosted.json").read_text("utf-8"))["vectors"]
BY_ID = {vector["id"]: vector for vector in RECORDED}
PROVIDERS = registry.build(settings(**{name: value for environment in ENVIRONMENT.values() for name, value in environment.items()}))
SHARED = Path(__file__).parents[3] / "shared" / "payloads" / "vectors.json"


def request_of(vector):
    return received(Delivery(vector["method"], vector["url"], vector["headers"], vector["body"].encode()), now=vector["now"])


def verdict(vector):
    """Whether a request is proven: 200, 401 or 403."""
    try:
        PROVIDERS[vector["provider"]].verify(request_of(vector))
    except Refused as refusal:
        return refusal.status
    return 200


def changed(name, *, now=None, body=None, **headers):
    """A vector with other headers (underscores for dashes), another body or another clock."""
    vector = BY_ID[name]
    named = {key.lower(): value for key, value in vector["headers"].items()} | {
        key.replace("_", "-"): text for key, text in headers.items()
    }
    return vector | {"headers": named, "body": vector["body"] if body is None else body, "now": now or vector["now"]}


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector["id"])
def test_a_genuine_request_is_proven_and_read(vector):
    provider, request = PROVIDERS[vector["provider"]], request_of(vector)
    assert isinstance(provider.parse(request, provider.verify(request)), Heard)


def signed_by(secret, algorithm):
    claims = jwt.decode(BY_ID["dialpad-call-hangup"]["body"], options={"verify_signature": False})
    return jwt.encode(claims, secret, algorithm=algorithm)


DIALPAD = ENVIRONMENT["dialpad"]["DIALPAD_SECRET"]
QUO, LEGACY = BY_ID["quo-call-completed"], BY_ID["quo-legacy-call-completed"]
SIGNATURE = LEGACY["headers"]["openphone-signature"]
FORGED = {
    "aircall-wrong-token": changed(
        "aircall-call-ended", body=BY_ID["aircall-call-ended"]["body"].replace("token-made-up", "token-made-uq")
    ),
    "asterisk-changed-body": changed("asterisk-dialplan-curl", body=BY_ID["asterisk-dialplan-curl"]["body"].replace("0101234", "0106666")),
    "asterisk-changed-time": changed("asterisk-dialplan-curl", x_pbx_timestamp="1768489446"),
    "asterisk-stale": changed("asterisk-dialplan-curl", now=1_768_489_445 + 301),
    "asterisk-future": changed("asterisk-dialplan-curl", now=1_768_489_445 - 301),
    "asterisk-other-hash": changed("asterisk-dialplan-curl", x_pbx_signature="md5=299a13ec"),
    "bandwidth-wrong-password": changed("bandwidth-initiate", authorization="Basic " + base64.b64encode(b"bw-hook-user:x").decode()),
    "bandwidth-broken-base64": changed("bandwidth-initiate", authorization="Basic ***"),
    "dialpad-wrong-secret": changed("dialpad-call-hangup", body=signed_by("x" * 64, "HS256")),
    "dialpad-other-algorithm": changed("dialpad-call-hangup", body=signed_by(DIALPAD * 2, "HS512")),
    "dialpad-no-algorithm": changed("dialpad-call-hangup", body=signed_by(None, "none")),
    "dialpad-cut": changed("dialpad-call-hangup", body=BY_ID["dialpad-call-hangup"]["body"][:-2]),
    "quo-stale": changed("quo-call-completed", now=QUO["now"] + 400),
    "quo-other-id": changed("quo-call-completed", webhook_id="msg_other"),
    "quo-legacy-changed-body": changed("quo-legacy-call-completed", body=LEGACY["body"].replace("0101234", "0106666")),
    "quo-legacy-changed-time": changed("quo-legacy-call-completed", openphone_signature=SIGNATURE.replace("5000;", "6000;")),
    "quo-legacy-other-version": changed("quo-legacy-call-completed", openphone_signature=SIGNATURE.replace("hmac;1", "hmac;2")),
    "quo-legacy-stale": changed("quo-legacy-call-completed", now=LEGACY["now"] + 400),
    "quo-legacy-nonsense": changed("quo-legacy-call-completed", openphone_signature="hmac;;;,;;;;,é"),
    "ringcentral-wrong-token": changed("ringcentral-session-setup", validation_token="rc-validation-token-made-uq"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_request_that_was_tampered_with_is_refused(name):
    assert verdict(FORGED[name]) == 403


def test_a_legacy_signature_counts_in_seconds_too_and_beside_others():
    from bridge.providers.quo import legacy_signature

    key = base64.b64decode(ENVIRONMENT["quo"]["QUO_LEGACY_KEY"])
    given = legacy_signature(key, "1768489445", LEGACY["body"].encode())
    assert verdict(changed("quo-legacy-call-completed", openphone_signature=f"hmac;1;0;x, hmac;1;1768489445;{given}")) == 200


def test_a_key_of_one_scheme_proves_nothing_in_the_other():
    both = registry.build(settings(QUO_LEGACY_KEY=QUO_KEY))["quo"]
    with pytest.raises(Refused):
        both.verify(request_of(QUO))


def test_the_standard_signature_is_the_librarys_own():
    from unittest.mock import patch

    from standardwebhooks import webhooks

    with patch.object(webhooks, "datetime", wraps=webhooks.datetime) as clock:
        clock.now.return_value = webhooks.datetime.fromtimestamp(QUO["now"], webhooks.timezone.utc)
        proven = webhooks.Webhook(QUO_KEY).verify(QUO["body"], QUO["headers"])
    assert proven["id"] == "EV0000000000000001"


def test_the_token_in_the_body_is_read_by_the_library():
    claims = jwt.decode(BY_ID["dialpad-call-ringing"]["body"], DIALPAD, algorithms=["HS256"])
    assert claims["external_number"] == "+15550101234"


@pytest.mark.skipif(not SHARED.exists(), reason="the collection of vectors is not beside the repository")
def test_the_collection_of_vectors_has_the_same_verdicts():
    for vector in json.loads(SHARED.read_text("utf-8"))["vectors"]:
        if vector["provider"] in ENVIRONMENT:
            body = vector.get("body") or (SHARED.parent / vector["body_file"]).read_text("utf-8")
            told = {"now": 1_768_489_445} | vector | {"body": body}
            assert (verdict(told) == 200) is vector["valid"], vector["id"]


def test_a_recorded_request_of_one_provider_is_none_of_another():
    for vector in RECORDED:
        for name in ENVIRONMENT:
            if name != vector["provider"]:
                with pytest.raises(Refused):
                    PROVIDERS[name].verify(replace(request_of(vector), path=f"/webhooks/{name}/events"))
