"""An owner whose messages can be read, and a look of whoever watches for them."""

from __future__ import annotations

from bridge.watch.notify import Message
from bridge.watch.watcher import Watcher


class Post:
    """A route that keeps its messages, or fails while it is `closed`."""

    def __init__(self, name: str = "webhook") -> None:
        self.name = name
        self.closed = False
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        if self.closed:
            raise OSError("closed")
        self.messages.append(message)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(message.kind.value, message.cause) for message in self.messages]


def look(*watchers: Watcher) -> None:
    for one in watchers:
        one.look()
    for one in watchers:
        one.stop()
