"""The note endpoints."""

from __future__ import annotations

import pytest


def test_note_answers_201_and_is_listed_newest_first(api):
    contact_id = api.created()
    first, second = api.note(contact_id, "one"), api.note(contact_id, "two")
    listed = api.ask("GET", f"/contacts/{contact_id}/notes").json()["notes"]
    assert first.status_code == second.status_code == 201
    assert [note["body"] for note in listed] == ["two", "one"]
    assert listed[1] == first.json()["note"]
    assert first.json()["note"]["contactId"] == contact_id


def test_same_note_twice_makes_two(api, ghl):
    contact_id = api.created()
    api.note(contact_id, "key-1")
    api.note(contact_id, "key-1")
    assert ghl.truth.notes_with("key-1") == {contact_id: 2}


def test_note_can_be_read_changed_and_deleted(api, ghl):
    contact_id = api.created()
    path = f"/contacts/{contact_id}/notes/{api.note(contact_id).json()['note']['id']}"
    assert api.ask("PUT", path, {"body": "longer", "pinned": True}).json()["note"]["body"] == "longer"
    read = api.ask("GET", path).json()["note"]
    assert (read["body"], read["pinned"]) == ("longer", True)
    assert api.ask("GET", path.rpartition("/")[0]).json()["notes"] == [read]
    assert api.ask("DELETE", path).json()["succeded"] is True
    assert api.ask("GET", path).status_code == 400
    assert [note.deleted for note in ghl.truth.notes(contact_id)] == [True]


def test_note_of_another_contact_is_not_found(api):
    ann, ben = api.created(), api.created("+12025550144")
    note_id = api.note(ann).json()["note"]["id"]
    assert api.ask("GET", f"/contacts/{ben}/notes/{note_id}").status_code == 400


@pytest.mark.parametrize("body", [{}, {"body": ""}, {"body": "x", "locationId": "y"}, {"body": "x", "contactId": "y"}, {"body": 5}])
def test_note_refuses_a_body_that_is_not_its_own(api, ghl, body):
    assert api.ask("POST", f"/contacts/{api.created()}/notes", body).status_code == 422
    assert ghl.truth.notes() == []


def test_note_longer_than_the_limit_is_refused(api, ghl):
    ghl.configure(note_max_chars=10)
    contact_id = api.created()
    assert api.note(contact_id, "x" * 10).status_code == 201
    assert api.note(contact_id, "x" * 11).status_code == 422
