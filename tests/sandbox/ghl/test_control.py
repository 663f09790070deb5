"""The control endpoints and the truth, over HTTP as another process would use them."""

from __future__ import annotations

import pytest
import requests

from tests.sandbox.ghl.conftest import OTHER_PHONE, PHONE


def test_settings_are_read_and_changed_while_it_runs(api):
    changed = api.control("PATCH", "/_control/settings", {"allow_duplicate_contact": True, "search_lag_s": 1.5}).json()
    assert (changed["allow_duplicate_contact"], changed["search_lag_s"]) == (True, 1.5)
    assert api.control("GET", "/_control/settings").json() == changed
    assert api.ask("GET", f"/locations/{api.location}").json()["location"]["settings"]["allowDuplicateContact"] is True


@pytest.mark.parametrize(
    ("method", "path", "body", "hint"),
    [
        ("PATCH", "/_control/settings", {"search_lag": 1}, "search_lag"),
        ("PATCH", "/_control/settings", {"own_check": "blurred"}, "'sharp' or 'lagging'"),
        ("POST", "/_control/faults", {"kind": "gremlin"}, "answer_lost"),
        ("POST", "/_control/faults", {"kind": "answer_lost", "rate": 2}, "less than or equal to 1"),
        ("POST", "/_control/faults", {}, "kind"),
        ("POST", "/_control/reset", {"nothing": 1}, "nothing"),
        ("POST", "/_control/reset", [], "JSON object"),
    ],
)
def test_mistake_is_answered_with_what_is_allowed(api, method, path, body, hint):
    answer = api.control(method, path, body)
    assert answer.status_code == 400
    assert hint in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_control/nothing"),
        ("DELETE", "/_control/contacts/nobody"),
        ("POST", "/_control/contacts/nobody/merge"),
        ("DELETE", "/_control/faults/99"),
    ],
)
def test_unknown_control_path_or_id_answers_404(api, method, path):
    assert api.control(method, path).status_code == 404


def test_faults_are_added_listed_with_their_hits_and_removed(api):
    number = api.control("POST", "/_control/faults", {"kind": "error_before", "path": "/contacts/*", "times": 1}).json()["number"]
    api.create()
    listed = api.control("GET", "/_control/faults").json()["faults"]
    assert listed == [{"number": number, "seen": 1, "hits": 1, "kind": "error_before", "path": "/contacts/*", "times": 1}]
    assert api.control("DELETE", f"/_control/faults/{number}").json() == {"removed": number}
    assert api.control("GET", "/_control/faults").json() == {"faults": []}


def test_all_faults_are_cleared_at_once(api):
    api.control("POST", "/_control/faults", {"kind": "error_before"})
    api.control("DELETE", "/_control/faults")
    assert api.create().status_code == 201


def test_contact_of_the_staff_is_made_merged_and_deleted_by_control(api, ghl):
    body = {"phone": PHONE, "firstName": "Ann", "tags": ["VIP"], "additionalPhones": [OTHER_PHONE]}
    ann = api.control("POST", "/_control/contacts", body).json()
    ben = api.control("POST", "/_control/contacts", {"phone": "+442079460000"}).json()
    assert api.find()["tags"] == ["vip"]
    remaining = api.control("POST", f"/_control/contacts/{ann['id']}/merge", {"into": ben["id"]}).json()
    assert remaining["additional_phones"] == [PHONE, OTHER_PHONE]
    assert api.find() is None
    assert api.control("DELETE", f"/_control/contacts/{ben['id']}").json()["alive"] is False
    assert [contact.merged_into for contact in ghl.truth.contacts()] == [ben["id"], None]


@pytest.mark.parametrize("into", ["nobody", None])
def test_merge_that_cannot_be_leaves_everything_as_it_was(api, ghl, into):
    contact_id = ghl.add_contact(phone=PHONE).id
    merged = contact_id if into else "nobody"
    assert api.control("POST", f"/_control/contacts/{merged}/merge", {"into": into or contact_id}).status_code == 404
    assert [contact.alive for contact in ghl.truth.contacts()] == [True]


def test_contact_is_not_merged_into_itself_nor_deleted_twice(ghl):
    contact_id = ghl.add_contact(phone=PHONE).id
    with pytest.raises(KeyError):
        ghl.merge(contact_id, contact_id)
    ghl.delete(contact_id)
    with pytest.raises(KeyError):
        ghl.delete(contact_id)


def test_merged_contact_takes_its_notes_along(api, ghl):
    ann, ben = api.created(PHONE), api.created(OTHER_PHONE)
    api.note(ann, "key-1")
    ghl.merge(ann, ben)
    assert [note["body"] for note in api.ask("GET", f"/contacts/{ben}/notes").json()["notes"]] == ["key-1"]
    assert ghl.truth.notes_with("key-1") == {ben: 1}


def test_reset_empties_everything_and_takes_settings(api, ghl):
    api.created()
    api.control("POST", "/_control/faults", {"kind": "error_before"})
    api.control("POST", "/_control/reset", {"burst": 7})
    assert (ghl.world.burst, ghl.truth.contacts(), ghl.truth.requests(), ghl.engine.faults.all()) == (7, [], [], [])


def test_control_costs_no_requests_and_no_rate(api, ghl):
    ghl.configure(burst=1)
    for _ in range(3):
        api.control("GET", "/_control/counters")
    assert api.create().status_code == 201
    assert len(ghl.truth.requests()) == 1


def test_truth_logs_every_request_with_its_fault_and_its_effect(api, ghl):
    ghl.add_fault("answer_lost", method="POST", path="/contacts/", times=1)
    api.find()
    with pytest.raises(requests.ConnectionError):
        api.create()
    api.create()
    told = [(one.endpoint, one.status, one.fault, one.effect) for one in ghl.truth.requests()]
    assert told == [
        ("GET /contacts/search/duplicate", 200, None, False),
        ("POST /contacts/", None, "answer_lost", True),
        ("POST /contacts/", 400, None, False),
    ]
    assert [one.number for one in ghl.truth.lost_answers()] == [ghl.truth.requests()[1].number]


def test_truth_tells_what_one_caller_cost(api, ghl):
    contact_id = api.created(PHONE)
    api.created(OTHER_PHONE)
    api.note(contact_id)
    ghl.add_fault("burst_429")
    api.note(contact_id)
    endpoints = [one.endpoint for one in ghl.truth.requests(phone=PHONE)]
    assert endpoints == ["POST /contacts/", "POST /contacts/{contact_id}/notes", "POST /contacts/{contact_id}/notes"]


def test_request_that_changes_nothing_has_no_effect(api, ghl):
    contact_id = api.created(tags=["vip"], city="Reno")
    api.ask("POST", f"/contacts/{contact_id}/tags", {"tags": ["vip"]})
    api.ask("PUT", f"/contacts/{contact_id}", {"city": "Reno"})
    api.upsert()
    api.upsert(city="Elko")
    assert [one.effect for one in ghl.truth.requests()] == [True, False, False, False, True]


def test_truth_over_http_tells_what_the_object_tells(api, ghl):
    ghl.configure(allow_duplicate_contact=True)
    first, second = api.created(), api.created()
    api.note(first, "key-1")
    told = api.control("GET", "/_truth").json()
    assert told["counts"] == api.control("GET", "/_control/counters").json()
    assert told["counts"]["duplicates"] == {PHONE: [first, second]}
    assert told["counts"]["requests_per_endpoint"] == {"POST /contacts/": 2, "POST /contacts/{contact_id}/notes": 1}
    assert (len(told["contacts"]), len(told["notes"]), len(told["requests"])) == (2, 1, 3)


def test_truth_over_http_can_be_narrowed(api):
    contact_id = api.created()
    api.note(contact_id, "key-1")
    since = api.control("GET", "/_truth/requests").json()["requests"][1]["number"]
    assert len(api.control("GET", f"/_truth/requests?since={since}").json()["requests"]) == 1
    assert len(api.control("GET", "/_truth/notes?containing=key-2").json()["notes"]) == 0
    assert len(api.control("GET", f"/_truth/contacts?phone=%2B{PHONE[1:]}").json()["contacts"]) == 1
