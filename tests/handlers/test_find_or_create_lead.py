"""Exactly one contact per location and caller, whatever is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from bridge.call import Caller, CallerKind
from bridge.crm.base import Contact, Draft
from bridge.errors import Ask, NotYet, Permanent, Transient, Uncertain
from bridge.ledger import keys, moves
from bridge.ledger.entry import Cause, State
from handlers.find_or_create_lead import TRUSTED_S
from tests.support.builders import ANONYMOUS, NOW, PHONE, make_call
from tests.support.crm import TIMEOUT_S
from tests.support.house import House

LAST_LOOK_S = 82.0
SECOND = make_call(root_id="CA2")


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


@pytest.fixture
def lenient(connection: redis.Redis) -> House:
    """A location that allows duplicates."""
    return House(connection, allows_duplicates=True)


def settle(house: House, looks: int = 4) -> None:
    """Let the schedule go by: every look finds nothing."""
    for _ in range(looks):
        assert house.entry().waiting_for == "settle.create"
        house.run_again()


# ---- Without faults


def test_a_new_caller_costs_three_requests(house: House) -> None:
    house.accept(make_call(caller_name="JANE"))
    house.run()
    assert house.crm.requests == ["find_contact", "create_contact", "add_note"]
    assert house.crm.drafts == [Draft(PHONE, "JANE", "Phone call", ("inbound call",))]
    assert (house.entry().contact_id, house.entry().contact_created) == ("c1", True)


def test_the_next_call_of_a_caller_costs_two(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.crm.requests.clear()
    house.accept(SECOND)
    house.run(SECOND.key)
    assert house.crm.requests == ["add_tags", "add_note"]
    assert house.entry(SECOND.key).contact_id == "c1"
    assert not house.entry(SECOND.key).contact_created


def the_day_after(house: House) -> None:
    """One caller has rung; a day later the same number rings again."""
    house.accept(make_call())
    house.run()
    house.crm.requests.clear()
    house.clock.advance(TRUSTED_S)
    house.accept(SECOND)


def test_after_a_day_the_contact_is_looked_at_again_and_that_costs_no_more(house: House) -> None:
    the_day_after(house)
    house.run(SECOND.key)
    assert house.crm.requests == ["find_contact", "add_note"]
    assert house.entry(SECOND.key).contact_id == "c1"
    third = make_call(root_id="CA3")
    house.crm.requests.clear()
    house.accept(third)
    house.run(third.key)
    assert house.crm.requests == ["add_tags", "add_note"], "the look counts for another day"


def test_a_number_that_staff_gave_to_another_contact_goes_there(house: House) -> None:
    the_day_after(house)
    house.crm.contacts["c1"] = replace(house.crm.contacts["c1"], phone="+15550101277")
    other = house.crm.add(PHONE)
    house.run(SECOND.key)
    assert house.entry(SECOND.key).contact_id == other.id
    assert house.crm.bodies("c1") != house.crm.bodies(other.id) != []
    assert "create_contact" not in house.crm.requests


def test_a_number_that_staff_took_away_is_a_new_contact(house: House) -> None:
    the_day_after(house)
    house.crm.contacts["c1"] = replace(house.crm.contacts["c1"], phone="+15550101277")
    house.run(SECOND.key)
    made = house.entry(SECOND.key)
    assert (made.contact_id == "c1", made.contact_created) == (False, True)
    assert len(house.crm.bodies("c1")) == len(house.crm.bodies(made.contact_id)) == 1


def test_a_look_that_misses_the_contact_makes_no_twin(house: House) -> None:
    the_day_after(house)
    house.crm.index_lags = True  # a create is still refused with the name of the contact
    house.run(SECOND.key)
    assert house.entry(SECOND.key).contact_id == "c1"
    assert list(house.crm.contacts) == ["c1"]


def test_a_look_that_fails_changes_nothing(house: House) -> None:
    the_day_after(house)
    house.crm.refuse("find_contact", Transient("down", cause="crm.5xx"))
    house.run(SECOND.key)
    assert house.entry(SECOND.key).contact_id is None
    house.run_again(SECOND.key)
    assert house.entry(SECOND.key).contact_id == "c1"


def test_two_calls_that_look_again_at_once_agree(house: House) -> None:
    """The second one forgets what it knew only where the first has not learnt better meanwhile."""
    the_day_after(house)
    house.crm.contacts["c1"] = replace(house.crm.contacts["c1"], phone="+15550101277")
    third = make_call(root_id="CA3")
    house.accept(third)

    def other_call() -> None:
        house.crm.watch("find_contact", lambda: None)
        house.run(third.key)

    house.crm.watch("find_contact", other_call)
    house.run(SECOND.key)
    assert house.entry(SECOND.key).contact_id == house.entry(third.key).contact_id != "c1"
    assert len(house.crm.contacts) == 2


def test_where_duplicates_are_allowed_the_word_of_the_claim_stands(lenient: House) -> None:
    the_day_after(lenient)
    lenient.crm.add(PHONE)
    lenient.run(SECOND.key)
    assert lenient.crm.requests == ["add_tags", "add_note"]
    assert lenient.entry(SECOND.key).contact_id == "c1"


def test_a_contact_that_is_there_is_used_and_nothing_of_it_is_overwritten(house: House) -> None:
    known = house.crm.add("+1 (555) 010-1234", tags=("inbound call",))
    house.crm._known = lambda _phone: known  # the CRM normalizes, the fake does not
    house.accept(make_call(caller_name="SOMEBODY ELSE"))
    house.run()
    assert house.crm.requests == ["find_contact", "add_note"]
    assert house.crm.contacts == {known.id: known}


def test_a_similar_number_is_nobody(house: House) -> None:
    similar = house.crm.add("+15550101299")
    house.crm.find_contact = lambda _phone: similar
    house.accept(make_call())
    house.run()
    assert house.entry().contact_id != similar.id


def test_a_number_with_two_spellings_is_looked_up_in_both(house: House) -> None:
    mexico = Caller("+525512345678", CallerKind.PSTN, "+525512345678")
    house.crm.add("+5215512345678")
    house.accept(make_call(caller=mexico))
    house.run()
    assert house.crm.requests[:2] == ["find_contact", "find_contact"]
    assert house.entry().contact_id == "c1"


def test_where_duplicates_are_allowed_a_create_matches_and_carries_the_phone_alone(lenient: House) -> None:
    lenient.accept(make_call())
    lenient.run()
    assert lenient.crm.requests == ["find_contact", "upsert_contact", "add_tags", "add_note"]
    assert lenient.crm.drafts == []


def test_a_refused_duplicate_is_adopted(house: House) -> None:
    house.crm.watch("create_contact", lambda: house.crm.add(PHONE))
    house.accept(make_call())
    house.run()
    assert house.entry().contact_id == "c1"
    assert house.store.trail(house.entry().call_key)[2]["how"] == "adopted"


def test_two_calls_of_one_caller_share_the_contact(house: House) -> None:
    house.accept(make_call())
    house.accept(SECOND)
    house.crm.watch("find_contact", lambda: house.run(SECOND.key))
    house.run()
    assert house.entry(SECOND.key).waiting_for == "claim.busy"
    assert house.entry(SECOND.key).spent == 0
    house.run_again(SECOND.key)
    assert house.crm.requests.count("create_contact") == 1
    assert {house.entry().contact_id, house.entry(SECOND.key).contact_id} == {"c1"}


# ---- Order of the writes


def test_the_create_is_announced_with_a_lease_that_outlives_it(house: House) -> None:
    seen: list[dict[bytes, bytes]] = []
    house.crm.watch("create_contact", lambda: seen.append(house.connection.hgetall(house.claim())))
    house.accept(make_call())
    house.run()
    (claim,) = seen
    assert float(claim[b"intent_at"]) == pytest.approx(NOW + house.settings.request_timeout_s)
    assert float(claim[b"lease_until"]) >= NOW + TIMEOUT_S
    assert claim[b"intents"] == b"1"
    after = house.connection.hgetall(house.claim())
    assert after[b"contact_id"] == b"c1"
    assert b"intent_at" not in after
    assert b"owner" not in after, "the claim is released"


def test_a_failed_search_is_never_a_none(house: House) -> None:
    house.crm.refuse("find_contact", Transient("down", cause="crm.5xx"))
    house.accept(make_call())
    house.run()
    assert house.crm.requests == ["find_contact"]
    house.run_again()
    assert house.entry().state is State.DONE


@pytest.mark.parametrize("error", [Transient("busy", cause="crm.429"), NotYet("budget", cause="crm.budget", retry_in=1)])
def test_a_create_that_changed_nothing_is_sent_again_whole(house: House, error: Transient) -> None:
    house.crm.refuse("create_contact", error)
    house.accept(make_call(caller_name="JANE"))
    house.run()
    assert b"intent_at" not in house.connection.hgetall(house.claim())
    house.run_again()
    assert house.crm.drafts == [Draft(PHONE, "JANE", "Phone call", ("inbound call",))]


def test_a_create_refused_for_good_is_parked_with_nothing_open(house: House) -> None:
    house.crm.refuse("create_contact", Permanent("no access", cause="crm.403"))
    house.accept(make_call())
    with pytest.raises(Permanent):
        house.run()
    assert b"intent_at" not in house.connection.hgetall(house.claim())
    assert b"owner" not in house.connection.hgetall(house.claim())


# ---- A lost answer


@pytest.mark.parametrize("allows_duplicates", [False, True])
def test_a_contact_whose_answer_was_lost_is_found_again(connection: redis.Redis, allows_duplicates: bool) -> None:
    house = House(connection, allows_duplicates=allows_duplicates)
    house.crm.lose("upsert_contact" if allows_duplicates else "create_contact")
    house.accept(make_call())
    house.run()
    assert (house.entry().state, house.entry().waiting_for) == (State.ACCEPTED, "crm.timeout")
    house.run_again()
    assert house.entry().state is State.DONE
    assert len(house.crm.contacts) == 1


@pytest.mark.parametrize("allows_duplicates", [False, True])
def test_nothing_is_created_before_the_index_has_had_its_time(connection: redis.Redis, allows_duplicates: bool) -> None:
    house = House(connection, allows_duplicates=allows_duplicates)
    create = "upsert_contact" if allows_duplicates else "create_contact"
    house.crm.refuse(create, Uncertain("lost", cause="crm.timeout"))
    house.accept(make_call())
    house.run()
    lost_at = house.clock.at
    house.run_again()
    looks = [house.clock.at - lost_at]
    while house.entry().state is not State.DONE and len(looks) < 9:
        assert (house.entry().waiting_for, house.crm.requests.count(create)) == ("settle.create", 1)
        house.run_again()
        looks.append(house.clock.at - lost_at)
    assert looks == pytest.approx([1, 2, 7, 22, LAST_LOOK_S])
    assert house.entry().spent == 0, "looking costs nothing of the budget, and success ends the count"
    assert house.crm.requests.count(create) == 2
    assert len(house.crm.contacts) == 1


def test_a_create_after_a_lost_one_carries_the_number_alone(house: House) -> None:
    house.crm.refuse("create_contact", Uncertain("422", cause="crm.422"))
    house.accept(make_call(caller_name="<odd>"))
    house.run()
    house.run_again()
    settle(house)
    assert house.crm.drafts == [Draft(PHONE)]
    assert house.crm.requests[-2:] == ["add_tags", "add_note"], "tags come by their own call"


def test_a_second_opinion_is_asked_only_after_a_lost_answer(house: House) -> None:
    house.crm.lose("create_contact")
    house.crm.index_lags = True
    house.accept(make_call())
    house.run()
    assert "search_contacts" not in house.crm.requests
    house.run_again()
    assert house.crm.requests[-2:] == ["find_contact", "search_contacts"]
    house.crm.index_lags = False
    house.run_again()
    assert house.entry().contact_id == "c1"


def test_the_second_opinion_alone_suffices(house: House) -> None:
    house.crm.lose("create_contact")
    house.accept(make_call())
    house.run()
    contact = house.crm.contacts["c1"]
    house.crm.index_lags = True
    house.crm.search_contacts = lambda _phone: (Contact("other", "+15550105678"), contact)
    house.run_again()
    assert house.entry().contact_id == "c1"


def test_a_worker_that_died_in_the_create_leaves_an_open_question_and_no_twin(lenient: House) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    lenient.crm.add(PHONE)  # it took effect
    lenient.crm.index_lags = True
    lenient.crm.watch("upsert_contact", die)
    lenient.accept(make_call())
    with pytest.raises(KeyboardInterrupt):
        lenient.run()
    assert b"intent_at" in lenient.connection.hgetall(lenient.claim())
    lenient.crm.watch("upsert_contact", lambda: None)
    lenient.change(moves.put_back)
    lenient.run_again()
    assert (lenient.entry().waiting_for, lenient.crm.requests.count("upsert_contact")) == ("settle.create", 1)
    lenient.crm.index_lags = False
    lenient.run_again()
    assert (lenient.entry().state, len(lenient.crm.contacts)) == (State.DONE, 1)


def test_another_call_of_the_caller_settles_the_same_question(lenient: House) -> None:
    lenient.crm.refuse("upsert_contact", Uncertain("lost", cause="crm.timeout"))
    lenient.accept(make_call())
    lenient.run()
    lenient.accept(SECOND)
    lenient.run(SECOND.key)
    assert lenient.entry(SECOND.key).waiting_for == "settle.create"
    assert lenient.crm.requests.count("upsert_contact") == 1


# ---- A person decides


def ask(connection: redis.Redis) -> House:
    house = House(connection, allows_duplicates=True, UNCERTAIN_CREATE="ask", SETTLE_SCHEDULE_S="2")
    house.crm.refuse("upsert_contact", Uncertain("lost", cause="crm.timeout"))
    house.accept(make_call())
    house.run()
    house.run_again()
    house.requeue()
    with pytest.raises(Ask):
        house.run()
    return house


def test_where_the_settings_say_so_a_person_is_asked(connection: redis.Redis) -> None:
    house = ask(connection)
    trouble = house.entry().trouble
    assert trouble is not None
    assert (trouble.cause, trouble.word) == (Cause.UNCERTAIN, "settle.ask")
    assert "replay" in trouble.hint
    assert house.crm.requests.count("upsert_contact") == 1


def test_a_replay_is_the_answer_of_the_person(connection: redis.Redis) -> None:
    house = ask(connection)
    house.clock.advance(3600)
    house.change(moves.replay)
    house.run()
    assert (house.entry().state, house.crm.requests.count("upsert_contact")) == (State.DONE, 2)


def test_an_answer_holds_for_the_creates_before_it_alone(connection: redis.Redis) -> None:
    house = ask(connection)
    house.clock.advance(3600)
    house.change(moves.replay)
    house.crm.refuse("upsert_contact", Uncertain("lost again", cause="crm.timeout"))
    house.run()
    house.run_again()
    house.requeue()
    with pytest.raises(Ask):
        house.run()
    assert house.crm.requests.count("upsert_contact") == 2


def test_a_location_that_refuses_duplicates_needs_no_person(connection: redis.Redis) -> None:
    house = House(connection, UNCERTAIN_CREATE="ask", SETTLE_SCHEDULE_S="2")
    house.crm.refuse("create_contact", Uncertain("lost", cause="crm.timeout"))
    house.accept(make_call())
    house.run()
    house.run_again()
    house.run_again()
    assert house.entry().state is State.DONE


# ---- A ledger that is younger than the call


def test_a_young_ledger_looks_on_the_schedule_before_it_creates_where_duplicates_are_allowed(lenient: House) -> None:
    lenient.connection.set(keys.BORN, repr(NOW - 1))
    lenient.accept(make_call())
    lenient.run()
    assert (lenient.entry().waiting_for, lenient.crm.requests) == ("settle.create", ["find_contact"])
    settle(lenient, 4)
    assert lenient.entry().state is State.DONE


def test_a_young_ledger_trusts_a_location_that_refuses_duplicates(house: House) -> None:
    house.connection.set(keys.BORN, repr(NOW - 1))
    house.accept(make_call())
    house.run()
    assert house.entry().contact_id == "c1"


# ---- Callers without a number


def test_a_withheld_caller_makes_no_lead_and_no_request(house: House) -> None:
    house.accept(make_call(caller=ANONYMOUS))
    house.run()
    entry = house.entry()
    assert (entry.state, entry.reason, house.crm.requests) == (State.DONE, "the caller withheld the number", [])


def test_withheld_callers_are_never_merged(connection: redis.Redis) -> None:
    house = House(connection, ANONYMOUS="lead")
    for call in (make_call(caller=ANONYMOUS), make_call(root_id="CA2", caller=ANONYMOUS)):
        house.accept(call)
        house.run(call.key)
    assert len(house.crm.contacts) == 2
    assert house.crm.drafts[0] == Draft(None, "Unknown caller", "Phone call", ("inbound call",))
    assert "find_contact" not in house.crm.requests


def test_a_lost_create_without_a_number_is_a_question_until_it_is_answered(connection: redis.Redis) -> None:
    house = House(connection, ANONYMOUS="lead")
    house.crm.refuse("create_contact", Uncertain("lost", cause="crm.timeout"))
    house.accept(make_call(caller=ANONYMOUS))
    house.run()
    house.requeue()
    with pytest.raises(Ask):
        house.run()
    house.clock.advance(60)
    house.change(moves.replay)
    house.run()
    assert (house.entry().state, len(house.crm.contacts)) == (State.DONE, 1)


def test_notes_of_withheld_callers_are_collected_where_the_settings_say(connection: redis.Redis) -> None:
    house = House(connection, ANONYMOUS="note_only", ANONYMOUS_CONTACT_ID="c1")
    collecting = house.crm.add(None)
    house.accept(make_call(caller=ANONYMOUS))
    house.run()
    assert house.crm.requests == ["add_note"]
    assert len(house.crm.bodies(collecting.id)) == 1


def test_a_call_of_which_only_parts_were_heard_is_a_question(house: House) -> None:
    house.accept(make_call(caller=None, dialled=None))
    house.requeue()
    with pytest.raises(Permanent):
        house.run()
    trouble = house.entry().trouble
    assert trouble is not None
    assert (trouble.cause, trouble.word) == (Cause.STALE, "call.stale")
    assert "webhook" in trouble.hint


# ---- A contact that is gone


def test_a_merged_contact_is_looked_up_anew(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.crm.delete("c1")
    merged = house.crm.add(PHONE)
    house.accept(SECOND)
    house.run(SECOND.key)
    entry = house.entry(SECOND.key)
    assert (entry.state, entry.contact_id, entry.lost_contact_id) == (State.DONE, merged.id, "c1")
    assert house.connection.hget(house.claim(), "contact_id") == merged.id.encode()
