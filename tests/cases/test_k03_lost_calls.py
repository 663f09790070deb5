"""K03, lost calls: whatever is restarted, evicted, unplugged or never told, an accepted call ends as a lead or as a visible question."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from rq import Queue
from rq.exceptions import ShutDownImminentException
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import import_attribute

from app import build_parts
from bridge.errors import WrongSettings
from bridge.intake import http
from bridge.intake.accept import Event
from bridge.ledger import keys
from bridge.providers.base import Sender, WebhookRequest
from bridge.sandbox.proof.points import CrashedError, Side
from bridge.watch import health
from bridge.work import queues
from tests.cases.support import CREATE, PUBLIC_URL, Crew, post, settings, twilio_key


@pytest.mark.parametrize("side", [Side.BEFORE, Side.AFTER])
@pytest.mark.parametrize("what", ["POST /contacts", "POST /contacts/…/notes"])
def test_b026_machine_that_is_lost_in_the_middle_costs_no_lead_and_doubles_none(bridge, what, side):
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))
    points = bridge.rig.points
    watch_for(points, what, side, points.crash)
    began = bridge.rig.clock.now()
    bridge.rig.rest(horse_reported=False)
    bridge.assert_one_lead(call)
    assert bridge.entry(call).attempts[0].outcome == "died"
    assert bridge.rig.clock.now() - began < 15 * 60
    assert len(bridge.truth.contacts()) == 1


def watch_for(points, what, side, act):
    """Let `act` happen at the first effect whose name ends with `what`."""
    reach = points._reach

    def look(number, at_side):
        if at_side is side and points.names[number - 1].endswith(what) and points.act is not None:
            points.at = number
        reach(number, at_side)

    points.side, points.act, points._reach = side, act, look


def test_b028_job_that_a_stop_signal_interrupts_is_handed_back_at_no_cost(bridge):
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))

    def interrupt():
        raise ShutDownImminentException("the dyno restarts", None)

    watch_for(bridge.rig.points, "POST /contacts", Side.AFTER, interrupt)
    bridge.rig.rest()
    bridge.assert_one_lead(call)
    entry = bridge.entry(call)
    assert [attempt.cause for attempt in entry.attempts if attempt.cause == "worker.shutdown"] == ["worker.shutdown"]
    assert (entry.deaths, bridge.failures(), bridge.asked(CREATE)) == (0, [], 1)


def test_b029_call_whose_job_was_evicted_is_put_again(bridge):
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))
    bridge.connection.delete(Job.key_for(twilio_key(call)))
    queue = Queue(queues.QUEUE, connection=bridge.connection, serializer=JSONSerializer)
    assert Queue.dequeue_any([queue], None, connection=bridge.connection, serializer=JSONSerializer) is None, "RQ loses it in silence"
    began = bridge.rig.clock.now()
    bridge.rig.rest()
    bridge.assert_one_lead(call)
    assert bridge.counted("jobs_lost") == 1
    assert bridge.rig.clock.now() - began < 15 * 60


def test_b029_redis_that_evicts_is_named(connection):
    policy = connection.config_get("maxmemory-policy")["maxmemory-policy"]
    try:
        connection.config_set("maxmemory-policy", "allkeys-lru")
        [finding] = [one for one in health.check_redis(connection) if one.name == "eviction"]
    finally:
        connection.config_set("maxmemory-policy", policy)
    assert finding.ok is False
    assert "noeviction" in finding.say


def test_b031_job_names_a_stable_function_and_carries_an_id_alone(bridge):
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))
    job = Job.fetch(twilio_key(call), connection=bridge.connection, serializer=JSONSerializer)
    assert (job.func_name, job.args, job.kwargs) == ("handlers.run_call.run_call", [twilio_key(call)], {})
    assert callable(import_attribute(job.func_name))


def test_b031_entry_of_another_release_is_read(bridge):
    """A newer release has written a field that this one does not know, an older one has left out what has a default."""
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))
    name = keys.entry(twilio_key(call))
    document = json.loads(bridge.connection.get(name))
    document["of_a_later_release"] = {"any": "thing"}
    document["facts"]["of_a_later_release"] = 1
    document.pop("version", None)
    bridge.connection.set(name, json.dumps(document))
    bridge.rig.rest()
    bridge.assert_one_lead(call)


def test_b032_calls_that_come_while_redis_moves_are_spooled_and_delivered_once(redis_url, tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    with Crew(redis_url, folder, workers=1) as crew:
        nowhere = settings(REDIS_URL=f"unix://{tmp_path}/gone.sock", SPOOL_PATH=crew.settings.spool_path)
        calls = [crew.phones.call(f"+1202555{100 + number:04}") for number in range(5)]
        post_to_dead_redis(crew, nowhere, calls)
        assert (crew.entries(), crew.web.receiver.spool.count()) == ([], 5)
        crew.web.receiver.spool.drain(crew.web.receiver.take_spooled, limit=10)
        crew.rest()
        assert {entry.source for entry in crew.entries()} == {"spool"}
        for call in calls:
            crew.assert_one_lead(call, phone=call.caller)


def post_to_dead_redis(crew, nowhere, calls):
    app = Flask("web whose Redis has moved")
    app.register_blueprint(http.blueprint(build_parts(nowhere).receiver, PUBLIC_URL))
    assert {post(app, crew.phones.ended(call)).status_code for call in calls} == {204}


def test_b034_sixty_calls_at_once_need_no_more_connections_than_threads(make_crew):
    crew = make_crew(workers=2)
    calls = [crew.phones.call("anonymous") for _ in range(60)]
    crew.post(crew.phones.ended(crew.phones.call()))
    before = len(crew.connection.client_list())
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda call: crew.post(crew.phones.ended(call)), calls))
    assert answers == [[204]] * 60
    assert len(crew.connection.client_list()) <= before + 16
    crew.rest()
    assert len(crew.connection.client_list()) <= before + 16 + 3, "two workers and a sweeper"


def test_b034_call_that_redis_has_no_connection_for_is_spooled_and_not_lost(make_crew, connection):
    crew = make_crew(workers=1)
    call = crew.phones.call()
    most = connection.config_get("maxclients")["maxclients"]
    crew.web.connection.connection_pool.disconnect()
    try:
        connection.config_set("maxclients", len(connection.client_list()))
        assert crew.post(crew.phones.ended(call)) == [204]
    finally:
        connection.config_set("maxclients", most)
    assert (crew.entries(), crew.web.receiver.spool.count()) == ([], 1)
    crew.web.receiver.spool.drain(crew.web.receiver.take_spooled, limit=10)
    crew.rest()
    crew.assert_one_lead(call)


def test_b035_first_call_after_an_idle_night_is_accepted(make_crew):
    crew = make_crew(workers=1)
    first, second = crew.phones.call(), crew.phones.call()
    assert crew.post(crew.phones.ended(first)) == [204]
    for client in crew.connection.client_list():
        if client["id"] != str(crew.connection.client_id()):
            crew.connection.client_kill_filter(_id=client["id"])
    crew.web.connection.connection_pool.disconnect()
    assert crew.post(crew.phones.ended(second)) == [204]
    assert [entry.source for entry in crew.entries()] == ["webhook", "webhook"]
    crew.rest()
    crew.assert_one_lead(first, second)


def test_b037_accepted_call_survives_the_end_of_its_web_process(bridge):
    call = bridge.phones.call()
    assert bridge.post(bridge.phones.ended(call)) == [204]
    bridge.restart()
    job = Job.fetch(twilio_key(call), connection=bridge.connection, serializer=JSONSerializer)
    assert job.args == [twilio_key(call)]
    bridge.rig.rest()
    bridge.assert_one_lead(call)


@pytest.mark.parametrize("effect", range(1, 3))
def test_b037_web_process_that_dies_before_its_answer_has_kept_all_or_nothing(bridge, effect):
    """Without an answer the provider sends again."""
    call = bridge.phones.call()
    points = bridge.rig.points
    points.at, points.side, points.act = effect, Side.BEFORE if effect == 1 else Side.AFTER, points.crash
    with pytest.raises(CrashedError):
        bridge.post(bridge.phones.ended(call), bridge.phones.ended(call))
    bridge.restart()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)


def test_b038_calls_that_are_fetched_from_the_phone_company_become_leads_once(bridge):
    """What never reached us comes by backfill, overlapping with what did."""
    calls = [bridge.phones.call(f"+1202555{100 + number:04}", started=bridge.rig.clock.now() - 3600) for number in range(12)]
    bridge.take(bridge.phones.ended(calls[0]))
    for _ in range(2):
        for call in calls:
            bridge.rig.deliver(fetched(bridge, call))
        bridge.rig.rest()
    assert len(bridge.contacts()) == len(bridge.notes()) == 12


def fetched(bridge, call):
    """A call as a phone company's own list tells it."""
    told = bridge.phones.ended(call)
    headers = {"content-type": told.headers["Content-Type"]}
    request = WebhookRequest("POST", "/webhooks/twilio/status", "", headers, told.body, PUBLIC_URL, call.started)
    heard = bridge.receiver.providers["twilio"].parse(request, Sender())
    return Event(heard.call, "backfill", heard.content, None, "backfill", "{}")


def test_b041_call_without_an_end_becomes_one_lead_that_says_so_and_a_late_end_updates_the_note(bridge):
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(call), bridge.phones.twilio.status(call, "in-progress", after_s=2))
    bridge.pass_time(4 * 3600)
    bridge.assert_one_lead(call)
    assert "no end was reported" in bridge.note(call)
    bridge.take(bridge.phones.twilio.status(call, "completed", after_s=50))
    bridge.assert_one_lead(call)
    assert "Outcome: completed" in bridge.note(call)
    assert "no end was reported" not in bridge.note(call)


def test_b041_wait_for_an_end_cannot_be_set_to_more_than_an_hour():
    with pytest.raises(WrongSettings, match="NOTE_WAIT_S"):
        settings(NOTE_WAIT_S="3601")
