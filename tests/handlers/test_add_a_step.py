"""The worked example of docs/add-a-step.md is run as it stands there, and is held to what the page teaches."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import redis

import handlers
from bridge.call import Input, Status
from bridge.errors import Gone, Uncertain
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import State
from handlers import steps
from tests.rules.tree import ROOT
from tests.support.builders import NOW, PHONE, make_call
from tests.support.house import House

PAGE = ROOT / "docs" / "add-a-step.md"
WISH = make_call(status=Status.IN_PROGRESS, inputs=(Input("digits", "9"),))
OVER = make_call(inputs=WISH.inputs)
CALLBACK = "CALLBACK WANTED"


def blocks() -> dict[str, str]:
    """Name of the file that a block is for → the block."""
    return dict(re.findall(r"^`([\w/]+\.py)`[^\n]*\n\n```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


def module(name: str, source: str) -> ModuleType:
    made = ModuleType(name)
    sys.modules[name] = made  # dataclasses and annotations look their module up there
    exec(compile(source, f"{PAGE.name}: {name}", "exec"), made.__dict__)
    return made


@pytest.fixture(autouse=True)
def step(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's step, in the place that the page gives it."""
    monkeypatch.setitem(sys.modules, "handlers.flag_callback", None)
    made = module("handlers.flag_callback", blocks()["handlers/flag_callback.py"])
    monkeypatch.setattr(handlers, "flag_callback", made, raising=False)
    namespace = vars(steps) | {"flag_callback": made}
    exec(blocks()["handlers/steps.py"], namespace)
    monkeypatch.setattr(steps, "STEPS", namespace["STEPS"])
    return made


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def callbacks(house: House, contact_id: str = "c1") -> int:
    return sum(body.startswith(CALLBACK) for body in house.crm.bodies(contact_id))


def until_done(house: House) -> None:
    for _ in range(20):
        if house.entry().state is State.DONE:
            return
        if house.entry().queued_at is None:
            house.requeue()
        house.run()
    pytest.fail(f"not done: {house.entry()}")


PAGE_TESTS = sorted(re.findall(r"^def (test_\w+)", blocks()["tests/handlers/test_flag_callback.py"], re.MULTILINE))


@pytest.mark.parametrize("name", PAGE_TESTS)
def test_the_tests_on_the_page_pass(connection: redis.Redis, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "test_flag_callback", None)
    test: Callable[[redis.Redis], None] = getattr(module("test_flag_callback", blocks()["tests/handlers/test_flag_callback.py"]), name)
    assert test(connection) is None


def test_a_second_run_writes_nothing_more(house: House) -> None:
    house.accept(OVER)
    house.run()
    requests = list(house.crm.requests)
    house.run()
    assert (callbacks(house), house.crm.requests) == (1, requests)


def test_who_presses_another_key_costs_no_request(house: House) -> None:
    house.accept(make_call(inputs=(Input("digits", "1"), Input("speech", "9"))))
    house.run()
    assert callbacks(house) == 0
    assert house.crm.requests == ["find_contact", "create_contact", "add_note"]


def test_without_a_fault_it_costs_one_request(house: House) -> None:
    house.accept(OVER)
    house.run()
    assert house.crm.requests == ["find_contact", "create_contact", "add_note", "add_note"]


def test_a_worker_that_dies_before_the_record_leaves_one_callback(house: House) -> None:
    house.accept(OVER)
    house.crm.lose("add_note", SystemExit())
    with pytest.raises(SystemExit):
        house.run()
    house.change(moves.put_back)
    until_done(house)
    assert (callbacks(house), len(house.crm.bodies("c1"))) == (1, 2)


def test_a_request_that_never_arrived_is_sent_again_after_the_whole_schedule(house: House) -> None:
    house.accept(OVER)
    house.crm.refuse("add_note", Uncertain("no answer", cause="crm.timeout"))
    house.run()
    until_done(house)
    assert callbacks(house) == 1
    assert house.clock.now() - NOW >= sum(house.settings.settle_schedule_s)


def test_a_contact_that_does_not_show_yet_is_waited_for(house: House) -> None:
    house.accept(WISH)
    house.crm.refuse("add_note", Gone("no such contact", cause="crm.gone"))
    house.run()
    assert (house.entry().contact_id, house.entry().waiting_for) == ("c1", "settle.contact")
    house.run_again()
    assert callbacks(house) == 1
    assert list(house.crm.contacts) == ["c1"]


def test_a_merged_contact_gets_the_callback_that_the_old_one_had(house: House) -> None:
    house.accept(WISH)
    house.run()
    house.crm.delete("c1")
    remaining = house.crm.add(PHONE)
    house.accept(OVER)
    until_done(house)
    assert house.entry().contact_id == remaining.id
    assert callbacks(house, remaining.id) == 1


def test_a_ledger_that_was_lost_finds_the_callback_of_the_one_before(house: House) -> None:
    house.accept(OVER)
    house.run()
    house.connection.flushall()
    house.clock.advance(60)
    house.accept(OVER, source="backfill")
    house.run()
    until_done(house)
    assert (callbacks(house), len(house.crm.bodies("c1"))) == (1, 2)


def test_a_replay_from_the_step_finds_what_is_there(house: House, step: ModuleType) -> None:
    house.accept(OVER)
    house.run()
    order = [one.name for one in steps.STEPS]
    house.change(lambda entry, now: by_hand.replay(entry, now, start_at=now, from_step=step.NAME, order=order))
    until_done(house)
    assert (callbacks(house), len(house.crm.bodies("c1"))) == (1, 2)
