"""Each fault does what its name says, to the requests that it names, over real sockets."""

from __future__ import annotations

import time

import pytest
import requests

from bridge.sandbox.ghl import KINDS, Fault
from bridge.sandbox.ghl.faults import FaultPlan
from tests.sandbox.ghl.conftest import OTHER_PHONE, PHONE, eventually

CREATE = {"method": "POST", "path": "/contacts/"}
TIMEOUT_S = 0.15


def phones(ghl) -> list[str]:
    return [contact.phone for contact in ghl.truth.contacts()]


@pytest.mark.parametrize(("kind", "stored"), [("answer_lost", [PHONE]), ("request_lost", [])])
def test_reset_loses_the_answer_or_the_whole_request(api, ghl, kind, stored):
    ghl.add_fault(kind, **CREATE)
    with pytest.raises(requests.ConnectionError, match="reset"):
        api.create()
    assert phones(ghl) == stored


@pytest.mark.parametrize(("kind", "stored"), [("answer_held", [PHONE]), ("request_held", [])])
def test_held_answer_runs_into_the_read_timeout(api, ghl, kind, stored):
    ghl.add_fault(kind, seconds=30, **CREATE)
    with pytest.raises(requests.ReadTimeout):
        api.create(timeout=TIMEOUT_S)
    assert phones(ghl) == stored


def test_held_answer_ends_with_a_closed_connection(api, ghl):
    ghl.add_fault("answer_held", seconds=0.05)
    with pytest.raises(requests.ConnectionError, match="without response"):
        api.create()


def test_late_effect_comes_after_the_client_has_given_up(api, ghl):
    ghl.add_fault("effect_late", seconds=0.8, times=1, **CREATE)
    with pytest.raises(requests.ReadTimeout):
        api.create(timeout=TIMEOUT_S)
    assert phones(ghl) == []
    eventually(lambda: phones(ghl) == [PHONE])
    served = ghl.truth.lost_answers()[0]
    assert (served.effect_at - served.at).total_seconds() >= 0.8


def test_late_effect_is_answered_to_whoever_still_waits(api, ghl):
    ghl.add_fault("effect_late", seconds=0.1)
    assert api.create().status_code == 201


def test_effect_can_come_long_after_a_reset(api, ghl):
    ghl.add_fault("effect_after_reset", seconds=0.6, times=1, **CREATE)
    with pytest.raises(requests.ConnectionError):
        api.create()
    assert phones(ghl) == []
    assert api.find() is None
    eventually(lambda: phones(ghl) == [PHONE])


def test_reset_of_the_stand_in_forgets_effects_that_are_still_to_come(api, ghl):
    ghl.add_fault("effect_after_reset", seconds=0.1)
    with pytest.raises(requests.ConnectionError):
        api.create()
    ghl.reset()
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        assert phones(ghl) == []
        time.sleep(0.02)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520])
def test_server_error_comes_before_or_after_the_effect(api, ghl, status):
    ghl.add_fault("error_before", status=status, times=1)
    ghl.add_fault("error_after", status=status, nth=2)
    before, after = api.create(PHONE), api.create(OTHER_PHONE)
    assert (before.status_code, after.status_code) == (status, status)
    assert before.json()["statusCode"] == status
    assert phones(ghl) == [OTHER_PHONE]


def test_422_can_have_created_all_the_same(api, ghl):
    ghl.add_fault("refused_but_done", **CREATE)
    answer = api.create()
    assert (answer.status_code, answer.json()["error"]) == (422, "Unprocessable Entity")
    assert phones(ghl) == [PHONE]


def test_burst_and_daily_429_are_told_apart_by_their_headers(api, ghl):
    ghl.add_fault("burst_429", times=1)
    ghl.add_fault("daily_429", nth=2)
    burst, daily = api.create().headers, api.create().headers
    assert (burst["X-RateLimit-Remaining"], int(burst["X-RateLimit-Daily-Remaining"]) > 0) == ("0", True)
    assert (daily["X-RateLimit-Daily-Remaining"], int(daily["X-RateLimit-Remaining"]) > 0) == ("0", True)
    assert phones(ghl) == []


@pytest.mark.parametrize("kind", ["burst_429", "daily_429"])
def test_429_comes_with_or_without_each_header(api, ghl, kind):
    ghl.add_fault(kind, rate_headers=False, times=1)
    ghl.add_fault(kind, retry_after_s=7, nth=2)
    bare, told = api.create(), api.create()
    assert (bare.status_code, told.status_code) == (429, 429)
    assert not {name for name in bare.headers if name.startswith(("X-RateLimit", "Retry"))}
    assert told.headers["Retry-After"] == "7"


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("invalid_token", 401, "Invalid JWT"),
        ("scope_missing", 401, "The token is not authorized for this scope."),
        ("wrong_location", 403, "The token does not have access to this location."),
    ],
)
def test_refusal_of_the_token_can_hit_a_single_request(api, ghl, kind, status, message):
    ghl.add_fault(kind, nth=2, times=1)
    answers = [api.create(), api.ask("GET", f"/locations/{api.location}"), api.ask("GET", f"/locations/{api.location}")]
    assert [answer.status_code for answer in answers] == [201, status, 200]
    assert answers[1].json()["message"] == message


def test_proxy_answers_a_page_of_html_without_rate_headers(api, ghl):
    ghl.add_fault("html_page", status=503)
    answer = api.create()
    assert (answer.status_code, answer.headers["Content-Type"]) == (503, "text/html")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert not [name for name in answer.headers if name.startswith("X-RateLimit")]
    assert phones(ghl) == []


def test_page_of_html_can_come_after_the_effect(api, ghl):
    ghl.add_fault("html_page", effect="done")
    assert api.create().status_code == 502
    assert phones(ghl) == [PHONE]


def test_success_can_come_without_a_body(api, ghl):
    ghl.add_fault("empty_answer", **CREATE)
    answer = api.create()
    assert (answer.status_code, answer.content, phones(ghl)) == (201, b"", [PHONE])


def test_slow_drip_keeps_below_the_read_timeout_and_lasts_beyond_it(api, ghl):
    ghl.add_fault("slow_drip", seconds=0.002)
    began = time.monotonic()
    answer = api.create(timeout=0.5)
    assert time.monotonic() - began > len(answer.content) * 0.002
    assert answer.json()["contact"]["phone"] == PHONE


def test_truncated_body_is_noticed_by_its_length(api, ghl):
    ghl.add_fault("truncated", **CREATE)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        api.create()
    assert phones(ghl) == [PHONE]


def test_success_can_be_plain_text(api, ghl):
    ghl.add_fault("plain_text")
    answer = api.create()
    assert (answer.status_code, answer.text) == (200, "duplicate contact found")
    with pytest.raises(requests.JSONDecodeError):
        answer.json()
    assert phones(ghl) == []


def test_search_can_miss_what_is_there(api, ghl):
    api.created()
    number = ghl.add_fault("finds_nothing")
    assert api.find() is None
    assert api.search() == []
    assert ghl.remove_fault(number)
    assert api.find()["phone"] == PHONE


@pytest.mark.parametrize("known", [True, False])
def test_search_can_find_somebody_else(api, ghl, known):
    if known:
        api.created(OTHER_PHONE)
    ghl.add_fault("finds_another", path="*/search*")
    assert api.find()["phone"] != PHONE
    assert [hit["phone"] != PHONE for hit in api.search()] == [True]


def test_search_can_find_the_contact_that_the_fault_names(api, ghl):
    named = ghl.add_contact(phone="+442079460000")
    api.created()
    ghl.add_fault("finds_another", contact_id=named.id)
    assert api.find()["id"] == named.id


def test_faults_of_searches_leave_other_answers_alone(api, ghl):
    ghl.add_fault("finds_nothing")
    ghl.add_fault("finds_another")
    contact_id = api.created()
    assert api.ask("GET", f"/contacts/{contact_id}").json()["contact"]["id"] == contact_id


def test_field_can_be_dropped_silently(api, ghl):
    ghl.add_fault("as_usual", drop_field="tags", **CREATE)
    answer = api.create(fields={"tags": ["call"], "source": "Phone call"})
    assert answer.status_code == 201
    assert (answer.json()["contact"]["tags"], answer.json()["contact"]["source"]) == ([], "Phone call")


def test_staff_can_delete_a_contact_right_after_the_nth_request(api, ghl):
    ghl.add_fault("as_usual", path="/contacts/search/duplicate", nth=2, times=1, then="delete_contact")
    contact_id = api.created()
    assert [api.find()["id"], api.find()["id"]] == [contact_id, contact_id]
    assert api.note(contact_id).status_code == 400


def test_staff_can_merge_a_contact_into_another_in_between(api, ghl):
    other = ghl.add_contact(phone=OTHER_PHONE)
    ghl.add_fault("as_usual", then="merge_contact", into=other.id, **CREATE)
    contact_id = api.created(tags=["call"])
    assert api.note(contact_id).status_code == 400
    merged = api.ask("GET", f"/contacts/{other.id}").json()["contact"]
    assert (merged["tags"], merged["additionalPhones"]) == (["call"], [{"phone": PHONE}])


def test_merge_without_a_target_leaves_a_new_contact_with_the_same_phone(api, ghl):
    ghl.add_fault("as_usual", then="merge_contact", **CREATE)
    contact_id = api.created()
    assert api.find()["id"] != contact_id
    assert ghl.truth.contacts_per_phone() == {PHONE: 1}


def test_duplicate_setting_and_token_can_change_in_between(api, ghl):
    ghl.add_fault("as_usual", times=1, then="allow_duplicates")
    ghl.add_fault("as_usual", nth=2, times=1, then="refuse_duplicates")
    ghl.add_fault("as_usual", nth=3, times=1, then="revoke_token")
    assert [api.create().status_code for _ in range(4)] == [201, 201, 400, 401]


def test_change_in_between_can_go_with_a_lost_answer(api, ghl):
    ghl.add_fault("answer_lost", then="delete_contact", **CREATE)
    with pytest.raises(requests.ConnectionError):
        api.create()
    assert [contact.alive for contact in ghl.truth.contacts()] == [False]


def test_fault_hits_the_nth_request_and_as_many_as_it_says(api, ghl):
    ghl.add_fault("error_before", nth=2, times=2)
    assert [api.ask("GET", f"/locations/{api.location}").status_code for _ in range(5)] == [200, 500, 500, 200, 200]


@pytest.mark.parametrize("path", ["/contacts/{contact_id}/notes", "/contacts/*/notes", "*/notes"])
def test_fault_hits_only_the_method_and_path_that_it_names(api, ghl, path):
    ghl.add_fault("error_before", method="POST", path=path)
    contact_id = api.created()
    assert api.note(contact_id).status_code == 500
    assert api.ask("GET", f"/contacts/{contact_id}/notes").status_code == 200


def hits(fault: Fault, requests_: int = 400) -> list[bool]:
    plan = FaultPlan()
    plan.add(fault)
    return [plan.draw("GET", "/contacts/x", "/contacts/{contact_id}") is not None for _ in range(requests_)]


def test_rate_hits_its_share_and_the_seed_repeats_it():
    fault = Fault(kind="answer_lost", rate=0.25, seed=7)
    assert hits(fault) == hits(fault)
    assert 70 <= sum(hits(fault)) <= 130
    assert hits(fault) != hits(Fault(kind="answer_lost", rate=0.25, seed=8))


def test_rate_of_zero_hits_nothing_and_times_still_counts_with_a_rate():
    assert not any(hits(Fault(kind="answer_lost", rate=0)))
    assert sum(hits(Fault(kind="answer_lost", rate=0.5, times=3))) == 3


def test_first_fault_that_is_due_wins_and_all_count():
    plan = FaultPlan()
    plan.add(Fault(kind="answer_lost", nth=2, times=1))
    plan.add(Fault(kind="error_before", nth=2))
    drawn = [plan.draw("GET", "/x", "unknown") for _ in range(3)]
    assert [fault and fault.kind for fault in drawn] == [None, "answer_lost", "error_before"]
    assert [(one.seen, one.hits) for one in plan.all()] == [(3, 1), (3, 1)]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"as_usual", "finds_nothing", "finds_another"}))
def test_every_fault_that_spoils_an_answer_is_known_to_the_truth(kind):
    assert Fault(kind=kind).spoils


def test_unknown_kind_names_those_that_there_are():
    with pytest.raises(ValueError, match="answer_lost"):
        Fault(kind="gremlin")
