"""What masking costs: in proportion to the text, also where the text was made to cost more."""

from __future__ import annotations

import random
import time

import pytest

from bridge.watch import alerts
from bridge.watch.masking import mask


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1 ", "a.", "a-1-", "://", "://a:", "token=", 'token="', "name:", '\\"name\\": \\"', "+", "%20", "a@",
      "bearer ", "bearer a", "eyJaaaaaaaa.", "sip:", "(1",
     "-eyJ", "a-eyJaaaaaaaa", "1    ", "token is ", "\\", "'", '"\\', "2026-11-", "deadbeef-", "authorization: ", "-", "name,'", "1.",
     "x=\\'"],
)  # fmt: skip
def test_cost_grows_with_length_and_not_faster(piece):
    """Eight times the text may cost some eight times the time; quadratic matching would cost 64 times."""
    short, long = (piece * (size // len(piece)) for size in (2_500, 20_000))
    assert _cost(long) < 32 * _cost(short) + 0.002


_MEANT_FOR_A_PATTERN = [
    *("a", "1", " ", "=", ":", "'", '"', "\\", "@", ".", "-", "+", "(", "/", "\n", "{", "&", "]", "_", ";"),
    *(
        "%2B",
        "\\u002B",
        "://",
        "eyJ",
        "bearer ",
        "basic ",
        "token ",
        "is ",
        "pit-",
        "whsec_",
        "sip:",
        "caller",
        "name",
        "From",
        "2026-11-30",
    ),
]


def test_cost_grows_with_length_and_not_faster_whatever_pieces_a_text_repeats():
    """A pattern that tries again from each place of a long run shows only where something else in the text lets it begin there."""
    draw = random.Random(7)
    for _ in range(150):
        piece = "".join(draw.choice(_MEANT_FOR_A_PATTERN) for _ in range(draw.randint(1, 4)))
        short, long = (piece * (size // len(piece)) for size in (1_500, 24_000))
        assert _cost(long) < 80 * _cost(short) + 0.004, repr(piece)


def _cost(text):
    return min(_seconds(text) for _ in range(4))


def _seconds(text):
    return _seconds_of(lambda: mask(text))


def _seconds_of(act):
    started = time.thread_time()
    act()
    return time.thread_time() - started


@pytest.mark.parametrize("piece", ["a", "1", "a.", "a1", "-", "a ", "1 ", ":1", "é"])
def test_what_groups_the_alerts_costs_no_more_than_the_message_is_long(piece):
    def cost(size):
        event = {"event_id": "1", "message": piece * (size // len(piece))}
        return min(_seconds_of(lambda: alerts._cause_of(event)) for _ in range(4))

    assert cost(80_000) < 32 * cost(10_000) + 0.002


def test_a_usual_line_costs_little():
    line = (
        'https://services.leadconnectorhq.com:443 "GET /contacts/search/duplicate?number=%2B12025550143&locationId=ABcd1234567890abcdEF '
        'HTTP/1.1" 200 512 for call twilio-CA0123456789abcdef0123456789abcdef'
    )
    best = min(_seconds(line) for _ in range(200))
    assert best < 0.000_25  # some 26 µs on a quiet machine
