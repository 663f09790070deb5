"""One note per call: written once, kept up to date, and never doubled by a lost answer or a lost ledger."""

from __future__ import annotations

import html
from dataclasses import replace
from types import SimpleNamespace

import pytest
import redis

from bridge.call import Call, Recording, Status, Transcript
from bridge.crm.base import Note
from bridge.crm.causes import Cause
from bridge.errors import Gone, Permanent, Transient, Uncertain
from bridge.ledger import by_hand, keys
from bridge.ledger.entry import State
from handlers import note_call, note_text, steps, tag_lead
from handlers.note_call import digest
from tests.support.builders import KEY, NOW, PHONE, make_call, make_entry
from tests.support.house import House

RECORDED = make_call(recordings=(Recording("RE1", "https://r.example.com/1", 12),))
STAFF = "called back, wants Tuesday"


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def notes(house: House) -> list[str]:
    return [body for contact_id in house.crm.contacts for body in house.crm.bodies(contact_id)]


def render(facts: Call) -> list[str]:
    return note_text.render(facts, zone="America/Chicago", limit=None).split("\n")


def test_the_note_carries_the_call_key(house: House) -> None:
    house.accept(make_call())
    house.run()
    (body,) = notes(house)
    assert body.endswith(f"Callbridge call {KEY}")
    assert house.entry().steps["note_call"].result["note_id"] == house.crm.notes["c1"][0].id


def test_later_news_update_the_same_note(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.accept(RECORDED)
    house.run()
    (body,) = notes(house)
    assert "https://r.example.com/1" in body
    assert house.crm.requests[-2:] == ["get_note", "update_note"]
    assert house.entry().steps["note_call"].result["digest"] == digest(RECORDED)


def test_the_intent_is_written_before_the_note_is_sent(house: House) -> None:
    seen: list[dict[str, float]] = []
    house.crm.watch("add_note", lambda: seen.append(house.entry().intents))
    house.accept(make_call())
    house.run()
    assert seen == [{"note_call": NOW}]
    assert house.entry().intents == {}


def test_a_note_whose_answer_was_lost_is_found_again(house: House) -> None:
    house.crm.lose("add_note")
    house.accept(make_call())
    house.run()
    assert house.entry().waiting_for == "crm.timeout"
    house.run_again()
    assert house.entry().state is State.DONE
    assert house.crm.requests[-2:] == ["add_note", "list_notes"]
    assert len(notes(house)) == 1


def test_a_note_that_is_found_again_is_brought_up_to_date(house: House) -> None:
    house.crm.lose("add_note")
    house.accept(make_call())
    house.run()
    house.accept(RECORDED)
    house.run_again()
    (body,) = notes(house)
    assert "https://r.example.com/1" in body


def in_an_editor(body: str) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in body.split("\n"))


@pytest.mark.parametrize("news", [None, RECORDED, make_call(duration_s=61)], ids=["nothing new", "a recording", "a changed line"])
@pytest.mark.parametrize("dress", [str, in_an_editor])
def test_what_staff_wrote_into_a_note_that_got_no_answer_is_kept_at_no_extra_request(house: House, news, dress) -> None:
    house.crm.lose("add_note")
    house.accept(make_call())
    house.run()
    (note,) = house.crm.notes["c1"]
    house.crm.notes["c1"] = [Note(note.id, dress(f"{note.body}\n{STAFF}"))]
    if news:
        house.accept(news)
    house.run_again()
    (body,) = notes(house)
    assert house.entry().state is State.DONE
    assert STAFF in body
    assert all(line in html.unescape(body) for line in render(news or make_call()))
    assert house.crm.requests[-3:] == (["add_note", "list_notes", "update_note"] if news else ["create_contact", "add_note", "list_notes"])
    house.accept(make_call(recordings=(Recording("RE2", "https://r.example.com/2", 5),)))
    house.run()
    assert STAFF in notes(house)[0], "and it is theirs from then on"


@pytest.mark.parametrize("dress", [str, in_an_editor])
def test_a_note_that_got_no_answer_and_was_left_alone_is_replaced_whole(house: House, dress) -> None:
    """Its words are those that were announced, though what is known has changed since: no line of the old one stays."""
    house.crm.lose("add_note")
    house.accept(make_call(duration_s=10))
    house.run()
    (note,) = house.crm.notes["c1"]
    house.crm.notes["c1"] = [Note(note.id, dress(note.body))]
    house.accept(make_call(duration_s=61))
    house.run_again()
    (body,) = notes(house)
    assert body.split("\n") == render(make_call(duration_s=61))
    assert house.entry().announced == {}


def test_a_note_announced_by_an_older_release_is_replaced_only_where_no_line_is_lost(house: House) -> None:
    house.crm.lose("add_note")
    house.accept(make_call())
    house.run()
    house.change(lambda entry, _now: replace(entry, announced={}))
    house.accept(RECORDED)
    house.run_again()
    assert notes(house)[0].split("\n") == render(RECORDED)


def test_a_lost_note_is_sent_again_only_after_the_last_look(house: House) -> None:
    house.crm.refuse("add_note", Uncertain("lost", cause="crm.timeout"))
    house.accept(make_call())
    house.run()
    looks = 0
    while house.entry().state is not State.DONE and looks < 9:
        assert house.crm.requests.count("add_note") == 1
        house.run_again()
        looks += 1
    assert house.clock.at - NOW == pytest.approx(82 + house.settings.request_timeout_s)
    assert looks == 5
    assert len(notes(house)) == 1


def test_a_note_that_was_refused_for_now_is_sent_again_without_looking(house: House) -> None:
    house.crm.refuse("add_note", Transient("busy", cause="crm.429"))
    house.accept(make_call())
    house.run()
    assert house.entry().intents == {}
    house.run_again()
    assert "list_notes" not in house.crm.requests
    assert len(notes(house)) == 1


def test_a_note_that_staff_deleted_is_written_anew(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.crm.notes["c1"].clear()
    house.accept(RECORDED)
    house.run()
    assert house.entry().state is State.DONE
    assert len(notes(house)) == 1


def test_a_note_that_was_deleted_and_whose_new_one_got_no_answer_is_still_one(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.crm.notes["c1"].clear()
    house.crm.lose("add_note")
    house.accept(RECORDED)
    house.run()
    house.run_again()
    assert house.entry().state is State.DONE
    assert len(notes(house)) == 1


def test_two_calls_of_a_caller_have_two_notes(house: House) -> None:
    for root_id in ("CA1", "CA11"):
        call = make_call(root_id=root_id)
        house.accept(call)
        house.run(call.key)
    assert sorted(body.splitlines()[-1] for body in notes(house)) == ["Callbridge call twilio-CA1", "Callbridge call twilio-CA11"]


def test_a_call_without_an_end_gets_its_note_when_it_is_quiet(house: House) -> None:
    house.accept(make_call(status=Status.IN_PROGRESS, raw_status="in-progress"))
    house.run()
    assert notes(house) == []
    house.run_again()
    (body,) = notes(house)
    assert "no end was reported" in body


# ---- A note that staff have changed


def rewrite(house: House, change) -> None:
    """What the CRM's editor, or a person in it, makes of the call's one note."""
    (contact_id,) = house.crm.contacts
    (note,) = house.crm.notes[contact_id]
    house.crm.notes[contact_id] = [Note(note.id, change(note.body))]


def paragraphs(body: str) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in body.split("\n"))


def news(house: House, **facts) -> str:
    """Later news is brought; returns the call's one note."""
    house.accept(make_call(**facts))
    house.run()
    assert house.entry().state is State.DONE
    (body,) = notes(house)
    return body


@pytest.fixture
def written(house: House) -> House:
    house.accept(make_call())
    house.run()
    return house


@pytest.mark.parametrize("place", [lambda body: f"{body}\n{STAFF}", lambda body: f"{STAFF}\n{body}", lambda body: f"{body} {STAFF}"])
def test_what_staff_wrote_into_a_note_stays(written: House, place) -> None:
    rewrite(written, place)
    (edited,) = notes(written)
    body = news(written, recordings=RECORDED.recordings)
    assert body.startswith(edited)
    assert "https://r.example.com/1" in body
    assert written.crm.requests[-2:] == ["get_note", "update_note"]


def test_what_staff_wrote_stays_with_all_later_news(written: House) -> None:
    rewrite(written, lambda body: f"{body}\n{STAFF}")
    news(written, recordings=RECORDED.recordings)
    body = news(written, recordings=RECORDED.recordings, forwarded_from="+15550100007")
    assert [body.count(part) for part in (STAFF, "https://r.example.com/1", "+15550100007", KEY)] == [1, 1, 1, 1]
    rewrite(written, lambda body: f"{body}\nTuesday it is")
    body = news(written, recordings=RECORDED.recordings, forwarded_from="+15550100007", duration_s=61)
    assert STAFF in body
    assert "Tuesday it is" in body
    assert "1 min 1 s" in body


def test_what_staff_wrote_in_the_crms_editor_stays(written: House) -> None:
    rewrite(written, lambda body: f"{paragraphs(body)}<p>{STAFF}</p>")
    body = news(written, recordings=RECORDED.recordings)
    assert f"<p>{STAFF}</p>" in body
    assert body.endswith("<p>Recording: https://r.example.com/1, 12 s</p>")
    assert body.count("Inbound call") == 1


@pytest.mark.parametrize("dress", [lambda body: body, paragraphs, lambda body: body.replace("\n", "<br />"), lambda body: f" {body}\n\n"])
def test_a_note_as_we_wrote_it_is_replaced_in_whatever_dress_the_crm_shows_it(written: House, dress) -> None:
    rewrite(written, dress)
    body = news(written, duration_s=61)
    assert body.count("Outcome: ") == 1, "the line that is no longer true is gone"
    rewrite(written, dress)
    assert news(written, duration_s=61, forwarded_from="+15550100007").count("Outcome: ") == 1


def forget_words(house: House) -> None:
    """The entry as version 1.0.0 wrote it."""

    def older(entry, _now):
        done = entry.steps["note_call"]
        result = {name: value for name, value in done.result.items() if name != "words"}
        return replace(entry, steps={**entry.steps, "note_call": replace(done, result=result)})

    house.change(older)


def test_a_note_of_the_version_before_is_replaced_where_no_line_is_lost_and_else_added_to(written: House) -> None:
    forget_words(written)
    rewrite(written, paragraphs)
    assert news(written, recordings=RECORDED.recordings).startswith("Inbound call\n"), "replaced: it held our lines alone"
    forget_words(written)
    rewrite(written, lambda body: f"{body}\n{STAFF}")
    body = news(written, recordings=RECORDED.recordings, forwarded_from="+15550100007")
    assert STAFF in body
    assert "+15550100007" in body


def test_what_staff_wrote_stays_when_a_person_replays_from_the_note(written: House) -> None:
    rewrite(written, lambda body: f"{body}\n{STAFF}")
    order = [step.name for step in steps.STEPS]
    written.change(lambda entry, now: by_hand.replay(entry, now, start_at=now, from_step="note_call", order=order))
    body = news(written, recordings=RECORDED.recordings)
    assert STAFF in body
    assert "https://r.example.com/1" in body


def test_a_note_that_cannot_be_read_is_left_alone_until_it_can(written: House) -> None:
    rewrite(written, lambda body: f"{body}\n{STAFF}")
    before = notes(written)
    written.crm.refuse("get_note", Transient("the CRM is down", cause="crm.5xx"))
    written.accept(RECORDED)
    written.run()
    assert (notes(written), written.entry().intents, written.entry().waiting_for) == (before, {}, "crm.5xx")
    written.run_again()
    assert written.entry().state is State.DONE
    assert STAFF in notes(written)[0]


def test_a_note_that_the_crm_does_not_show_yet_is_not_doubled(written: House) -> None:
    written.crm.refuse("get_note", Gone("no such note", cause="crm.gone"))
    assert "https://r.example.com/1" in news(written, recordings=RECORDED.recordings)


def test_a_changed_note_that_is_gone_is_written_anew_and_is_ours_again(written: House) -> None:
    rewrite(written, lambda body: f"{body}\n{STAFF}")
    news(written, recordings=RECORDED.recordings)
    written.crm.notes["c1"].clear()
    news(written, recordings=RECORDED.recordings, forwarded_from="+15550100007")
    body = news(written, recordings=RECORDED.recordings, forwarded_from="+15550100007", duration_s=61)
    assert body.count("Outcome: ") == 1


def test_a_note_that_is_too_long_for_the_crm_is_read_once(written: House) -> None:
    written.crm.refuse("update_note", Permanent("too long", cause=Cause.UNPROCESSABLE))
    news(written, transcripts=(Transcript("TR1", "word " * 600),))
    assert written.crm.requests[-3:] == ["get_note", "update_note", "update_note"]


# ---- A ledger that lost its memory


def lose_ledger(house: House) -> None:
    house.connection.flushall()
    house.connection.set(keys.BORN, repr(house.clock.at - 600))


def test_a_lost_ledger_doubles_no_note(house: House) -> None:
    house.accept(make_call())
    house.run()
    lose_ledger(house)
    house.accept(make_call(), source="backfill")
    house.run()
    assert len(notes(house)) == 1
    assert len(house.crm.contacts) == 1
    assert house.crm.requests[-1] == "list_notes"


def test_a_note_from_before_the_loss_is_added_to_and_never_shortened(house: House) -> None:
    house.accept(RECORDED)
    house.run()
    lose_ledger(house)
    house.accept(make_call(duration_s=61), source="backfill")
    house.run()
    (body,) = notes(house)
    assert "https://r.example.com/1" in body, "the new ledger knows of no recording, the note did"
    assert "1 min 1 s" in body
    house.accept(make_call(duration_s=61, forwarded_from="+15550100007"))
    house.run()
    (body,) = notes(house)
    assert "https://r.example.com/1" in body
    assert "Forwarded from: +15550100007" in body


def test_a_contact_of_our_own_making_needs_no_look_at_its_notes(house: House) -> None:
    lose_ledger(house)
    house.accept(make_call(), source="backfill")
    house.run()
    assert "list_notes" not in house.crm.requests


def test_a_new_contact_after_a_lost_one_is_looked_at_first(house: House) -> None:
    house.accept(make_call())
    house.run()
    house.crm.delete("c1")
    merged = house.crm.add(PHONE)
    house.crm.notes[merged.id] = [Note("n9", f"Inbound call\nCallbridge call {KEY}")]
    house.clock.advance(sum(house.settings.settle_schedule_s))  # until then a contact of ours might just not show yet
    house.accept(RECORDED)
    house.run()
    assert house.entry().contact_id == merged.id
    (body,) = notes(house)
    assert "https://r.example.com/1" in body


def test_a_step_without_a_contact_does_nothing(house: House) -> None:
    work = SimpleNamespace(entry=make_entry(), crm=house.crm)
    note_call.run(work)
    tag_lead.run(work)
    assert house.crm.requests == []
