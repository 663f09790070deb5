"""Tags are added, and only where they are not seen to be there already."""

from __future__ import annotations

import pytest
import redis

from bridge.crm.base import Contact
from bridge.errors import Transient
from bridge.ledger.entry import State
from handlers.tag_lead import are_there
from tests.support.builders import PHONE, make_call
from tests.support.house import House


@pytest.mark.parametrize(
    ("shown", "tags", "wanted"),
    [
        (None, ("inbound call",), False),
        ((), ("inbound call",), False),
        (("Inbound CALL", "vip"), ("inbound call",), True),
        (("vip",), ("inbound call", "vip"), False),
        (("vip",), (), False),
    ],
)
def test_tags_are_there_when_all_of_them_were_shown(shown: tuple[str, ...] | None, tags: tuple[str, ...], wanted: bool) -> None:
    assert are_there(Contact("c1", tags=shown), tags) is wanted


def test_tags_of_staff_stay(connection: redis.Redis) -> None:
    house = House(connection)
    contact = house.crm.add(PHONE, tags=("vip",))
    house.accept(make_call())
    house.run()
    assert house.crm.contacts[contact.id].tags == ("vip", "inbound call")


def test_a_contact_that_has_the_tags_costs_no_request(connection: redis.Redis) -> None:
    house = House(connection)
    house.crm.add(PHONE, tags=("vip", "Inbound Call"))
    house.accept(make_call())
    house.run()
    assert house.crm.requests == ["find_contact", "add_note"]
    assert "tag_lead" in house.entry().steps


def test_a_lost_answer_is_simply_sent_again(connection: redis.Redis) -> None:
    house = House(connection)
    house.crm.add(PHONE)
    house.crm.lose("add_tags", Transient("lost", cause="crm.timeout"))
    house.accept(make_call())
    house.run()
    house.run_again()
    assert house.crm.requests == ["find_contact", "add_tags", "add_tags", "add_note"]
    assert house.entry().state is State.DONE
