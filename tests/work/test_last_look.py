"""The look right before a replayed call's first effect: who has opted out meanwhile hears nothing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from bridge.call import Recording
from bridge.errors import Permanent, Transient
from bridge.intake.accept import Taken
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import Cause, Entry, State
from tests.support.builders import ANONYMOUS, KEY, PHONE, make_call, parked_entry
from tests.support.house import House


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def put_back(house: House, entry: Entry, *vouched: str) -> None:
    house.put(by_hand.replay(entry, house.clock.now(), start_at=house.clock.now(), vouched=vouched))
    house.requeue()


def with_contact(house: House, contact_id: str) -> Entry:
    """A call that failed behind its first step, long ago."""
    return moves.adopt(moves.record(parked_entry(), by_hand.FIND, house.clock.now() - 3600, version=1), contact_id, created=True)


@pytest.mark.parametrize("shown", [{"dnd": True}, {"tags": ("vip", "Do Not Contact")}], ids=["dnd", "tag"])
def test_nothing_is_sent_to_a_contact_that_has_opted_out_and_nobody_has_answered_for(house: House, shown: dict) -> None:
    contact = house.crm.add(PHONE, **shown)
    put_back(house, parked_entry())
    with pytest.raises(Permanent, match="does not want to be contacted"):
        house.run()
    trouble = house.entry().trouble
    assert trouble is not None
    assert (trouble.cause, trouble.word) == (Cause.STALE, "replay.opted_out")
    assert "with a reason" in trouble.hint
    assert house.crm.requests == ["find_contact"]
    assert house.crm.bodies(contact.id) == []


def test_what_a_typed_reason_has_answered_for_is_sent(house: House) -> None:
    contact = house.crm.add(PHONE, dnd=True)
    put_back(house, parked_entry(), "opted out")
    house.run()
    assert house.entry().state is State.DONE
    assert len(house.crm.bodies(contact.id)) == 1


def test_a_reason_for_something_else_is_none_for_this(house: House) -> None:
    house.crm.add(PHONE, dnd=True)
    put_back(house, parked_entry(), "age", "later", "cause")
    with pytest.raises(Permanent):
        house.run()


def test_a_contact_that_is_gone_is_not_made_anew_unasked(house: House) -> None:
    put_back(house, with_contact(house, "c99"))
    with pytest.raises(Permanent, match="deleted or merged"):
        house.run()
    assert house.crm.contacts == {}
    put_back(house, house.entry(), "gone")
    house.run()
    assert (house.entry().state, len(house.crm.contacts)) == (State.DONE, 1)


def test_a_number_that_leads_elsewhere_by_now_is_a_question(house: House) -> None:
    mine, _other = house.crm.add(None), house.crm.add(PHONE)
    put_back(house, with_contact(house, mine.id))
    with pytest.raises(Permanent, match="leads to another contact"):
        house.run()


def test_a_contact_that_a_person_has_chosen_is_no_doubt(house: House) -> None:
    mine, _other = house.crm.add(None), house.crm.add(PHONE)
    now = house.clock.now()
    house.put(by_hand.adopt(parked_entry(), now, mine.id, start_at=now, vouched=("changed",)))
    house.requeue()
    house.run()
    assert (house.entry().state, len(house.crm.bodies(mine.id))) == (State.DONE, 1)


def test_a_contact_that_the_call_has_just_made_may_not_show_yet(house: House) -> None:
    made = house.crm.add(PHONE)
    house.crm.index_lags = True
    fresh = moves.record(parked_entry(), by_hand.FIND, house.clock.now(), version=1)
    put_back(house, moves.adopt(fresh, made.id, created=True))
    house.run()
    assert house.entry().state is State.DONE


def test_while_the_crm_cannot_be_asked_nothing_is_sent_and_the_call_waits(house: House) -> None:
    house.crm.add(PHONE, dnd=True)
    house.crm.refuse("find_contact", Transient("away", cause="crm.5xx"))
    put_back(house, parked_entry())
    house.run()
    assert (house.entry().state, house.entry().is_replay) == (State.ACCEPTED, True)
    house.requeue()
    with pytest.raises(Permanent):
        house.run()


def test_a_caller_without_a_number_is_not_looked_for(house: House) -> None:
    put_back(house, parked_entry(facts=make_call(caller=ANONYMOUS)))
    house.run()
    assert "find_contact" not in house.crm.requests


def test_a_replay_leaves_the_live_calls_their_share_of_the_budget(house: House) -> None:
    seen: list[bool] = []
    house.crm.watch("find_contact", lambda: seen.append(house.crm.background))
    put_back(house, parked_entry())
    house.run()
    house.accept(make_call(root_id="CA2", caller=replace(make_call().caller, e164="+12025550142")))
    house.run(make_call(root_id="CA2").key)
    assert seen == [True, True, False]


def test_the_guard_ends_with_the_replay(house: House) -> None:
    contact = house.crm.add(PHONE)
    put_back(house, parked_entry(), "age")
    house.run()
    assert (house.entry().is_replay, house.entry().vouched) == (False, ())
    house.crm.contacts[contact.id] = replace(contact, dnd=True)
    assert house.accept(make_call(recordings=(Recording("RE1", "https://api.example.com/RE1"),)), "later") is Taken.NEWS
    house.run()
    assert house.entry().state is State.DONE


def test_a_recording_that_comes_later_sends_nothing_to_a_contact_that_has_opted_out(house: House) -> None:
    house.crm.add(PHONE, dnd=True)
    put_back(house, parked_entry())
    with pytest.raises(Permanent):
        house.run()
    assert house.accept(make_call(recordings=(Recording("RE1", "https://api.example.com/RE1"),)), "later") is Taken.NEWS
    assert house.entry(KEY).state is State.NEEDS_ATTENTION
