"""The contact endpoints: create, upsert, change, delete, tags."""

from __future__ import annotations

import pytest

from tests.sandbox.ghl.conftest import OTHER_PHONE, PHONE


def test_create_answers_201_with_the_contact_and_a_trace_id(api):
    answer = api.create(fields={"name": "Ann Lee", "source": "Phone call", "tags": ["Inbound Call"]})
    contact = answer.json()["contact"]
    assert answer.status_code == 201
    assert answer.json()["traceId"]
    assert (contact["phone"], contact["source"], contact["locationId"]) == (PHONE, "Phone call", api.location)


def test_phone_is_stored_in_e164_whatever_its_spelling(api):
    assert api.create("+1 (202) 555-0143").json()["contact"]["phone"] == PHONE


def test_national_phone_is_read_with_the_country_of_the_location(api, ghl):
    ghl.configure(country="DE")
    assert api.create("030 123456").json()["contact"]["phone"] == "+4930123456"


@pytest.mark.parametrize(
    ("phone", "message"), [("+999123", "Invalid country calling code"), ("anonymous", "did not seem to be a phone number")]
)
def test_phone_that_cannot_be_parsed_is_refused_and_nothing_stored(api, ghl, phone, message):
    answer = api.create(phone)
    assert (answer.status_code, ghl.truth.contacts()) == (400, [])
    assert message in answer.json()["message"]


def test_status_for_a_bad_phone_can_be_changed(api, ghl):
    ghl.configure(bad_phone_status=422)
    answer = api.create("anonymous")
    assert answer.status_code == 422
    assert isinstance(answer.json()["message"], list)


def test_tags_are_stored_in_lower_case_and_once(api):
    assert api.create(fields={"tags": ["VIP", "vip", "New"]}).json()["contact"]["tags"] == ["vip", "new"]


def test_second_create_is_refused_and_names_the_first(api):
    contact_id = api.created(name="Ann Lee")
    answer = api.create()
    body = answer.json()
    assert answer.status_code == body["statusCode"] == 400
    assert body["message"] == "This location does not allow duplicated contacts."
    assert body["meta"] == {"contactId": contact_id, "contactName": "Ann Lee", "matchingField": "phone"}


def test_duplicate_by_email_names_the_email_as_the_matching_field(api):
    api.created(email="Ann@example.com")
    assert api.create(OTHER_PHONE, fields={"email": "ann@example.com"}).json()["meta"]["matchingField"] == "email"


def test_location_that_allows_duplicates_creates_every_time(api, ghl):
    ghl.configure(allow_duplicate_contact=True)
    first, second = api.created(), api.created()
    assert ghl.truth.duplicates() == {PHONE: (first, second)}


def test_contact_without_a_phone_is_never_a_duplicate(api, ghl):
    for _ in range(2):
        assert api.ask("POST", "/contacts/", {"locationId": api.location, "name": "Withheld"}).status_code == 201
    assert len(ghl.truth.contacts()) == 2


@pytest.mark.parametrize("path", ["/contacts/", "/contacts/upsert"])
def test_unknown_property_is_refused_with_422(api, ghl, path):
    answer = api.ask("POST", path, {"locationId": api.location, "phone": PHONE, "callSid": "CA1", "tag": "x"})
    assert answer.status_code == 422
    assert answer.json()["message"] == ["property callSid should not exist", "property tag should not exist"]
    assert answer.json()["error"] == "Unprocessable Entity"
    assert answer.json()["traceId"]
    assert ghl.truth.contacts() == []


def test_blank_location_is_refused_with_422(api):
    assert api.ask("POST", "/contacts/", {"locationId": "", "phone": PHONE}).json()["message"] == ["locationId should not be empty"]


@pytest.mark.parametrize(("field", "value"), [("tags", "vip"), ("name", 7), ("dnd", "no"), ("country", "Utopia"), ("customFields", {})])
def test_field_of_a_wrong_type_is_refused_with_422(api, field, value):
    answer = api.create(fields={field: value})
    assert answer.status_code == 422
    assert field in answer.json()["message"][0]


def test_upsert_says_whether_it_created(api):
    first, second = api.upsert(), api.upsert()
    assert (first.status_code, first.json()["new"], second.status_code, second.json()["new"]) == (200, True, 200, False)
    assert first.json()["contact"]["id"] == second.json()["contact"]["id"]


def test_upsert_overwrites_what_is_sent_and_replaces_all_tags(api):
    api.created(name="Ann Lee", source="Website", city="Reno", tags=["vip"])
    contact = api.upsert(name="Unknown caller", source="Phone call", tags=["call"]).json()["contact"]
    assert (contact["name"], contact["source"], contact["city"], contact["tags"]) == ("Unknown caller", "Phone call", "Reno", ["call"])


def test_upsert_of_a_phone_alone_leaves_the_rest_alone(api):
    api.created(name="Ann Lee", source="Website", tags=["vip"])
    contact = api.upsert().json()["contact"]
    assert (contact["name"], contact["source"], contact["tags"]) == ("Ann Lee", "Website", ["vip"])


def test_upsert_still_matches_where_duplicates_are_allowed(api, ghl):
    ghl.configure(allow_duplicate_contact=True)
    api.upsert()
    assert api.upsert().json()["new"] is False
    assert api.upsert(createNewIfDuplicateAllowed=True).json()["new"] is True


def test_flag_for_a_new_contact_is_ignored_where_duplicates_are_refused(api):
    api.upsert()
    assert api.upsert(createNewIfDuplicateAllowed=True).json()["new"] is False


def test_upsert_needs_a_phone_or_an_email(api):
    assert api.ask("POST", "/contacts/upsert", {"locationId": api.location, "name": "Ann"}).status_code == 400


def test_upsert_of_two_known_identifiers_follows_the_configured_order(api):
    by_email = api.created(OTHER_PHONE, email="ann@example.com")
    api.created(PHONE)
    contact = api.upsert(PHONE, email="ann@example.com").json()["contact"]
    assert (contact["id"], contact["phone"]) == (by_email, OTHER_PHONE)


def test_gender_is_accepted_and_thrown_away(api):
    answer = api.upsert(gender="female")
    assert answer.status_code == 200
    assert "gender" not in answer.json()["contact"]


def test_custom_fields_are_read_with_id_and_value_only(api):
    contact = api.create(fields={"customFields": [{"id": "cf1", "key": "called_from", "field_value": "Reno"}]}).json()["contact"]
    assert contact["customFields"] == [{"id": "cf1", "value": "Reno"}]


def test_put_changes_what_is_sent_and_spells_success_as_documented(api):
    contact_id = api.created(name="Ann Lee")
    answer = api.ask("PUT", f"/contacts/{contact_id}", {"city": "Reno"})
    assert answer.json()["succeded"] is True
    assert (answer.json()["contact"]["city"], answer.json()["contact"]["name"]) == ("Reno", "Ann Lee")


@pytest.mark.parametrize("field", ["locationId", "gender", "companyName"])
def test_put_refuses_the_fields_that_only_create_knows(api, field):
    answer = api.ask("PUT", f"/contacts/{api.created()}", {field: "x"})
    assert (answer.status_code, answer.json()["message"]) == (422, [f"property {field} should not exist"])


def test_put_of_a_phone_that_somebody_else_has_is_refused_as_duplicate(api):
    owner, contact_id = api.created(PHONE), api.created(OTHER_PHONE)
    answer = api.ask("PUT", f"/contacts/{contact_id}", {"phone": PHONE})
    assert (answer.status_code, answer.json()["meta"]["contactId"]) == (400, owner)


def test_old_phone_is_found_no_more_after_a_put(api):
    contact_id = api.created(PHONE)
    api.ask("PUT", f"/contacts/{contact_id}", {"phone": OTHER_PHONE})
    assert api.find(PHONE) is None
    assert api.find(OTHER_PHONE)["id"] == contact_id


def test_deleted_contact_is_gone_for_every_endpoint_and_kept_in_the_truth(api, ghl):
    contact_id = api.created()
    assert api.ask("DELETE", f"/contacts/{contact_id}").json()["succeded"] is True
    assert api.ask("GET", f"/contacts/{contact_id}").status_code == 400
    assert api.find() is None
    assert [contact.alive for contact in ghl.truth.contacts(PHONE)] == [False]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"city": "Reno"}),
        ("DELETE", "", None),
        ("POST", "/tags", {"tags": ["x"]}),
        ("GET", "/notes", None),
        ("POST", "/notes", {"body": "x"}),
    ],
)
def test_unknown_contact_answers_400_and_not_404(api, method, path, body):
    answer = api.ask(method, f"/contacts/nobody{path}", body)
    assert (answer.status_code, answer.json()["message"]) == (400, "Contact with id nobody not found")


def test_adding_tags_keeps_those_that_are_there(api):
    contact_id = api.created(tags=["vip"])
    answer = api.ask("POST", f"/contacts/{contact_id}/tags", {"tags": ["Call", "vip"]})
    assert (answer.status_code, answer.json()["tags"]) == (201, ["vip", "call"])


def test_removing_tags_leaves_the_others(api):
    contact_id = api.created(tags=["vip", "call"])
    answer = api.ask("DELETE", f"/contacts/{contact_id}/tags", {"tags": ["VIP"]})
    assert (answer.status_code, answer.json()["tags"]) == (200, ["call"])


@pytest.mark.parametrize("body", [{}, {"tags": []}, {"tags": "vip"}, {"tags": ["vip"], "locationId": "x"}])
def test_tags_refuse_a_body_that_is_not_theirs(api, body):
    assert api.ask("POST", f"/contacts/{api.created()}/tags", body).status_code == 422
