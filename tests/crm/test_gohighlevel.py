import time

import pytest

from bridge.crm.base import Contact, Draft, Location, Note
from bridge.crm.causes import Cause
from bridge.crm.gohighlevel import GoHighLevel
from bridge.crm.location_cache import LocationCache
from bridge.crm.pacing import Pacing
from bridge.errors import Gone, NotYet, Permanent, Transient, Uncertain
from tests.crm.conftest import TIMEOUTS
from tests.crm.scripted import Reply

PHONE = "+12025550143"


def answering(server, status=200, data=None, **kwargs):
    server.answer = lambda _: Reply(status, data, **kwargs)


def sent(server):
    """Method, path, query and body of the only request."""
    (request,) = server.received
    return request.method, request.path, request.query, request.json if request.body else None


def test_find_asks_the_duplicate_check_by_number(crm, server):
    answering(server, data={"contact": {"id": "c1", "phone": PHONE, "tags": ["a"]}, "traceId": "t1"})
    assert crm.find_contact(PHONE) == Contact("c1", PHONE, (), ("a",), "t1")
    assert sent(server) == ("GET", "/contacts/search/duplicate", {"locationId": "loc1", "number": PHONE}, None)


def test_only_an_explicit_null_means_that_nobody_is_there(crm, server):
    answering(server, data={"contact": None, "traceId": "t1"})
    assert crm.find_contact(PHONE) is None


@pytest.mark.parametrize("data", [{}, {"contacts": []}, {"contact": {}}, {"contact": []}, {"contact": "none"}, {"contact": {"id": ""}}])
def test_a_2xx_of_another_shape_is_no_proof_of_absence(crm, server, data):
    answering(server, data=data)
    with pytest.raises(Transient) as caught:
        crm.find_contact(PHONE)
    assert caught.value.cause == Cause.UNREADABLE


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 302])
def test_failed_search_is_never_an_absence(crm, server, status):
    answering(server, status, {"message": "no", "contact": None})
    with pytest.raises((Transient, Permanent)):
        crm.find_contact(PHONE)


def test_search_sends_location_and_page_limit(crm, server):
    answering(
        server, data={"contacts": [{"id": "c1", "additionalPhones": [PHONE, {"phone": "+12025550144"}, 7]}, {"id": "c2"}], "total": 2}
    )
    assert crm.search_contacts(PHONE) == (Contact("c1", None, (PHONE, "+12025550144")), Contact("c2"))
    phone_is = {"field": "phone", "operator": "eq", "value": PHONE}
    assert sent(server) == ("POST", "/contacts/search", {}, {"locationId": "loc1", "pageLimit": 100, "page": 1, "filters": [phone_is]})


def test_search_without_a_list_is_unreadable(crm, server):
    answering(server, data={"total": 0})
    with pytest.raises(Transient):
        crm.search_contacts(PHONE)


def test_create_sends_what_the_call_tells_and_nothing_else(crm, server):
    answering(server, 201, {"contact": {"id": "c1", "phone": PHONE}})
    crm.create_contact(Draft(PHONE))
    assert sent(server) == ("POST", "/contacts/", {}, {"locationId": "loc1", "phone": PHONE})


def test_create_sends_name_source_and_tags_where_given(crm, server):
    answering(server, 201, {"contact": {"id": "c1"}})
    assert crm.create_contact(Draft(None, name="Ann", source="Phone call", tags=("a", "b"))).id == "c1"
    assert sent(server)[3] == {"locationId": "loc1", "name": "Ann", "source": "Phone call", "tags": ["a", "b"]}


def test_contact_is_called_created_only_where_this_request_surely_made_it(crm, server):
    answering(server, 201, {"contact": {"id": "c1"}})
    assert crm.create_contact(Draft(PHONE)).created
    answering(server, 400, {"message": "This location does not allow duplicated contacts.", "meta": {"contactId": "c9"}})
    assert not crm.create_contact(Draft(PHONE)).created
    for new, created in ((True, True), (False, False), (None, False)):
        answering(server, 200, {"new": new, "contact": {"id": "c1"}})
        assert crm.upsert_contact(PHONE).created is created


def test_refused_duplicate_is_the_contact_that_is_there(crm, server):
    answering(server, 400, {"message": "This location does not allow duplicated contacts.", "meta": {"contactId": "c9"}, "traceId": "t"})
    assert crm.create_contact(Draft(PHONE)) == Contact("c9", trace_id="t")


@pytest.mark.parametrize("shown", [PHONE, "+1 202-555-0143", "(202) 555-0143", None, ""])
def test_create_accepts_the_number_in_any_spelling(crm, server, shown):
    answering(server, 201, {"contact": {"id": "c1", "phone": shown}})
    assert crm.create_contact(Draft(PHONE)).id == "c1"


def test_create_accepts_the_other_spelling_of_a_line(crm, server):
    answering(server, 201, {"contact": {"id": "c1", "phone": "+525512345678"}})
    assert crm.create_contact(Draft("+5215512345678")).id == "c1"


@pytest.mark.parametrize("create", [lambda crm: crm.create_contact(Draft(PHONE)), lambda crm: crm.upsert_contact(PHONE)])
def test_contact_with_another_number_is_not_adopted(crm, server, create):
    answering(server, 200, {"contact": {"id": "c1", "phone": "+12025550199"}})
    with pytest.raises(Uncertain) as caught:
        create(crm)
    assert caught.value.cause == Cause.OTHER_PHONE


def test_upsert_may_match_a_second_number(crm, server):
    answering(server, 200, {"new": False, "contact": {"id": "c1", "phone": "+12025550199", "additionalPhones": [PHONE]}})
    assert crm.upsert_contact(PHONE).id == "c1"
    assert sent(server) == ("POST", "/contacts/upsert", {}, {"locationId": "loc1", "phone": PHONE})


@pytest.mark.parametrize("data", [{}, {"contact": None}, {"contact": {"id": ""}}, {"contact": {"id": 5}}])
def test_create_without_an_id_is_open(crm, server, data):
    answering(server, 201, data)
    with pytest.raises(Uncertain) as caught:
        crm.create_contact(Draft(PHONE))
    assert caught.value.cause == Cause.UNREADABLE


def test_lost_answer_of_a_create_is_open_and_not_sent_again(crm, server):
    answering(server, 201, {"contact": {"id": "c1"}}, how="cut")
    with pytest.raises(Uncertain):
        crm.create_contact(Draft(PHONE))
    assert len(server.received) == 1


def test_tags_are_added_by_their_own_call(crm, server):
    answering(server, 201, {"tags": ["a"]})
    crm.add_tags("c1", ("a",))
    assert sent(server) == ("POST", "/contacts/c1/tags", {}, {"tags": ["a"]})


def test_note_is_only_its_body(crm, server):
    answering(server, 201, {"note": {"id": "n1", "body": "text"}})
    assert crm.add_note("c1", "text") == Note("n1", "text")
    assert sent(server) == ("POST", "/contacts/c1/notes", {}, {"body": "text"})


def test_note_without_an_id_is_open(crm, server):
    answering(server, 201, {"success": True})
    with pytest.raises(Uncertain):
        crm.add_note("c1", "text")


def test_notes_are_listed(crm, server):
    answering(server, data={"notes": [{"id": "n1", "body": "text"}, {"id": "n2", "body": None}]})
    assert crm.list_notes("c1") == (Note("n1", "text"), Note("n2", ""))


@pytest.mark.parametrize("data", [{}, {"notes": None}, {"notes": [{"body": "x"}]}])
def test_unreadable_notes_are_no_empty_list(crm, server, data):
    answering(server, data=data)
    with pytest.raises(Transient):
        crm.list_notes("c1")


def test_one_note_is_read_by_its_id(crm, server):
    answering(server, data={"note": {"id": "n1", "body": "<p>text</p>", "contactId": "c1"}})
    assert crm.get_note("c1", "n/1") == Note("n1", "<p>text</p>")
    assert sent(server) == ("GET", "/contacts/c1/notes/n%2F1", {}, None)


def test_note_that_was_emptied_is_empty(crm, server):
    answering(server, data={"note": {"id": "n1", "body": None}})
    assert crm.get_note("c1", "n1") == Note("n1", "")


@pytest.mark.parametrize("data", [{}, {"note": None}, {"note": []}, {"note": {"body": "x"}}, {"note": {"id": "n1"}}])
def test_unreadable_note_is_no_empty_note(crm, server, data):
    answering(server, data=data)
    with pytest.raises(Transient) as caught:
        crm.get_note("c1", "n1")
    assert caught.value.cause == Cause.UNREADABLE


@pytest.mark.parametrize("how", ["cut", "reset", "truncate"])
def test_lost_answer_of_reading_a_note_leaves_nothing_open(crm, server, how):
    answering(server, data={"note": {"id": "n1", "body": "text"}}, how=how)
    with pytest.raises(Transient):
        crm.get_note("c1", "n1")


@pytest.mark.parametrize(("status", "message"), [(404, "Not Found"), (400, "Note with id n1 not found"), (410, "")])
def test_lost_note_is_gone_when_it_is_read(crm, server, status, message):
    answering(server, status, {"message": message})
    with pytest.raises(Gone):
        crm.get_note("c1", "n1")


def test_note_is_replaced_in_its_place(crm, server):
    answering(server, data={"note": {"id": "n1"}})
    crm.update_note("c1", "n/1", "new")
    assert sent(server) == ("PUT", "/contacts/c1/notes/n%2F1", {}, {"body": "new"})


def test_lost_contact_is_gone_on_every_path_that_names_one(crm, server):
    answering(server, 400, {"message": "Contact with id c1 not found"})
    for ask in (
        crm.add_tags,
        crm.add_note,
        lambda contact, _: crm.list_notes(contact),
        lambda contact, _: crm.get_note(contact, "n"),
        lambda contact, _: crm.update_note(contact, "n", "b"),
    ):
        with pytest.raises(Gone):
            ask("c1", ("a",))


@pytest.mark.parametrize(
    ("settings", "allows"),
    [({"allowDuplicateContact": False}, False), ({"allowDuplicateContact": True}, True), ({}, True), (None, True)],
)
def test_location_tells_whether_it_allows_duplicates_and_silence_counts_as_yes(crm, server, settings, allows):
    answering(server, data={"location": {"id": "loc1", "timezone": "America/New_York", "country": "US", "settings": settings}})
    assert crm.location() == Location("loc1", allows, "America/New_York", "US")
    assert sent(server)[:2] == ("GET", "/locations/loc1")


def test_location_is_asked_for_once_by_all_processes(crm, server, connection, pacing):
    answering(server, data={"location": {"settings": {"allowDuplicateContact": False}}})
    cache = LocationCache(connection)
    other = GoHighLevel(base_url=server.url, token="t", location_id="loc1", timeouts=TIMEOUTS, pacing=pacing, cache=cache)
    assert crm.location() == crm.location() == other.location()
    assert len(server.received) == 1


def test_location_that_is_asked_for_now_is_what_all_know_from_then_on(crm, server):
    answering(server, data={"location": {"settings": {"allowDuplicateContact": False}}})
    assert crm.location().allows_duplicates is False
    answering(server, data={"location": {"settings": {"allowDuplicateContact": True}}})
    assert crm.location().allows_duplicates is False
    assert crm.location(fresh=True) == crm.location()
    assert crm.location().allows_duplicates is True


@pytest.mark.parametrize(
    ("told", "holds"),
    [
        ({"dnd": True}, True),
        ({"dnd": False}, False),
        ({}, None),
        ({"dnd": "yes"}, None),
        ({"dnd": False, "dndSettings": {"Call": {"status": "active"}}}, True),
        ({"dndSettings": {"call": {"status": "permanent"}}}, True),
        ({"dnd": False, "dndSettings": {"Call": {"status": "inactive"}, "SMS": {"status": "active"}}}, False),
        ({"dnd": False, "dndSettings": {"Call": "active"}}, False),
        ({"dnd": False, "dndSettings": []}, False),
    ],
)
def test_do_not_disturb_is_known_for_all_channels_and_for_calls(crm, server, told, holds):
    answering(server, data={"contact": {"id": "c1", "phone": PHONE} | told})
    assert crm.find_contact(PHONE).dnd is holds


def test_unreadable_location_is_not_remembered(crm, server, connection):
    answering(server, data={"location": None})
    with pytest.raises(Transient):
        crm.location()
    assert connection.get("cb:location:loc1") is None


def test_missing_scope_is_named(crm, server):
    answering(server, 401, {"message": "The token is not authorized for this scope."})
    with pytest.raises(Permanent) as caught:
        crm.find_contact(PHONE)
    assert caught.value.cause == "crm.401_scope"
    assert "contacts.readonly" in caught.value.hint


def test_location_that_cannot_be_read_is_treated_as_the_stricter_kind(crm, server):
    """A token without `locations.readonly` still makes leads."""
    answering(server, 401, {"message": "The token is not authorized for this scope."})
    location = crm.location()
    assert location.allows_duplicates
    assert location.is_assumed


def test_location_that_cannot_be_read_costs_a_request_a_minute_and_not_two_a_call(crm, server, pacing, connection):
    answering(server, 401, {"message": "The token is not authorized for this scope."})
    assert crm.location() == crm.location()
    cache = LocationCache(connection)  # of another process
    other = GoHighLevel(base_url=server.url, token="t", location_id="loc1", timeouts=TIMEOUTS, pacing=pacing, cache=cache)
    assert other.location().is_assumed
    assert len(server.received) == 1
    assert 0 < connection.ttl("cb:location:loc1") <= 60


def test_lease_is_checked_before_every_request_with_its_whole_timeout(crm, server):
    answering(server, data={"contact": None})
    asked = []
    crm.before_request = asked.append
    crm.find_contact(PHONE)
    assert asked == [TIMEOUTS.total_s]


def test_nothing_is_sent_where_the_lease_is_too_short(crm, server):
    def refuse(_):
        raise NotYet("the lease is too short", cause="claim.busy", retry_in=1)

    crm.before_request = refuse
    with pytest.raises(NotYet):
        crm.create_contact(Draft(PHONE))
    assert server.received == []


def test_lease_is_checked_after_the_wait_for_the_budget(server, connection):
    pacing = Pacing(connection, burst=1, window_s=0.3)
    cache = LocationCache(connection)
    crm = GoHighLevel(base_url=server.url, token="t", location_id="loc1", timeouts=TIMEOUTS, pacing=pacing, cache=cache)
    answering(server, data={"contact": None})
    checked = []
    crm.before_request = lambda _: checked.append(time.monotonic())
    crm.find_contact(PHONE)
    crm.find_contact(PHONE)
    assert checked[1] - checked[0] >= 0.25


def test_429_stops_the_next_request_before_it_is_sent(crm, server):
    answering(server, 429, {}, headers={"Retry-After": "60"})
    with pytest.raises(Transient) as caught:
        crm.create_contact(Draft(PHONE))
    assert caught.value.retry_in == 60
    with pytest.raises(NotYet) as caught:
        crm.find_contact(PHONE)
    assert caught.value.cause == Cause.BUDGET
    assert len(server.received) == 1


def test_every_answer_teaches_the_budget(crm, server, pacing):
    answering(server, data={"contact": None}, headers={"X-RateLimit-Remaining": "3", "X-RateLimit-Daily-Remaining": "17"})
    crm.find_contact(PHONE)
    assert (pacing.remaining("loc1").burst, pacing.remaining("loc1").daily) == (3, 17)


def test_success_survives_a_redis_that_dies_during_the_request(server, redis_server, connection, crm):
    def answer(_):
        connection.config_set("maxmemory", "1")  # from now on Redis refuses to write
        return Reply(201, {"contact": {"id": "c1"}}, headers={"X-RateLimit-Remaining": "3"})

    server.answer = answer
    try:
        assert crm.create_contact(Draft(PHONE)).id == "c1"
    finally:
        connection.config_set("maxmemory", "0")


def test_error_carries_neither_number_nor_token_nor_a_cause_that_would(crm, server):
    answering(server, 500, {"message": f"could not store {PHONE}"})
    with pytest.raises(Transient) as caught:
        crm.find_contact(PHONE)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not any(secret in f"{caught.value} {caught.value.hint}" for secret in ("2025550143", "pit-test"))


def test_field_that_an_endpoint_does_not_take_is_a_bug_that_is_not_sent(crm, server):
    from bridge.crm import gohighlevel

    with pytest.raises(ValueError, match="locationId"):
        crm._call(gohighlevel._ADD_NOTE, contact_id="c1", body={"body": "x", "locationId": "loc1"})
    assert server.received == []
