"""An event as it came: every byte of what could not be understood, and no secret."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote_plus

import pytest

from bridge.intake.raw import RAW_LIMIT, masks, raw
from bridge.providers.base import WebhookRequest

SECRET = 'a+very/secret"token='


def document(body: bytes, *, is_whole: bool = True, **changes) -> dict[str, str]:
    values = {"method": "POST", "path": "/webhooks/x", "query": "", "headers": {}, "body": body, "public_url": "https://x", "now": 1.0}
    return json.loads(raw(WebhookRequest(**values | changes), "webhook", masks([SECRET]), is_whole=is_whole))


def came(kept: dict[str, str]) -> bytes:
    return base64.b64decode(kept["body_base64"]) if "body_base64" in kept else kept["body"].encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe\x00binary",
        "Jos\u00e9 \u6771\u4eac \U0001f4de".encode(),
        "Jos\u00e9".encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        bytes(range(256)) * 1024,
        b"y" * 262_144,
        "\u00e9".encode() * 131_072,
        b"\xed\xa0\x80",
    ],
)
def test_every_byte_of_an_event_that_could_not_be_understood_is_kept(body: bytes) -> None:
    assert came(document(body)) == body


def test_text_is_kept_as_text() -> None:
    assert document("Jos\u00e9".encode())["body"] == "Jos\u00e9"
    assert "body_base64" not in document(b"a=b")


@pytest.mark.parametrize("body", [b"x" * (RAW_LIMIT + 9), b"\xff" * (RAW_LIMIT + 9)])
def test_of_an_event_that_was_understood_the_beginning_is_kept_and_its_length(body: bytes) -> None:
    kept = document(body, is_whole=False)
    assert came(kept) == body[:RAW_LIMIT]
    assert kept["body_bytes"] == len(body)


@pytest.mark.parametrize(
    "body",
    [
        SECRET.encode(),
        b"\xff" + SECRET.encode(),
        f"token={quote_plus(SECRET)}".encode(),
        json.dumps({"token": SECRET}).encode(),
        json.dumps({"token": SECRET}).replace("/", "\\/").encode(),
        f"<token>{SECRET}</token>".encode("utf-16"),
        f"<token>{SECRET}</token>".encode("utf-16-be"),
    ],
)
def test_no_spelling_of_a_secret_is_kept(body: bytes) -> None:
    kept = came(document(body))
    assert len(kept) < len(body)
    for text in ("very", "secret", "s\0e\0c\0r\0e\0t"):
        assert text.encode() not in kept


def test_secrets_are_taken_out_of_path_query_and_headers_too() -> None:
    kept = document(b"", path=f"/webhooks/x/{SECRET}", query=quote_plus(SECRET), headers={"x-key": SECRET, "x-our-token": "t", "x-a": "b"})
    assert (kept["path"], kept["query"], kept["headers"]) == ("/webhooks/x/***", "***", {"x-key": "***", "x-a": "b"})


def test_headers_that_are_no_text_are_kept() -> None:
    assert document(b"", headers={"x-odd": "\udcff\xe9"})["headers"] == {"x-odd": "\udcff\xe9"}
