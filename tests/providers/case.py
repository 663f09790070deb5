"""What a provider brings to the contract: deliveries of its own, signed with secrets that the tests know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.sandbox.phone import Delivery


@dataclass(frozen=True)
class Case:
    environment: dict[str, str]
    started: Callable[..., Delivery]
    ended: Callable[..., Delivery]
    raw: Callable[[bytes], Delivery] | None  # any body, properly signed; None: the proof stands in the body, so not any body can have one
    stranger: Callable[[], Delivery]  # signed with a secret that we do not know
    rotated: Callable[[], Delivery]  # signed with a further secret that we know
    has_time: bool = False
    proof: tuple[str, ...] = ("signature",)  # what the names of the headers with the proof have in common
    words: tuple[str, ...] = ("COMPLETED", "No-Answer", "answered", "CANCELED")  # words for a status, in any case
    covers_body: bool = True  # a token or a password proves the sender, whatever the body says
    without_proof: Callable[[Delivery], Delivery] | None = None  # the delivery without its proof, where that is no header
    dialled: str | None = "+15550109999"
    duration_s: int | None = 94
