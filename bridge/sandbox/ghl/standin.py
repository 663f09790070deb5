"""The stand-in as a whole: an HTTP server on 127.0.0.1 that behaves like one GoHighLevel location, and misbehaves on request."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.sandbox.ghl.book import StoredContact
from bridge.sandbox.ghl.engine import Engine
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.statefile import StateFile
from bridge.sandbox.ghl.truth import Truth
from bridge.sandbox.ghl.wire import Server
from bridge.sandbox.ghl.world import World

SAVE_EVERY_S = 1.0
_POLL_S = 0.05  # how long `stop` may wait for the accepting thread


class GhlStandIn:
    """Start it, point `GHL_BASE_URL` at `url`, use `world.token` and `world.location_id`. Usable as a context manager.

    `settings` are those of World. `port` 0 takes any free port; after a `stop`, `start` takes the same one again and finds the same
    contacts, as a restarted service would. With `state_file`, contacts and notes survive the process as well.
    """

    def __init__(self, *, port: int = 0, state_file: Path | None = None, **settings: object) -> None:
        self.engine = Engine(World.model_validate(settings))
        self.port = port
        self._state = StateFile(state_file, self.engine.book) if state_file else None
        self._server: Server | None = None
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def world(self) -> World:
        return self.engine.world

    @property
    def truth(self) -> Truth:
        return self.engine.truth

    def start(self) -> Self:
        """Listen; returns at once, and connections made from now on are answered. Raises OSError where the port is taken."""
        if self._state and not self.engine.book.everything():
            self._state.load()
        self.engine.begin()
        self._stopped.clear()
        self._server = Server(self.port, self.engine)
        self.port = self._server.server_address[1]
        self._threads = [threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="ghl-stand-in", daemon=True)]
        if self._state:
            self._threads.append(threading.Thread(target=self._keep_saving, args=(self._state,), name="ghl-state", daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Stop listening, end what is under way, cancel late effects, write the state file. A second call does nothing."""
        server, self._server = self._server, None
        if server is None:
            return
        self.engine.end()
        self._stopped.set()
        server.shutdown()
        server.close_connections()
        server.server_close()
        for thread in self._threads:
            thread.join()
        if self._state:
            self._state.save()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def configure(self, **changes: object) -> World:
        """Change settings of the location at run time. Raises pydantic.ValidationError (a ValueError) for unknown names or wrong values."""
        return self.engine.configure(changes)

    def reset(self, **changes: object) -> None:
        """As at the start, with `changes` to the first settings."""
        self.engine.reset(changes)

    def add_fault(self, kind: str, **details: object) -> int:
        """Switch a fault on (faults.KINDS, faults.Fault). Returns its number for `remove_fault`."""
        return self.engine.faults.add(Fault.model_validate({"kind": kind, **details}))

    def remove_fault(self, number: int) -> bool:
        return self.engine.faults.remove(number)

    def clear_faults(self) -> None:
        self.engine.faults.clear()

    def add_contact(
        self, *, phone: str | None = None, tags: tuple[str, ...] = (), additional_phones: tuple[str, ...] = (), **fields: object
    ) -> StoredContact:
        """A contact as staff or an import would make it: no check, no request. `fields` are named as in the API (`firstName`, …)."""
        given = {**fields, "phone": phone} if phone else fields
        return self.engine.book.add(given, tags=tags, additional_phones=additional_phones)

    def merge(self, contact_id: str, into: str | None = None) -> StoredContact:
        """Merge a contact into another, or into a new one with the same phone. Returns the one that remains. Raises KeyError."""
        return self.engine.merge(contact_id, into)

    def delete(self, contact_id: str) -> StoredContact:
        """Delete a contact as staff would. Raises KeyError."""
        return self.engine.book.retire(contact_id)

    def _keep_saving(self, state: StateFile) -> None:
        while not self._stopped.wait(SAVE_EVERY_S):
            state.save()
