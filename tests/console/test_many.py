"""One action on many calls: as far as a request goes, then further, to the end; on nothing that has changed, and on nothing twice."""

from __future__ import annotations

import html
import itertools
import re
import threading

import pytest
import redis

from bridge.console import actions, bulk
from bridge.console.actions import Desk
from bridge.intake.replay import FRESH_S
from bridge.ledger import by_hand, keys
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.store import Change
from tests.console.support import Browser, Site, flashed

ACTS = {
    "replay": ("replayed", {"reason": "the outage is over"}),
    "close": ("closed", {"reason": "r"}),
    "assign": ("assigned", {"to": "bert"}),
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that has time for three calls."""
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    monkeypatch.setattr(bulk, "BATCH", 3)


def press(browser: Browser, action: str, page: str = "", **fields: str) -> str:
    """Send the form of an action's page. Returns where that leads."""
    path = f"/console/all/{action}"
    return browser.send(path, page or path, **fields).headers["Location"]


def go_on(browser: Browser, there: str) -> list[str]:
    """Press `Go on` until nothing is left to do. Returns what each page said; the last one is the list's."""
    said = []
    for _ in range(20):
        page = browser.page(there)
        said.append(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page)))
        if "Go on" not in page:
            return said
        there = browser.send(there, there).headers["Location"]
    raise AssertionError(said[-1])


def told(site: Site, what: str) -> dict[str, int]:
    """Call key → how often that stands in its trail."""
    return {
        entry.call_key: site.told(entry.call_key).count(what) for entry in site.store.find.page(Wanted(), after=None, limit=100).entries
    }


# ---- More calls than one request takes


@pytest.mark.parametrize("action", ACTS)
def test_more_calls_than_one_request_takes_end_complete_and_none_twice(site: Site, operator: Browser, short: None, action: str) -> None:
    what, fields = ACTS[action]
    parked = [site.park(number) for number in range(10)]
    there = press(operator, action, **fields)
    assert there.startswith("/console/bulk/")
    said = go_on(operator, there)
    assert [re.search(r"(\d+) of 10 so far", one)[1] for one in said[:-1]] == ["3", "6", "9"]
    assert told(site, what) == dict.fromkeys(parked, 1)
    assert "10 calls " in said[-1]
    assert {line["by"] for key in parked for line in site.store.trail(key) if line["what"] == what} == {"otto"}
    assert bulk.Bulk(site.desk).open() == []


def test_what_is_not_finished_stands_on_the_list_until_somebody_goes_on(site: Site, operator: Browser, short: None) -> None:
    for number in range(5):
        site.park(number)
    there = press(operator, "close", reason="r")
    page = operator.page("/console/attention")
    assert "3 so far, the others wait" in page
    assert f'href="{there}"' in page
    go_on(operator, there)
    assert "so far" not in operator.page("/console/attention")


def test_a_request_that_dies_leaves_nothing_done_twice_and_nothing_uncounted(
    site: Site, operator: Browser, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parked = [site.park(number) for number in range(7)]
    whole, tried = Desk.assign, itertools.count()

    def dies_after_two(desk: Desk, *arguments, **more) -> Entry:
        if next(tried) == 2:
            raise redis.ConnectionError("Redis is gone")
        return whole(desk, *arguments, **more)

    monkeypatch.setattr(Desk, "assign", dies_after_two)
    answer = operator.send("/console/all/assign", "/console/all/assign", to="bert")
    assert answer.status_code == 503
    (work,) = bulk.Bulk(site.desk).open()
    assert (work.at, work.done, sum(told(site, "assigned").values())) == (0, 0, 2)
    said = go_on(operator, f"/console/bulk/{work.id}")
    assert "7 calls have a new owner." in said[-1]
    assert told(site, "assigned") == dict.fromkeys(parked, 1)


def test_two_requests_at_once_share_no_call(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    parked = [site.park(number) for number in range(20)]
    many = bulk.Bulk(site.desk)
    survey = site.desk.survey(Wanted(state=State.NEEDS_ATTENTION), ask=False)
    token = many.show(survey, by="otto", action="assign", query={}, step=None, at="", after=None)
    work = many.begin("assign", token, bulk.Order("otto", to="bert"))
    threads = [threading.Thread(target=bulk.Bulk(site.desk).go_on, args=(work.id,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while not (work := many.go_on(work.id)).is_over:
        pass
    assert (work.done, work.left) == (20, {})
    assert told(site, "assigned") == dict.fromkeys(parked, 1)


def test_while_a_request_works_at_it_another_only_looks(site: Site, operator: Browser, short: None) -> None:
    for number in range(5):
        site.park(number)
    there = press(operator, "close", reason="r")
    lock = f"cb:bulk:{there.rpartition('/')[2]}:at work"
    site.parts.connection.set(lock, "another request")
    operator.send(there, there)
    operator.send(f"{there}/stop", there)
    page = operator.page(there)
    assert "3 of 5 so far" in page
    assert "being worked at just now" in page
    site.parts.connection.delete(lock)
    assert "5 calls are closed." in go_on(operator, there)[-1]


def test_the_rest_can_be_left_as_it_is_by_somebody_else(site: Site, operator: Browser, owner: Browser, short: None) -> None:
    for number in range(5):
        site.park(number)
    there = press(operator, "close", reason="r")
    assert "Go on" not in owner.page(there)
    assert owner.send(there, there).status_code == 403, "the trail tells otto's reason under otto's name"
    owner.send(f"{there}/stop", there)
    assert "3 calls are closed. The 2 others were left as they were, by olga." in owner.page(there)
    operator.client.post(there, data={"csrf_token": operator.token("/console")})
    assert site.store.connection.zcard(keys.state_index(State.NEEDS_ATTENTION)) == 2


def test_a_page_behind_the_first_goes_on_where_that_one_ended(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "BULK", 4)
    parked, page = [site.park(number) for number in range(10)], "/console/all/assign"
    for _ in range(3):
        there = press(operator, "assign", page, to="bert")
        more = re.search(r'href="(/console/all/assign\?[^"]+)"', operator.page(there))
        page = html.unescape(more[1]) if more else ""
    assert not page
    assert told(site, "assigned") == dict.fromkeys(parked, 1)


def test_a_full_page_with_nothing_behind_it_offers_no_next(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "BULK", 4)
    for number in range(4):
        site.park(number)
    assert "Look at the next ones" not in operator.page("/console/all/close")


# ---- Between the page and the press


def test_what_somebody_changed_meanwhile_is_left_alone(site: Site, operator: Browser, owner: Browser) -> None:
    untouched, closed, taken, failed_again = (site.fail(number) for number in range(4))
    page = operator.page("/console/all/assign")
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.partition('class="stack"')[2]))
    owner.send(f"/console/calls/{closed}/close", f"/console/calls/{closed}", reason="rang them")
    owner.send(f"/console/calls/{taken}/assign", f"/console/calls/{taken}", owner="carl")
    owner.send(f"/console/calls/{failed_again}/replay", f"/console/calls/{failed_again}/replay")
    fault = site.ghl.add_fault("scope_missing", method="POST", path="/contacts/")
    assert site.settle(failed_again).state is State.NEEDS_ATTENTION
    site.ghl.remove_fault(fault)
    operator.client.post("/console/all/assign", data=fields | {"to": "bert"})
    assert "1 call has a new owner. 3 were left as they are: 3 had moved on since the page was made." in flashed(operator)
    owners = [site.entry(key).owner for key in (untouched, closed, taken, failed_again)]
    assert owners == ["bert", "anna", "carl", "anna"]


@pytest.mark.parametrize("action", ACTS)
def test_a_page_that_is_pressed_twice_acts_once(site: Site, operator: Browser, action: str) -> None:
    what, fields = ACTS[action]
    call_key = site.park(0)
    page = operator.page(f"/console/all/{action}")
    hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.rpartition('class="stack"')[2]))
    for _ in range(2):
        operator.client.post(f"/console/all/{action}", data=hidden | fields)
    assert told(site, what) == {call_key: 1}


def test_a_page_that_was_loaded_again_has_replaced_the_one_before(site: Site, operator: Browser) -> None:
    """What a browser holds open cannot pile up in Redis, and an old page cannot act on what a new one has shown."""
    call_key = site.park(0)
    old = dict(re.findall(r'name="(shown)" value="([^"]+)"', operator.page("/console/all/close")))
    operator.page("/console/all/close")
    assert len(list(site.parts.connection.scan_iter("cb:bulk:shown:*"))) == 1
    operator.client.post("/console/all/close", data=old | {"reason": "r", "csrf_token": operator.token("/console")})
    assert "pressed already, or is too old" in flashed(operator)
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


@pytest.mark.parametrize("shown", ["", "x", "0" * 48, "0" * 48 + "\n", "é" * 48])
def test_a_press_without_a_page_does_nothing(site: Site, operator: Browser, shown: str) -> None:
    call_key = site.park(0)
    operator.client.post("/console/all/close", data={"shown": shown, "reason": "r", "csrf_token": operator.token("/console")})
    assert "nothing was done by this press" in flashed(operator)
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_the_page_of_one_action_is_no_ticket_for_another(site: Site, operator: Browser) -> None:
    call_key = site.park(0)
    shown = dict(re.findall(r'name="(shown)" value="([^"]+)"', operator.page("/console/all/assign")))
    operator.client.post("/console/all/close", data=shown | {"reason": "r", "csrf_token": operator.token("/console")})
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_an_owner_is_not_given_what_is_his_already(site: Site, operator: Browser) -> None:
    call_key = site.park(0)
    press(operator, "assign", to=site.entry(call_key).owner)
    assert "Nothing was changed. 1 was left as it is: 1 had this owner already." in flashed(operator)
    assert told(site, "assigned") == {call_key: 0}


@pytest.mark.parametrize("query", ["cause=gone", "last4=x", "like=nobody", "cursor=x", "step=send_money", "day=today"])
def test_a_filter_that_cannot_be_read_acts_on_nothing_and_is_explained(site: Site, operator: Browser, query: str) -> None:
    site.park(0)
    answer = operator.get(f"/console/all/replay?{query}")
    assert answer.status_code == 400
    assert "This filter cannot be read" in answer.text


@pytest.mark.parametrize("work_id", ["0" * 16, "x", "..", "0" * 16 + "%0A"])
def test_a_work_that_nobody_began_is_no_page(operator: Browser, work_id: str) -> None:
    assert operator.get(f"/console/bulk/{work_id}").status_code in {404, 308}


# ---- Each action


def test_many_calls_are_replayed_one_after_the_other(redis_url: str, ghl) -> None:
    site = Site(redis_url, ghl, GHL_BURST="10")
    parked, operator = [site.park(number) for number in range(4)], site.browser("otto")
    assert "4 can be replayed as they are" in operator.page("/console/all/replay")
    operator.send("/console/all/replay", "/console/all/replay")
    starts = sorted(site.entry(call_key).next_try_at or 0 for call_key in parked)
    gaps = [later - sooner for sooner, later in itertools.pairwise(starts)]
    assert site.desk.replay_every_s == pytest.approx(4 / 0.7), "four requests each, and seven in ten of the burst"
    assert gaps == pytest.approx([site.desk.replay_every_s] * 3, abs=1)
    assert "4 calls are put back" in flashed(operator)
    site.close()


def test_what_is_doubtful_stays_unless_a_reason_is_typed(site: Site, operator: Browser) -> None:
    fresh, old = site.fail(0), site.fail(1)
    site.age(old, FRESH_S + 1)
    operator.send("/console/all/replay", "/console/all/replay")
    assert (site.entry(fresh).state, site.entry(old).state) == (State.ACCEPTED, State.NEEDS_ATTENTION)
    operator.send("/console/all/replay", "/console/all/replay", reason="they were told that we ring back")
    assert site.entry(old).state is State.ACCEPTED


def test_what_came_after_the_page_was_made_is_left_alone(site: Site, operator: Browser) -> None:
    shown = site.fail(0)
    page = operator.page("/console/all/close")
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.partition('class="stack"')[2]))
    unseen = site.fail(1)
    operator.client.post("/console/all/close", data=fields | {"reason": "done by hand"})
    assert (site.entry(shown).state, site.entry(unseen).state) == (State.DONE, State.NEEDS_ATTENTION)


def test_many_calls_of_one_filter_are_assigned(site: Site, operator: Browser) -> None:
    twilio, other = site.fail(0), site.fail(1, provider="telnyx")
    operator.send("/console/all/assign", "/console/all/assign?provider=telnyx", to="bert")
    assert (site.entry(twilio).owner, site.entry(other).owner) == ("anna", "bert")


def test_many_calls_are_replayed_from_a_step(site: Site, operator: Browser) -> None:
    first, second = site.fail(0), site.fail(1)
    page = "/console/all/replay?step=tag_lead"
    assert '<option value="tag_lead" selected>' in operator.page(page)
    operator.send("/console/all/replay", page, reason="the tags were wrong")
    assert [site.store.trail(call_key)[-1].get("step") for call_key in (first, second)] == ["tag_lead", "tag_lead"]


def test_one_contact_is_adopted_for_all_calls_of_one_caller(site: Site, operator: Browser) -> None:
    mine, again, other = site.fail(0), site.fail(100), site.fail(1)
    known = site.ghl.add_contact(phone="+12025550999")
    assert "calls of several callers" in operator.page("/console/all/adopt")
    assert 'name="contact_id"' not in operator.page("/console/all/adopt")
    operator.send("/console/all/adopt", f"/console/all/adopt?like={mine}", contact_id="nobody")
    assert "knows no contact" in flashed(operator)
    operator.send("/console/all/adopt", f"/console/all/adopt?like={mine}", contact_id=known.id)
    assert [site.entry(call_key).contact_id for call_key in (mine, again, other)] == [known.id, known.id, None]


def test_closing_many_needs_a_reason(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    operator.send("/console/all/close", "/console/all/close", reason=" ")
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_nobody_can_make_up_an_action(operator: Browser) -> None:
    assert operator.get("/console/all/delete").status_code == 404


def test_live_calls_go_before_a_thousand_replays(site: Site, operator: Browser) -> None:
    """The sweeper starts replays only while the queue is short, so a live call never waits behind more than a few."""
    parked = [site.park(number) for number in range(30)]
    press(operator, "replay", reason="r")
    for call_key in parked:
        site.store.change(call_key, lambda entry, moment: Change(by_hand.postpone(entry, moment.now - 1)))
    site.parts.sweeper.sweep()
    queue = site.parts.connection.lrange("rq:queue:calls", 0, -1)
    assert len(queue) == 4
    live = site.accept(99)
    site.parts.sweeper.sweep()
    assert site.parts.connection.lrange("rq:queue:calls", 0, -1)[4:] == [live.encode()]
