"""An event as it came, as a document for those who may see it, without what would be good for another request."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias
from urllib.parse import quote, quote_plus

from bridge.providers.base import WebhookRequest

RAW_LIMIT = 16 * 1024  # characters, or bytes, kept of the body of an event that was understood: its facts stand in the ledger
_SECRET_HEADERS = ("signature", "authorization", "cookie", "token")
_MASK = "***"

Masks: TypeAlias = Sequence[tuple[bytes, bytes]]  # what no document may hold, and what stands in its place; the longest first


def masks(secrets: Iterable[str]) -> Masks:
    """The spellings in which a secret may stand in a query or a body. Some providers prove themselves by a token in there."""
    found: dict[bytes, bytes] = {}
    for secret in secrets:
        texts = {
            secret,
            quote(secret, safe=""),
            quote(secret),
            quote_plus(secret),
            json.dumps(secret)[1:-1],
            json.dumps(secret)[1:-1].replace("/", "\\/"),
        }
        found |= dict.fromkeys((text.encode("utf-8", "surrogatepass") for text in texts), _MASK.encode())
        for encoding in ("utf-16-le", "utf-16-be"):
            found[secret.encode(encoding, "surrogatepass")] = _MASK.encode(encoding)
    return sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))


def raw(request: WebhookRequest, source: str, hidden: Masks, *, is_whole: bool = False) -> str:
    """The document, JSON in ASCII. `body` is the text of the body; where that is no UTF-8, `body_base64` holds its bytes.

    Of an event that was understood no more than RAW_LIMIT of the body is kept, and `body_bytes` tells how many came.
    """
    body = _without(hidden, request.body)
    document = {
        "at": request.now,
        "source": source,
        "method": request.method,
        "path": _text_without(hidden, request.path),
        "query": _text_without(hidden, request.query),
        "headers": {name: _text_without(hidden, value) for name, value in request.headers.items() if not _is_secret(name)},
        **(_as_text(body) if is_whole else _as_text(body, RAW_LIMIT)),
    }
    if not is_whole and len(body) > RAW_LIMIT:
        document["body_bytes"] = len(request.body)
    return json.dumps(document)


def _is_secret(header: str) -> bool:
    """Signatures and tokens are left out: they would be good for another request."""
    return any(word in header for word in _SECRET_HEADERS)


def _as_text(body: bytes, limit: int | None = None) -> dict[str, str]:
    try:
        return {"body": body.decode()[:limit]}
    except UnicodeDecodeError:
        # The text is there to be read, so its beginning will do.
        return {"body": body[:RAW_LIMIT].decode("utf-8", "replace"), "body_base64": base64.b64encode(body[:limit]).decode()}


def _without(hidden: Masks, content: bytes) -> bytes:
    for secret, mask in hidden:
        content = content.replace(secret, mask)
    return content


def _text_without(hidden: Masks, text: str) -> str:
    return _without(hidden, text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
