"""A deployment of real processes: it starts, breaks, mends and ends as one is told to."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.sandbox import phone, scenarios, story
from bridge.sandbox.deployment import Deployment
from bridge.sandbox.processes import alive
from bridge.sandbox.remote import RemoteBridge
from bridge.sandbox.story import Scene, Story


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("deployment"), web=2, workers=1, environment={"BRIDGE_OWNER": "night shift"}) as running:
        yield running


@pytest.fixture
def line(deployment):
    return phone.TwilioPhone(deployment.urls[1], deployment.settings["TWILIO_AUTH_TOKEN"], random.Random(5), signed_url=deployment.url)


def call(deployment, line, number):
    visit = scenarios.new_visit(line, random.Random(number))
    return scenarios.send_batch(scenarios.Batch(visit.whole))


def all_done(deployment):
    calls = list(deployment.bridge.calls())
    return calls if calls and all(one["state"] == "done" for one in calls) else None


def test_every_part_runs_and_every_web_is_ready(deployment):
    assert deployment.names == ("redis", "ghl", "web-1", "web-2", "worker-1")
    assert all(deployment.family(name) for name in deployment.names)
    assert all(RemoteBridge(url, "").is_ready() for url in deployment.urls)


def test_second_web_takes_what_is_signed_for_the_public_url(deployment, line):
    assert {sent.status for sent in call(deployment, line, 1)} == {200, 204}
    (done,) = deployment.await_true(lambda: all_done(deployment), "the call is done")
    assert done["owner"] == "night shift"
    assert deployment.ghl.counts()["notes"] == 1


def test_killed_worker_is_gone_and_its_successor_does_its_work(deployment, line):
    lost = deployment.family("worker-1")
    deployment.kill("worker-1")
    assert alive(lost) == []
    assert deployment.family("worker-1") == []
    call(deployment, line, 2)
    deployment.restart("worker-1")
    deployment.await_true(lambda: all_done(deployment), "the calls are done")
    assert deployment.ghl.counts()["contacts"] == 2


def test_redis_keeps_everything_over_kill_and_restart_on_the_same_port(deployment):
    with deployment.connection() as connection:
        before = connection.dbsize()
        deployment.kill("redis")
        assert deployment.family("redis") == []
        assert not deployment.bridge.is_ready()
        deployment.start_part("redis")
        deployment.await_ready()
        assert connection.dbsize() >= before > 0


def test_stand_in_finds_its_contacts_after_a_restart(deployment):
    before = deployment.ghl.counts()["contacts"]
    deployment.restart("ghl")
    assert deployment.await_true(lambda: deployment.ghl.counts()["contacts"], "the stand-in answers") == before


def test_frozen_part_wakes_up_again(deployment):
    deployment.send("web-2", signal.SIGSTOP)
    deployment.send("web-2", signal.SIGCONT)
    deployment.await_ready()
    assert deployment.family("web-2")


def test_waiting_in_vain_shows_what_was_awaited_and_the_logs(deployment):
    with pytest.raises(RuntimeError, match=r"(?s)until pigs fly.*==> web-2: .*web-2.log") as failed:
        deployment.await_true(lambda: False, "pigs fly", within_s=0.1)
    assert "gunicorn" in str(failed.value)


def test_scene_that_ends_otherwise_is_a_failure_in_plain_words(deployment):
    told = Story(deployment, random.Random(7))
    wrong = Scene("A lead that nobody wanted", scenarios.new_caller, ends=story.NEEDS_ATTENTION)
    played = list(told.play([wrong]))
    assert story.judge(played, told.figures(played))[0] == "“A lead that nobody wanted”: ended as done, not as needs_attention"


def test_forged_scene_that_is_accepted_is_a_failure(deployment):
    told = Story(deployment, random.Random(8))
    (played,) = told.play([story.SCENES[-1]])
    assert played.scene.who == story.FORGER
    accepted = replace(played, sent=tuple(replace(one, status=204) for one in played.sent))
    assert "answered 204, not 403" in story.judge([accepted], told.figures([accepted]))[0]


def test_nothing_of_the_shell_reaches_the_parts(monkeypatch, tmp_path):
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.example.com/1")
    monkeypatch.setenv("GHL_TOKEN", "a real one")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")
    environment = Deployment(tmp_path).environment
    assert environment["GHL_TOKEN"] != "a real one"
    assert not {"SENTRY_DSN", "HTTPS_PROXY"} & set(environment)


def test_secrets_are_new_for_each_deployment(tmp_path):
    one, other = Deployment(tmp_path).settings, Deployment(tmp_path).settings
    assert all(one[name] != other[name] for name in ("SECRET_KEY", "API_TOKEN", "TWILIO_AUTH_TOKEN", "GENERIC_SECRET"))


def test_start_that_fails_stops_what_has_started(tmp_path):
    (tmp_path / "redis").write_text("in the way: a file where the folder should be")
    broken = Deployment(tmp_path)
    with pytest.raises(OSError, match="redis"), broken:
        pytest.fail("it must not start")
    assert not any(broken.family(name) for name in broken.names)


def test_log_of_each_part_is_a_file_of_its_own(deployment):
    logs = [deployment.log(name) for name in deployment.names]
    assert len(set(logs)) == len(logs)
    assert all(isinstance(log, Path) and log.exists() for log in logs)
