"""The control endpoints `/_control/…` and the view `/_truth`. No authentication: the stand-in listens on the loopback interface only.

docs/sandbox.md has an example for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from bridge.sandbox.ghl.asked import Request
from bridge.sandbox.ghl.engine import Engine
from bridge.sandbox.ghl.faults import ActiveFault, Fault
from bridge.sandbox.ghl.replies import Reply
from bridge.sandbox.ghl.rows import contact_row, note_row, served_row

PREFIXES = ("/_control/", "/_truth")


def is_control(path: str) -> bool:
    return path.startswith(PREFIXES)


class Control:
    """Turns control requests into acts on the engine. Mistakes are answered with 400 or 404 and `{"error": "what is allowed"}`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._acts: Mapping[tuple[str, str], Callable[[Request, Mapping[str, Any]], object]] = {
            ("POST", "/_control/reset"): self._reset,
            ("GET", "/_control/settings"): lambda *_: engine.world.model_dump(mode="json"),
            ("PATCH", "/_control/settings"): lambda _, body: engine.configure(body).model_dump(mode="json"),
            ("GET", "/_control/faults"): lambda *_: {"faults": [_fault_row(one) for one in engine.faults.all()]},
            ("POST", "/_control/faults"): lambda _, body: {"number": engine.faults.add(Fault.model_validate(body))},
            ("DELETE", "/_control/faults"): self._clear_faults,
            ("POST", "/_control/contacts"): self._add_contact,
            ("GET", "/_control/counters"): lambda *_: engine.truth.counts(),
            ("GET", "/_truth"): self._truth,
            ("GET", "/_truth/counts"): lambda *_: engine.truth.counts(),
            ("GET", "/_truth/contacts"): lambda request, _: self._contacts(request.query.get("phone")),
            ("GET", "/_truth/notes"): self._notes,
            ("GET", "/_truth/requests"): self._requests,
        }

    def answer(self, request: Request) -> Reply:
        try:
            body = json.loads(request.body) if request.body else {}
            if not isinstance(body, dict):
                return _mistake(400, "the body must be a JSON object")
            act = self._acts.get((request.method, request.path.rstrip("/")))
            return Reply(200, _document(act(request, body) if act else self._on_one(request, body)))
        except ValidationError as fault:
            return _mistake(400, "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in fault.errors()))
        except (ValueError, TypeError) as fault:
            return _mistake(400, str(fault))
        except LookupError as fault:
            return _mistake(404, f"there is no {request.method} {request.path} ({fault})")

    def _on_one(self, request: Request, body: Mapping[str, Any]) -> object:
        """`/_control/<contacts|faults>/<id>[/merge]`. Raises LookupError for anything else."""
        engine = self._engine
        match request.method, *request.path.strip("/").split("/")[1:]:
            case "DELETE", "contacts", contact_id:
                return contact_row(engine.book.retire(contact_id))
            case "POST", "contacts", contact_id, "merge":
                return contact_row(engine.merge(contact_id, body.get("into")))
            case "DELETE", "faults", number if number.isdigit() and engine.faults.remove(int(number)):
                return {"removed": int(number)}
        raise LookupError("see docs/sandbox.md")

    def _reset(self, _: Request, body: Mapping[str, Any]) -> object:
        self._engine.reset(body)
        return {"reset": True}

    def _clear_faults(self, *_: object) -> object:
        self._engine.faults.clear()
        return {"faults": []}

    def _add_contact(self, _: Request, body: Mapping[str, Any]) -> object:
        """A contact as staff or an import would make it: no check, no rate limit, no request in the log."""
        fields = {name: value for name, value in body.items() if name not in {"tags", "additionalPhones"}}
        tags, phones = tuple(body.get("tags", ())), tuple(body.get("additionalPhones", ()))
        return contact_row(self._engine.book.add(fields, tags=tags, additional_phones=phones))

    def _truth(self, request: Request, body: Mapping[str, Any]) -> object:
        parts = (self._contacts(None), self._notes(request, body), self._requests(request, body))
        return {"counts": self._engine.truth.counts()} | {name: rows for part in parts for name, rows in part.items()}

    def _contacts(self, phone: str | None) -> dict[str, list[dict[str, Any]]]:
        return {"contacts": [contact_row(contact) for contact in self._engine.truth.contacts(phone)]}

    def _notes(self, request: Request, _: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
        containing = request.query.get("containing", "")
        return {"notes": [note_row(note) for note in self._engine.truth.notes() if containing in note.body]}

    def _requests(self, request: Request, _: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
        query = request.query
        served = self._engine.truth.requests(endpoint=query.get("endpoint"), phone=query.get("phone"), since=int(query.get("since", "0")))
        return {"requests": [served_row(one) for one in served]}


def _document(told: object) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {"result": told}


def _fault_row(active: ActiveFault) -> dict[str, Any]:
    fault = active.fault.model_dump(mode="json", exclude_defaults=True)
    return {"number": active.number, "seen": active.seen, "hits": active.hits, **fault}


def _mistake(status: int, message: str) -> Reply:
    return Reply(status, {"error": message})
