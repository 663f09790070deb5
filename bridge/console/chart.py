"""The hours' figures as bars, drawn on the server. Pure: numbers in, places in a picture out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 160
_GROUND, _TOP = HEIGHT - 22, 14
_GAP = 0.28  # of an hour's width, between two hours


@dataclass(frozen=True, slots=True)
class Hour:
    """What happened in one hour. `label` is its beginning, as people there write it."""

    label: str
    calls: int
    leads: int
    failures: int


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Column:
    """One hour in the picture. `middle` is where its label stands, where it has one."""

    hour: Hour
    bars: tuple[Bar, ...]
    middle: float
    has_label: bool


@dataclass(frozen=True, slots=True)
class Chart:
    columns: tuple[Column, ...]
    top: int  # the value at the picture's upper edge
    width: int = WIDTH
    height: int = HEIGHT
    ground: int = _GROUND
    upper: int = _TOP


def draw(hours: Sequence[Hour]) -> Chart:
    """Calls as a pale bar, leads in it, failures in front."""
    top = round_up(max((max(hour.calls, hour.leads, hour.failures) for hour in hours), default=0))
    slot = WIDTH / max(len(hours), 1)
    columns = tuple(_column(hour, number, slot, top) for number, hour in enumerate(hours))
    return Chart(columns, top)


def round_up(value: int) -> int:
    """The next number that is easy on the eye: 1, 2, 5, 10, 20, 50, …"""
    size = 1
    while True:
        for lead in (1, 2, 5):
            if value <= lead * size:
                return lead * size
        size *= 10


def _column(hour: Hour, number: int, slot: float, top: int) -> Column:
    left, width = (number + _GAP / 2) * slot, slot * (1 - _GAP)
    shown = (("calls", hour.calls, 1.0), ("leads", hour.leads, 0.62), ("failures", hour.failures, 0.28))
    bars = tuple(_bar(kind, value, left, width, share, top) for kind, value, share in shown if value)
    return Column(hour, bars, round((number + 0.5) * slot, 1), number % 4 == 2)


def _bar(kind: str, value: int, left: float, width: float, share: float, top: int) -> Bar:
    height = (_GROUND - _TOP) * value / top
    return Bar(round(left + width * (1 - share) / 2, 1), round(_GROUND - height, 1), round(width * share, 1), round(height, 1), kind)
