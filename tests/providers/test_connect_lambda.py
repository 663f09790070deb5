"""The Lambda on the page for Amazon Connect: what it sends is proven and read by the generic provider."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from urllib.error import HTTPError

import pytest

from bridge.call import Input, Status
from bridge.providers.base import Heard
from bridge.providers.signed_json import SignedJson
from bridge.sandbox.phone import sample
from tests.providers.support import SECRET, received, settings
from tests.providers.test_asterisk import bridge

SCRIPT = Path(__file__).parents[2] / "docs" / "providers" / "scripts" / "connect_lambda.py"
FLOW = json.loads(sample("generic", "connect-lambda-forwarded").body)
CONTACT = json.loads(sample("generic", "connect-eventbridge-forwarded").body)


def forward(event, monkeypatch, status=204):
    """What the bridge hears when AWS calls the Lambda with this event."""
    spec = importlib.util.spec_from_file_location("connect_lambda", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    adapter = SignedJson(settings(GENERIC_SECRET=SECRET))
    with bridge(status) as (url, got):
        monkeypatch.setenv("CALLBRIDGE_URL", url)
        monkeypatch.setenv("CALLBRIDGE_SECRET", SECRET)
        assert script.handler(event, None) == {"status": str(status)}
    request = received(got[0], now=float(got[0].headers["Webhook-Timestamp"]))
    heard = adapter.parse(request, adapter.verify(request))
    assert isinstance(heard, Heard)
    return heard


def test_a_contact_flow_tells_who_rings(monkeypatch):
    heard = forward(FLOW, monkeypatch)
    assert (heard.call.caller.e164, heard.call.dialled, heard.call.status) == ("+15550101234", "+15550109999", Status.IN_PROGRESS)
    assert heard.delivery_id == f"connect-{FLOW['Details']['ContactData']['ContactId']}-flow"


def test_what_was_entered_joins_the_same_call(monkeypatch):
    details = FLOW["Details"] | {"Parameters": {"step": "main-menu", "digits": "2"}}
    heard = forward(FLOW | {"Details": details}, monkeypatch)
    assert [(entered.value, entered.prompt) for entered in heard.call.inputs] == [("2", "main-menu")]
    assert heard.call.inputs == (Input("digits", "2", "main-menu", heard.delivery_id),)
    assert heard.call.key == forward(FLOW, monkeypatch).call.key
    assert heard.delivery_id.endswith("-main-menu")


def test_a_contact_event_is_news_of_the_same_call(monkeypatch):
    heard = forward(CONTACT, monkeypatch)
    assert (heard.call.key, heard.delivery_id) == (forward(FLOW, monkeypatch).call.key, CONTACT["id"])


def test_an_event_that_was_not_taken_raises_so_that_aws_sends_it_again(monkeypatch):
    with pytest.raises(HTTPError):
        forward(FLOW, monkeypatch, status=503)
