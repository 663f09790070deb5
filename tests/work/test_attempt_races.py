"""Two runs of one call's job at the same instant."""

from __future__ import annotations

import pytest
import redis

from bridge.call import Caller, CallerKind
from bridge.errors import Permanent
from bridge.ledger import moves
from bridge.ledger.entry import Entry
from tests.support.builders import make_call
from tests.support.house import House


def test_of_two_runs_that_would_report_the_same_failure_one_raises_it(connection: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(connection)
    house.accept(make_call())
    house.accept(make_call(caller=Caller("+15550105678", CallerKind.PSTN, "+15550105678")))
    reported, raised = moves.reported, []

    def be_overtaken(entry: Entry, *, by: str | None = None) -> Entry:
        monkeypatch.setattr(moves, "reported", reported)
        with pytest.raises(Permanent) as other:
            house.run()
        raised.append(other.value.cause)
        return reported(entry, by=by)

    monkeypatch.setattr(moves, "reported", be_overtaken)
    house.run()
    assert raised == ["call.conflict"]


def test_run_whose_report_was_written_and_whose_answer_was_lost_still_raises_it(
    connection: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(connection)
    house.accept(make_call())
    house.accept(make_call(caller=Caller("+15550105678", CallerKind.PSTN, "+15550105678")))
    reported = moves.reported

    def be_written_already(entry: Entry, *, by: str | None = None) -> Entry:
        monkeypatch.setattr(moves, "reported", reported)
        house.change(lambda known, _now: reported(known, by=by))
        return reported(entry, by=by)

    monkeypatch.setattr(moves, "reported", be_written_already)
    with pytest.raises(Permanent):
        house.run()
