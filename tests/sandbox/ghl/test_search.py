"""The two searches, and what they do not show."""

from __future__ import annotations

import threading

import pytest

from tests.sandbox.ghl.conftest import OTHER_PHONE, PHONE, eventually


def test_search_for_a_duplicate_finds_the_phone_or_says_null(api):
    assert api.find() is None
    contact_id = api.created()
    assert api.find()["id"] == contact_id


def test_unencoded_plus_arrives_as_a_space_and_finds_nothing(api):
    api.created()
    answer = api.ask("GET", f"/contacts/search/duplicate?locationId={api.location}&number={PHONE}")
    assert (answer.status_code, answer.json()["contact"]) == (200, None)


@pytest.mark.parametrize("query", ["", "&phone=%2B12025550143"])
def test_search_for_a_duplicate_of_nothing_is_refused(api, query):
    answer = api.ask("GET", f"/contacts/search/duplicate?locationId={api.location}{query}")
    assert (answer.status_code, answer.json()["message"]) == (400, "Pass at least one of number, email query parameter")


def test_search_for_a_duplicate_without_a_location_is_refused(api):
    assert api.ask("GET", "/contacts/search/duplicate?number=%2B12025550143").status_code == 400


def test_email_comes_first_where_duplicates_are_allowed(api, ghl):
    by_phone, by_email = api.created(PHONE), api.created(OTHER_PHONE, email="ann@example.com")
    query = {"locationId": api.location, "number": PHONE, "email": "ann@example.com"}
    ghl.configure(match_order=["phone"])
    assert api.ask("GET", "/contacts/search/duplicate", params=query).json()["contact"]["id"] == by_phone
    ghl.configure(allow_duplicate_contact=True)
    assert api.ask("GET", "/contacts/search/duplicate", params=query).json()["contact"]["id"] == by_email


@pytest.mark.parametrize("missing", ["locationId", "pageLimit"])
def test_search_without_location_or_limit_is_refused_with_422(api, missing):
    body = {"locationId": api.location, "pageLimit": 10}
    del body[missing]
    assert api.ask("POST", "/contacts/search", body).status_code == 422


def test_search_finds_by_phone_and_shows_additional_phones_as_text(api, ghl):
    contact = ghl.add_contact(phone=PHONE, additional_phones=(OTHER_PHONE,))
    ghl.add_contact(phone=OTHER_PHONE)
    hits = api.search()
    assert [(hit["id"], hit["additionalPhones"]) for hit in hits] == [(contact.id, [OTHER_PHONE])]
    assert hits[0]["searchAfter"][1] == contact.id


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([{"field": "firstName", "operator": "eq", "value": "ann"}], {"Ann"}),
        ([{"field": "firstName", "operator": "not_eq", "value": "ann"}], {"Ben"}),
        ([{"field": "firstName", "operator": "contains", "value": "en"}], {"Ben"}),
        ([{"field": "email", "operator": "exists"}], {"Ann"}),
        ([{"field": "tags", "operator": "eq", "value": "vip"}], {"Ben"}),
        ([{"group": "OR", "filters": [{"field": "firstName", "operator": "eq", "value": one} for one in ("ann", "ben")]}], {"Ann", "Ben"}),
        ([{"field": "firstName", "operator": "eq", "value": "ann"}, {"field": "email", "operator": "not_exists"}], set()),
    ],
)
def test_filters_find_what_they_name(api, ghl, filters, found):
    ghl.add_contact(phone=PHONE, firstName="Ann", email="ann@example.com")
    ghl.add_contact(phone=OTHER_PHONE, firstName="Ben", tags=("vip",))
    answer = api.ask("POST", "/contacts/search", {"locationId": api.location, "pageLimit": 20, "filters": filters}).json()
    assert {hit["firstName"] for hit in answer["contacts"]} == found
    assert answer["total"] == len(found)


@pytest.mark.parametrize(
    "one",
    [
        {"field": "additional_phones", "operator": "eq", "value": PHONE},
        {"field": "phone", "operator": "like", "value": PHONE},
        {"field": "phone", "operator": "contains", "value": "+1202"},
    ],
)
def test_filter_that_the_service_does_not_know_is_refused_with_400(api, one):
    assert api.ask("POST", "/contacts/search", {"locationId": api.location, "pageLimit": 20, "filters": [one]}).status_code == 400


@pytest.mark.parametrize("query", ["2025550143", "+1 202 555 0143", "ann l", "ANN@"])
def test_query_is_held_against_name_email_and_phone(api, ghl, query):
    ghl.add_contact(phone=PHONE, firstName="Ann", lastName="Lee", email="ann@example.com")
    ghl.add_contact(phone=OTHER_PHONE, firstName="Ben")
    answer = api.ask("POST", "/contacts/search", {"locationId": api.location, "pageLimit": 20, "query": query})
    assert [hit["firstName"] for hit in answer.json()["contacts"]] == ["Ann"]


def test_pages_by_number_and_by_search_after_show_everything_once(api, ghl):
    ids = {ghl.add_contact(firstName=f"c{number}").id for number in range(5)}
    body = {"locationId": api.location, "pageLimit": 2}
    by_page = [hit["id"] for page in (1, 2, 3) for hit in api.ask("POST", "/contacts/search", {**body, "page": page}).json()["contacts"]]
    by_cursor, after = [], None
    while hits := api.ask("POST", "/contacts/search", body | ({"searchAfter": after} if after else {})).json()["contacts"]:
        by_cursor += [hit["id"] for hit in hits]
        after = hits[-1]["searchAfter"]
    assert by_page == by_cursor
    assert set(by_page) == ids
    assert len(by_page) == 5


def test_page_beyond_ten_thousand_records_is_refused(api):
    assert api.ask("POST", "/contacts/search", {"locationId": api.location, "pageLimit": 500, "page": 21}).status_code == 400
    assert api.ask("POST", "/contacts/search", {"locationId": api.location, "pageLimit": 501}).status_code == 422


def test_each_search_shows_a_new_contact_after_its_own_lag(api, ghl):
    ghl.configure(search_lag_s=600, duplicate_lag_s=0.5)
    contact_id = api.created()
    assert api.find() is None
    assert api.ask("GET", f"/contacts/{contact_id}").status_code == 200
    eventually(lambda: api.find() is not None)
    assert api.search() == []
    ghl.configure(search_lag_s=0)
    assert [hit["id"] for hit in api.search()] == [contact_id]


def test_lagging_index_still_shows_what_was_deleted(api, ghl):
    contact_id = api.created()
    ghl.configure(search_lag_s=0.6)
    eventually(api.search)
    api.ask("DELETE", f"/contacts/{contact_id}")
    assert [hit["id"] for hit in api.search()] == [contact_id]
    eventually(lambda: api.search() == [])


def test_sharp_own_check_sees_what_the_index_does_not_show_yet(api, ghl):
    ghl.configure(duplicate_lag_s=600, own_check="sharp")
    contact_id = api.created()
    assert api.find() is None
    assert api.create().json()["meta"]["contactId"] == contact_id
    assert api.upsert().json()["new"] is False


def test_lagging_own_check_makes_twins(api, ghl):
    ghl.configure(duplicate_lag_s=600, own_check="lagging")
    first, second = api.created(), api.created()
    third = api.upsert().json()["contact"]["id"]
    assert ghl.truth.duplicates() == {PHONE: (first, second, third)}


@pytest.mark.parametrize(("window_s", "contacts"), [(0, 1), (0.5, 2)])
def test_two_creates_at_the_same_instant_both_succeed_only_with_a_window(api, ghl, window_s, contacts):
    ghl.configure(create_window_s=window_s)
    threads = [threading.Thread(target=api.create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ghl.truth.contacts_per_phone() == {PHONE: contacts}


def test_additional_phone_matches_only_where_it_is_said_to(api, ghl):
    contact = ghl.add_contact(phone=OTHER_PHONE, additional_phones=(PHONE,))
    assert api.find() is None
    ghl.configure(match_additional_phones=True)
    assert api.find()["id"] == contact.id
    assert api.create().json()["meta"]["contactId"] == contact.id
