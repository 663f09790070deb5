"""K07, wrong party or wrong tenant: a contact is used only where the CRM shows the caller's line on it, in this deployment's location."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import pytest

from bridge.ledger.claims import Claims
from handlers.find_or_create_lead import TRUSTED_S
from tests.cases.support import ADA, AT_CREATE, AT_SEARCH, BO, CREATE, NEW_TEXT, OLD_TEXT, Crew

SECOND = "sandboxLocation00002"


def test_b076_caller_of_two_locations_is_a_contact_in_each(redis_url, tmp_path, connection):
    """Two deployments, even on one Redis: claims are per location, and each contact id is used in its own."""
    ids = []
    for location in ("sandboxLocation00001", SECOND):
        world = {"location_id": location, "token": f"pit-{location}"}
        with Crew(redis_url, tmp_path, workers=1, world=world, GHL_TOKEN=f"pit-{location}", GHL_LOCATION_ID=location) as crew:
            call = crew.phones.call(sid=f"CA{location}")
            crew.post(crew.phones.ended(call))
            crew.rest()
            ids.append(crew.assert_one_lead(call))
            assert crew.entry(call).location_id == location
            assert crew.failed == []
    assert len(set(ids)) == 2
    assert len(connection.keys("cb:claim:*")) == 2


def test_b076_claims_of_two_locations_know_nothing_of_one_another(bridge):
    clock = bridge.rig.clock
    claims = Claims(bridge.connection, clock, lease_s=5, wait_s=0, monotonic=clock.monotonic, sleep=clock.sleep)
    first = claims.acquire("one", ADA, owner="a")
    claims.resolve(first, "c1")
    second = claims.acquire("two", ADA, owner="b")
    assert (second.contact_id, first.name == second.name) == (None, False)


def test_b077_location_that_the_token_may_not_use_is_one_question_and_no_loop(bridge):
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(call))
    before = bridge.asked()
    bridge.rig.engine.configure({"token_state": "wrong_location"})
    bridge.take(bridge.phones.ended(call))
    assert bridge.state(call) == "needs_attention"
    assert (bridge.failures(), bridge.asked() - before) == (["crm.403"], 1)
    assert "GHL_LOCATION_ID" in bridge.entry(call).trouble.hint
    bridge.rig.engine.configure({"token_state": "valid"})
    bridge.replay(call)
    bridge.assert_one_lead(call)


def test_b077_contact_id_of_another_location_is_given_up_and_the_caller_looked_up_anew(bridge):
    """A location that does not know the id answers 400 "Contact not found"."""
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(call))
    bridge.rig.engine.book.clear()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert bridge.failures() == []


def test_b079_similar_number_is_not_the_caller(bridge):
    stranger = bridge.add(BO, firstName="Bo")
    bridge.fault("finds_another", contact_id=stranger.id, **AT_SEARCH)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert bridge.entry(call).contact_id != stranger.id
    assert [note.contact_id for note in bridge.notes()] == [bridge.entry(call).contact_id]
    assert bridge.truth.contacts(BO) == [stranger]
    assert bridge.asked(CREATE) == 1


@pytest.mark.parametrize("path", ["/contacts/search/duplicate", "/contacts/search"])
def test_b079_similar_number_is_not_the_caller_while_settling_either(bridge, path):
    stranger = bridge.add(BO, firstName="Bo")
    bridge.fault("finds_another", path=path, contact_id=stranger.id)
    bridge.fault("request_lost", method="POST", path="/contacts/", times=1)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert bridge.truth.contacts(BO) == [stranger]


def test_b080_contact_of_a_recycled_number_keeps_what_staff_wrote(bridge):
    grace = bridge.add(ADA, firstName="Grace", lastName="Example", dnd=True, source="Referral", tags=("vip",))
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.gather(call, speech="Alan"), bridge.phones.ended(call, CallerName="ALAN SAMPLE"))
    bridge.assert_one_lead(call)
    [kept] = bridge.contacts(ADA)
    assert (kept.id, kept.fields) == (grace.id, grace.fields)
    assert kept.tags == ("vip", "inbound call")
    assert "ALAN SAMPLE" in bridge.note(call)
    assert "Said: Alan" in bridge.note(call)


@pytest.mark.parametrize("where", [AT_SEARCH, AT_CREATE])
def test_b076_contact_of_another_location_is_never_written_to(bridge, where):
    told = {"contact": {"id": "foreignContact000001", "phone": ADA, "locationId": SECOND}}
    bridge.fault("plain_text", text=json.dumps(told), times=2, **where)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert not any("foreignContact" in one.path for one in bridge.truth.requests())


def edit(bridge, call, words):
    """Staff write into a call's note, in the CRM's editor."""
    [note] = bridge.notes(call)
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in note.body.split("\n"))
    bridge.rig.engine.book.keep_note(replace(note, body=f"{lines}<p>{words}</p>"))


def test_b080_note_keeps_what_staff_wrote_when_recording_and_transcript_come(bridge):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.pass_time(600)
    edit(bridge, call, "called back, wants Tuesday")
    before = bridge.asked()
    bridge.take(bridge.phones.twilio.recording(call))
    bridge.pass_time(3600)
    told = {"CallSid": call.sid, "TranscriptionSid": "TR1", "TranscriptionText": "please ring me"}
    bridge.take(bridge.phones.twilio.post("transcription", told))
    bridge.assert_one_lead(call)
    for words in ("<p>called back, wants Tuesday</p>", "<p>Recording: ", "<p>Message: please ring me</p>", "Inbound call"):
        assert bridge.note(call).count(words) == 1, bridge.note(call)
    assert (bridge.asked(OLD_TEXT), bridge.asked(NEW_TEXT), bridge.asked() - before) == (2, 2, 4)
    assert bridge.failures() == []


@pytest.mark.parametrize("kind", ["error_before", "answer_lost", "request_lost", "empty_answer"])
def test_b080_note_that_cannot_be_read_is_not_replaced_unread(bridge, kind):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    edit(bridge, call, "called back, wants Tuesday")
    bridge.fault(kind, method="GET", path="/contacts/{contact_id}/notes/{note_id}", times=2)
    bridge.take(bridge.phones.twilio.recording(call))
    bridge.assert_one_lead(call)
    assert bridge.asked(OLD_TEXT) == 3
    assert "called back, wants Tuesday" in bridge.note(call)
    assert "Recording: " in bridge.note(call)


def test_b080_number_that_staff_gave_to_another_contact_takes_its_calls_along(bridge):
    first = bridge.phones.call()
    bridge.take(bridge.phones.ended(first))
    [grace] = bridge.contacts(ADA)
    bridge.rig.engine.book.change(grace.id, {"phone": BO})
    alan = bridge.add(ADA, firstName="Alan")
    bridge.pass_time(TRUSTED_S)
    second = bridge.phones.call()
    bridge.take(bridge.phones.ended(second))
    assert bridge.entry(second).contact_id == alan.id
    assert [note.contact_id for note in bridge.notes(second)] == [alan.id]
