"""What is listed and lacking goes in once, waits for its turn, and becomes one lead."""

from __future__ import annotations

import itertools
import json

import pytest

from bridge.call import Caller, CallerKind, Status
from bridge.errors import Transient
from bridge.ledger.entry import State
from bridge.work import queues, sweep
from tests.intake.backfills import EVERY_S, WITHHELD, Filler, a_call, a_house
from tests.support.builders import NOW, PHONE, make_call

KEY = "twilio-CA0"


@pytest.fixture
def world():
    from bridge.sandbox.call_lists import CallLists

    with CallLists(page_size=2) as server:
        yield server


@pytest.fixture
def house(connection, world):
    return a_house(connection, world)


@pytest.fixture
def filler(house):
    return Filler(house)


def test_what_the_ledger_lacks_goes_in_and_the_rest_is_left_alone(house, filler, world) -> None:
    house.accept(make_call(root_id="CA1"))
    world.add("twilio", a_call(0), a_call(1), a_call(2, direction="outbound"), a_call(3, parent="CA1"))
    found = filler.fill()
    assert (found.inserted, found.known, found.updated, found.too_young) == (1, 1, 0, 0)
    assert found.missed == [KEY]
    assert found.listed.ignored == {"outbound call": 1, "a leg of another call": 1}
    assert house.entry(KEY).source == "backfill"
    assert house.entry("twilio-CA1").source == "webhook"


def test_calls_to_numbers_of_other_programs_are_left_out_where_ours_are_named(connection, world) -> None:
    house = a_house(connection, world, BACKFILL_NUMBERS="(555) 010-9999")
    world.add("twilio", a_call(0), a_call(1, dialled="+15550108888"))
    found = Filler(house).fill()
    assert found.missed == [KEY]
    assert found.listed.ignored == {"dialled a number that is not in BACKFILL_NUMBERS": 1}


def test_second_backfill_finds_nothing_to_do(house, filler, world) -> None:
    world.add("twilio", a_call(0), a_call(1))
    filler.fill()
    before = house.entry(KEY)
    again = filler.fill()
    assert (again.inserted, again.known) == (0, 2)
    assert house.entry(KEY) == before


def test_dry_run_says_what_would_go_in_and_changes_nothing(house, filler, world) -> None:
    world.add("twilio", a_call(0))
    assert filler.fill(dry_run=True).inserted == 1
    assert house.store.get(KEY) is None


def test_webhook_that_comes_after_all_finds_the_same_call(house, filler, world) -> None:
    world.add("twilio", a_call(0, caller=PHONE))
    filler.fill()
    house.accept(make_call(root_id="CA0", raw_status="completed"))
    assert len(house.store.page(None, after=None, limit=9)) == 1
    assert house.entry(KEY).state is State.ACCEPTED
    assert not house.entry(KEY).conflicts


def test_call_so_young_that_its_webhook_is_on_its_way_is_left_for_later(house, filler, world) -> None:
    world.add("twilio", a_call(0, started=NOW - 20, status="in-progress"))
    assert filler.fill().too_young == 1
    house.clock.advance(60)
    assert filler.fill().inserted == 1


def test_call_that_has_just_ended_is_left_to_a_webhook_that_is_sent_at_the_end(house, filler, world) -> None:
    world.add("twilio", a_call(0, started=NOW - 600, duration_s=590))
    found = filler.fill()
    assert (found.inserted, found.too_young, found.young_since) == (0, 1, NOW - 600)
    house.clock.advance(60)
    assert filler.fill().inserted == 1


def test_list_that_spells_a_known_caller_otherwise_makes_no_conflict(house, filler, world) -> None:
    house.accept(make_call(root_id="CA0", caller=Caller("sip:jane@example.com", CallerKind.SIP)))
    world.add("twilio", a_call(0, **WITHHELD))
    assert filler.fill().known == 1
    assert house.entry(KEY).conflicts == ()


def test_webhook_that_comes_while_a_list_goes_in_is_left_alone_like_any_other(house, filler, world) -> None:
    world.add("twilio", a_call(0, **WITHHELD))
    look_up = house.store.get_many

    def webhook_comes(keys):
        known = look_up(keys)
        house.accept(make_call(root_id="CA0", caller=Caller("sip:jane@example.com", CallerKind.SIP)))
        return known

    house.store.get_many = webhook_comes
    assert filler.fill().known == 1
    assert house.entry(KEY).conflicts == ()
    assert house.entry(KEY).source == "webhook"


def test_call_that_nobody_named_a_caller_for_gets_one_from_the_list(house, filler, world) -> None:
    house.accept(make_call(root_id="CA0", caller=None, dialled=None))
    world.add("twilio", a_call(0, caller=PHONE))
    assert filler.fill().updated == 1
    assert house.entry(KEY).facts.caller.e164 == PHONE


def test_end_of_a_call_is_learnt_where_the_list_alone_knew_of_it(house, filler, world) -> None:
    world.add("twilio", a_call(0, status="in-progress", started=NOW - 120))
    filler.fill()
    world._calls["twilio"] = [a_call(0, started=NOW - 120)]
    assert filler.fill().updated == 1
    assert house.entry(KEY).facts.status is Status.COMPLETED
    assert filler.fill().known == 1


def test_end_without_a_caller_makes_no_question_for_a_person(house, filler) -> None:
    from bridge.intake.backfill import Listed, Row
    from bridge.providers.lists.base import Window

    listed = Listed(filler.lists.listers[0], Window(0, NOW))
    call = make_call(root_id="CA9", caller=None)
    listed.rows[call.key] = Row(call, "content", "{}")
    found = filler.engine.bring(listed)
    assert found.inserted == 0
    assert listed.ignored == {"its end is listed, but not who called": 1}
    assert house.store.get(call.key) is None


def test_listed_calls_wait_for_their_turn_one_after_the_other(house, filler, world) -> None:
    world.add("twilio", *[a_call(number) for number in range(4)])
    filler.fill()
    entries = house.store.page(State.ACCEPTED, after=None, limit=9)
    starts = sorted(entry.next_try_at for entry in entries)
    assert [entry.waiting_for for entry in entries] == ["replay"] * 4
    assert [later - earlier for earlier, later in itertools.pairwise(starts)] == pytest.approx([EVERY_S] * 3)
    assert house.jobs() == []


def test_listed_call_is_not_started_while_live_calls_wait(house, filler, world) -> None:
    world.add("twilio", a_call(0))
    filler.fill()
    house.clock.advance(10)
    nowhere = queues.Presence(frozenset(), frozenset(), frozenset())

    def start(*, has_room: bool):
        return house.store.change(KEY, lambda entry, moment: sweep.decide(entry, moment, nowhere, has_room=has_room))

    assert start(has_room=False).queued_at is None
    house.clock.advance(10)
    assert start(has_room=True).queued_at is not None


def test_work_on_a_listed_call_leaves_budget_to_live_calls(house, filler, world) -> None:
    seen = []
    house.crm.watch("find_contact", lambda: seen.append(house.crm.background))
    world.add("twilio", a_call(0))
    filler.fill()
    house.run_again(KEY)
    house.accept(make_call(root_id="CA5"))
    house.run("twilio-CA5")
    assert seen == [True, False]
    assert house.entry(KEY).state is State.DONE


def test_call_from_before_the_ledger_is_looked_for_before_anything_is_written(house, filler, world) -> None:
    house.connection.set("cb:born", repr(NOW - 60))
    contact = house.crm.add("+15550100000")
    house.crm.add_note(contact.id, f"An earlier life of this bridge wrote this.\nCall key: {KEY}")
    house.crm.requests.clear()
    world.add("twilio", a_call(0))
    filler.fill()
    house.run_again(KEY)
    assert "list_notes" in house.crm.requests
    assert "add_note" not in house.crm.requests
    assert house.entry(KEY).state is State.DONE


def test_list_that_breaks_off_brings_what_it_told_and_says_so(house, filler, world) -> None:
    world.add("twilio", *[a_call(number) for number in range(5)])
    (lister,) = filler.lists.listers
    turned = lister.following

    def break_off(ask, page, rows):
        world.broken = 100
        return turned(ask, page, rows)

    lister.following = break_off
    found = filler.fill()
    assert found.inserted == 2
    assert not found.ok
    assert isinstance(found.listed.fault, Transient)
    assert "127.0.0.1" in found.as_document()["fault"]


def test_row_that_cannot_be_read_costs_no_other(house, filler, world) -> None:
    (lister,) = filler.lists.listers
    read = lister.read
    lister.read = lambda row: read(row) if row["sid"] != "CA1" else 1 / 0
    world.add("twilio", a_call(0), a_call(1))
    found = filler.fill()
    assert found.inserted == 1
    assert found.listed.ignored == {"could not be read: ZeroDivisionError": 1}


def test_what_was_listed_is_kept_for_those_who_may_see_it(house, filler, world) -> None:
    world.add("twilio", a_call(0))
    filler.fill()
    (raw,) = house.store.raw(KEY)
    assert raw["source"] == "backfill"
    assert json.loads(raw["body"])["sid"] == "CA0"


def test_nothing_is_written_while_a_list_is_read(house, filler, world) -> None:
    before = house.connection.keys("*")
    world.add("twilio", a_call(0))
    (lister,) = filler.lists.listers
    from bridge.providers.lists.base import Window

    assert len(filler.engine.read(lister, Window(NOW - 7200, NOW)).rows) == 1
    assert house.connection.keys("*") == before


def test_list_that_never_ends_is_given_up(house, filler, world, monkeypatch) -> None:
    monkeypatch.setattr("bridge.intake.backfill.MAX_PAGES", 3)
    (lister,) = filler.lists.listers
    asks = iter(range(100))
    lister.following = lambda ask, page, rows: type(ask)(ask.url, (*ask.query, ("again", str(next(asks)))))
    world.add("twilio", a_call(0))
    found = filler.fill()
    assert found.inserted == 1
    assert len(world.asked) == 3
    assert found.listed.fault.cause == "list.endless"  # what was not read is not taken for read


def test_list_that_names_the_same_page_again_was_not_read_to_its_end(filler, world) -> None:
    (lister,) = filler.lists.listers
    lister.following = lambda ask, page, rows: ask
    world.add("twilio", a_call(0))
    found = filler.fill()
    assert (found.inserted, found.listed.fault.cause) == (1, "list.endless")


@pytest.mark.parametrize("uri", ["http://[", "//elsewhere.example.com/x", "http://127.0.0.1:x/"])
def test_link_that_leads_nowhere_is_a_fault_of_that_list_alone(filler, world, uri) -> None:
    (lister,) = filler.lists.listers
    lister.following = lambda ask, page, rows: type(ask)(uri)
    world.add("twilio", a_call(0))
    found = filler.fill()
    assert found.inserted == 1
    assert found.listed.fault.cause.startswith("list.")


def test_accounts_list_is_asked_for_a_day_more_on_each_side(filler, world) -> None:
    filler.fill()
    assert world.asked[0].query["StartTime>"] == "2026-01-14"
    assert world.asked[0].query["StartTime<"] == "2026-01-16"
