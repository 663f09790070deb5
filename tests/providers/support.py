"""What the provider tests share: settings with one provider, and a delivery as the web room would hand it to an adapter."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from bridge.providers.base import WebhookRequest
from bridge.providers.registry import SETTINGS
from bridge.sandbox.phone import Delivery
from bridge.settings import Settings, load

PUBLIC_URL = "https://ivr.example.com"
TOKEN = "twilio_test_auth_token_made_up_01"
SHARED_KEY_ID, SHARED_KEY = "webhooks_sharedkey_00000000000000000000000001", "twilio_shared_key_secret_made_up"
SECRET = "whsec_Z2VuZXJpYy1tYWRlLXVwLXNpZ25pbmctc2VjcmV0ISE="
OLD_SECRET = "whsec_Z2VuZXJpYy1PTEQtbWFkZS11cC1zaWduaW5nLWtleSE="
NOW = 1_768_489_445.0
VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))["vectors"]


def settings(**environment: str) -> Settings:
    base = {"REDIS_URL": "redis://127.0.0.1", "PUBLIC_URL": PUBLIC_URL, "SECRET_KEY": "x" * 32, "GHL_TOKEN": "t", "GHL_LOCATION_ID": "l"}
    return load(base | environment, SETTINGS)


def received(delivery: Delivery, *, now: float = NOW, public_url: str = "") -> WebhookRequest:
    parts = urlsplit(delivery.url)
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    base = public_url or f"{parts.scheme}://{parts.netloc}"
    return WebhookRequest(delivery.method, parts.path, parts.query, headers, delivery.body, base, now)
