"""Each phone system's list of calls, against its stand-in: the same key as the webhooks', every page, every time zone."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bridge.call import CallerKind, Status
from bridge.errors import Permanent, Transient, WrongSettings
from bridge.intake.backfill import Backfill
from bridge.ledger.entry import Plan
from bridge.providers import lists, registry
from bridge.providers.lists import LISTS
from bridge.providers.lists.base import Ask, Page, Window
from bridge.providers.lists.http import Fetcher
from bridge.sandbox.call_list_types import SandboxCall
from bridge.sandbox.call_lists import CallLists
from bridge.sandbox.phone import TwilioPhone, new_call
from tests.intake.list_cases import CASES, listers, settings_of, webhook_call
from tests.providers.support import PUBLIC_URL, received, settings
from tests.support.builders import NOW

BY_NAME = {case.provider: case for case in CASES}
WINDOW = Window(NOW - 7200, NOW)
each_list = pytest.mark.parametrize("case", CASES, ids=lambda case: case.provider)


@pytest.fixture
def world():
    with CallLists(page_size=2) as server:
        yield server


def a_call(case, number=0, **facts) -> SandboxCall:
    call_id = str(700_000_000 + number) if case.numeric else f"id{number}"
    return SandboxCall(
        **{"id": call_id, "caller": f"+1555010{number:04d}", "dialled": "+15550109999", "started": NOW - 3600 + number} | facts
    )


def read(case, world, window=WINDOW, sleep=lambda _: None, **more):
    """What all lists of a provider hold."""
    rows, ignored, faults = {}, {}, []
    for lister in listers(case, world, **more):
        engine = Backfill(
            None,
            lambda *_: Plan(),
            settings_of(case, world),
            every_s=1,
            make_fetcher=lambda one: Fetcher(one.base_url, one.credentials, sleep=sleep),
        )
        listed = engine.read(lister, window)
        rows |= listed.rows
        ignored |= listed.ignored
        faults += [listed.fault] if listed.fault else []
    return rows, ignored, faults


def test_every_list_has_a_case() -> None:
    assert {case.provider for case in CASES} == set(LISTS)


@each_list
def test_listed_call_has_the_key_and_the_numbers_of_its_webhook(case, world) -> None:
    webhook = webhook_call(case)
    world.add(case.provider, a_call(case, id=webhook.root_id, caller="+15550101234"))
    rows, _, faults = read(case, world)
    assert not faults
    assert list(rows) == [webhook.key]
    listed = rows[webhook.key].call
    assert listed.caller.e164 == webhook.caller.e164 == "+15550101234"
    assert listed.dialled == "+15550109999"
    assert listed.status is Status.COMPLETED
    assert listed.started_at.timestamp() == pytest.approx(NOW - 3600, abs=1)


@each_list
def test_every_page_is_turned(case, world) -> None:
    world.add(case.provider, *[a_call(case, number) for number in range(7)])
    rows, _, faults = read(case, world)
    assert not faults
    assert len(rows) == 7


@each_list
def test_calls_outside_of_the_window_are_left_out(case, world) -> None:
    inside, edges = a_call(case, 1), [a_call(case, 2, started=NOW - 7300), a_call(case, 3, started=NOW + 100)]
    world.add(case.provider, inside, *edges)
    rows, _, _ = read(case, world)
    assert [row.call.caller.e164 for row in rows.values() if row.call.caller] == [inside.caller]


@each_list
@pytest.mark.parametrize("hour", [0, 5, 12, 23])
def test_call_is_found_at_any_hour_of_the_day(case, world, hour) -> None:
    """Lists that filter by day, or in the account's own time zone, would lose calls around midnight."""
    midnight = NOW - NOW % 86_400
    at = midnight + hour * 3600 + 90
    world.add(case.provider, a_call(case, started=at))
    rows, _, _ = read(case, world, Window(at - 60, at + 600))
    assert len(rows) == 1


@each_list
def test_no_answer_is_told_where_nobody_answered(case, world) -> None:
    world.add(case.provider, a_call(case, status="no-answer"))
    rows, _, _ = read(case, world)
    told = next(iter(rows.values())).call.status
    assert told is Status.NO_ANSWER or case.provider == "telnyx"  # its stand-in ends every call with normal_clearing


@each_list
def test_outbound_calls_make_nothing(case, world) -> None:
    world.add(case.provider, a_call(case, direction="outbound"))
    rows, _, faults = read(case, world)
    assert not faults
    assert [row for row in rows.values() if row.call.caller] == []


@pytest.mark.parametrize("provider", ["twilio", "signalwire", "plivo", "bandwidth"])
def test_leg_of_another_call_is_left_out_with_its_reason(provider, world) -> None:
    case = BY_NAME[provider]
    world.add(provider, a_call(case), a_call(case, 1, parent="id0"))
    rows, ignored, _ = read(case, world)
    assert len(rows) == 1
    assert ignored == {"a leg of another call": 1}


def test_visit_and_those_who_took_it_are_one_call_at_dialpad(world) -> None:
    case = BY_NAME["dialpad"]
    world.add("dialpad", a_call(case), a_call(case, 1, parent="id0"))
    rows, _, _ = read(case, world)
    assert len(rows) == 1
    assert len(next(iter(rows.values())).call.legs) == 1


@each_list
def test_429_is_waited_out_as_long_as_it_says(case, world) -> None:
    pauses = []
    world.busy = 2
    world.add(case.provider, a_call(case))
    rows, _, faults = read(case, world, sleep=pauses.append)
    assert not faults
    assert len(rows) == 1
    assert pauses == [1.0, 1.0]


@each_list
def test_server_errors_are_a_fault_that_may_pass(case, world) -> None:
    world.broken = 100
    _, _, faults = read(case, world)
    assert faults
    assert all(isinstance(fault, Transient) and fault.cause == "list.500" for fault in faults)


@each_list
def test_list_without_credentials_is_skipped_with_the_names_to_set(case) -> None:
    made = settings(**case.environment)
    built = lists.build(made, registry.build(made))
    assert built.listers == ()
    assert any(name in built.skipped[case.provider] for name in case.credentials)


def test_wrong_credentials_name_the_settings(world) -> None:
    (lister,) = listers(BY_NAME["twilio"], world)
    fetcher = Fetcher(lister.base_url, lister.credentials)
    with pytest.raises(Permanent) as refused:
        fetcher.get(lister.first(WINDOW), {"Authorization": "Bearer wrong"})
    assert "TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN" in refused.value.hint
    fetcher.close()


def test_credentials_go_to_no_other_host(world) -> None:
    fetcher = Fetcher(world.url, "TWILIO_AUTH_TOKEN")
    with pytest.raises(Permanent, match="another host"):
        fetcher.get(Ask("https://elsewhere.example.com/next"), {"Authorization": "Basic c2VjcmV0"})
    assert world.asked == []
    fetcher.close()


def test_host_that_is_away_is_a_fault_that_names_it_and_shows_nothing_else() -> None:
    fetcher = Fetcher("http://127.0.0.1:9", "X", sleep=lambda _: None)
    with pytest.raises(Transient) as away:
        fetcher.get(Ask("/2010-04-01/Accounts/ACsecret/Calls.json"), {})
    assert "127.0.0.1:9 did not answer" in str(away.value)
    assert "ACsecret" not in str(away.value)
    fetcher.close()


def test_pause_that_would_outlast_the_deadline_is_handed_back(world) -> None:
    world.busy = 1
    fetcher = Fetcher(world.url, "X", deadline_s=0.5)
    with pytest.raises(Transient) as busy:
        fetcher.get(Ask("/v1/calls"), {})
    assert busy.value.retry_in == 1.0
    fetcher.close()


TOKENS = '{"AC1": "main", "AC2": "other"}'


@pytest.mark.parametrize(
    ("environment", "accounts"),
    [
        ({"TWILIO_AUTH_TOKEN": "main", "TWILIO_ACCOUNT_TOKENS": TOKENS}, ["", "AC2"]),
        ({"TWILIO_AUTH_TOKEN": "", "TWILIO_ACCOUNT_TOKENS": TOKENS}, ["AC1", "AC2"]),
        ({"TWILIO_AUTH_TOKEN": "another", "TWILIO_ACCOUNT_TOKENS": TOKENS}, ["AC1", "AC2"]),
        ({"TWILIO_AUTH_TOKEN": "main", "TWILIO_ACCOUNT_TOKENS": '{"AC2": "other"}'}, ["", "AC2"]),
    ],
)
def test_account_of_a_listed_call_is_the_one_that_its_webhooks_prove(environment, accounts) -> None:
    """A request of each account, signed as Twilio would, says under which account its calls are kept."""
    key = {"TWILIO_API_KEY": "SK1", "TWILIO_API_SECRET": "s"}
    found = listers(BY_NAME["twilio"], None, **environment | key)
    assert [lister.account for lister in found] == accounts
    adapter = registry.build(settings_of(BY_NAME["twilio"], None, **environment))["twilio"]
    for sid, token, account in zip(("AC1", "AC2"), ("main", "other"), accounts, strict=True):
        phone = TwilioPhone(PUBLIC_URL, token, account=sid)
        assert adapter.verify(received(phone.voice(new_call(phone.rng)))).account == account


def test_main_account_that_is_not_listed_beside_its_subaccounts_is_warned_of(caplog) -> None:
    found = listers(BY_NAME["twilio"], None, TWILIO_ACCOUNT_SID="", TWILIO_ACCOUNT_TOKENS='{"AC2": "other"}')
    assert [lister.account for lister in found] == ["AC2"]
    assert "set TWILIO_ACCOUNT_SID" in caplog.text


def test_api_key_takes_the_place_of_the_auth_token() -> None:
    (lister,) = listers(BY_NAME["twilio"], None, TWILIO_API_KEY="SK1", TWILIO_API_SECRET="s")
    assert lister.credentials == "TWILIO_ACCOUNT_SID, TWILIO_API_KEY and TWILIO_API_SECRET"


def test_texml_calls_are_listed_beside_call_control(world) -> None:
    case = BY_NAME["telnyx"]
    world.add("telnyx", a_call(case, id="v3:MdI9", caller="+15550101234"))
    rows, _, _ = read(case, world, TELNYX_ACCOUNT_SID="61bf923e")
    adapter_key = next(iter(rows.values())).call.key
    assert rows[adapter_key].call.root_id == "v3:MdI9"


def test_time_zone_of_plivo_makes_times_usable(world) -> None:
    case = BY_NAME["plivo"]
    world.add("plivo", a_call(case))
    without, _, _ = read(case, world, PLIVO_TIME_ZONE="")
    with_zone, _, _ = read(case, world)
    assert next(iter(without.values())).began is None
    assert next(iter(with_zone.values())).began == pytest.approx(NOW - 3600, abs=1)


def test_unknown_time_zone_is_refused_with_an_example() -> None:
    with pytest.raises(WrongSettings, match="America/Chicago"):
        listers(BY_NAME["plivo"], None, PLIVO_TIME_ZONE="Middle/Earth")


def test_vonage_is_asked_day_by_day(world) -> None:
    case = BY_NAME["vonage"]
    world.add("vonage", *[a_call(case, number, started=NOW - 86_400 * number - 60) for number in range(4)])
    rows, _, faults = read(case, world, Window(NOW - 4 * 86_400, NOW))
    assert not faults
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("links", "index"),
    [
        ({"self": {"href": "/calls?page_size=10&record_index=20&order=asc"}}, "100"),  # the reference's own example: no link at all
        ({"next": {"href": "/v1/calls?page_size=100&record_index=1"}}, "1"),  # as recorded by the SDK
    ],
)
def test_next_page_of_vonage_keeps_the_filter_and_is_found_with_or_without_a_link(application, links, index) -> None:
    (lister,) = listers(BY_NAME["vonage"], None, **application)
    first = lister.first(WINDOW)
    second = lister.following(first, Page({"count": "250", "_links": links}), 100)
    assert dict(second.query) == dict(first.query) | {"record_index": index}
    assert lister.following(second, Page({"count": "101", "_links": {}}), 100) is None


def test_call_at_bandwidth_in_a_state_of_tomorrow_has_not_ended() -> None:
    (lister,) = listers(BY_NAME["bandwidth"])
    told = {"callId": "c1", "direction": "inbound", "from": "+15550101234", "to": "+15550109999", "startTime": "2026-01-15T15:04:05Z"}
    assert not lister.read(told | {"state": "held"}).call.is_over
    assert lister.read(told | {"state": "archived", "endTime": "2026-01-15T15:05:43Z", "disconnectCause": "hangup"}).call.is_over


def test_signalwire_is_asked_for_a_day_more_since_its_filter_may_mean_days() -> None:
    (lister,) = listers(BY_NAME["signalwire"])
    assert dict(lister.first(WINDOW).query)["StartTime>"] == "Wed, 14 Jan 2026 13:04:05 +0000"


def quo_row(*participants, **told):
    named = [{"phoneNumber": number, "actorId": actor} for number, actor in participants]
    return {"id": "AC1", "direction": "incoming", "status": "completed", "participants": named} | told


def test_caller_at_quo_is_who_does_not_belong_to_the_workspace() -> None:
    (lister,) = listers(BY_NAME["quo"])
    call = lister.read(quo_row(("+15550109999", "US1"), ("+15550109999", "US2"), ("+15550101234", None))).call
    assert (call.caller.e164, call.dialled) == ("+15550101234", "+15550109999")
    assert lister.read(quo_row(("+15550109999", "US1"), ("anonymous", None))).call.caller.kind is CallerKind.WITHHELD


def test_who_called_a_group_of_outsiders_is_not_guessed() -> None:
    (lister,) = listers(BY_NAME["quo"])
    group = quo_row(("+15550109999", "US1"), ("+15550101234", None), ("+15550106666", None))
    assert lister.read(group).reason == "several outsiders took part, and nothing tells who called"
    assert lister.read(group | {"direction": "outgoing"}).reason == "outbound call"


def test_voicemail_comes_with_a_call_that_quo_lists(world) -> None:
    case = BY_NAME["quo"]
    world.add("quo", a_call(case))
    read(case, world)
    assert world.asked[0].query["include"] == "voicemail"
    (lister,) = listers(case)
    voicemail = {"id": "VM1", "recordingUrl": "https://example.com/v.mp3", "transcript": "Call me back."}
    call = lister.read(quo_row(("+15550101234", None), status="missed", voicemail=voicemail)).call
    assert ([one.id for one in call.recordings], [one.text for one in call.transcripts]) == (["VM1"], ["Call me back."])


def test_record_without_conversation_makes_no_second_call() -> None:
    (lister,) = listers(BY_NAME["vonage"])
    heard = lister.read({"call_id": "x", "from": "15550101234", "direction": "inbound"})
    assert heard.reason.startswith("the record names no conversation")


@pytest.fixture(scope="module")
def application():
    """A Vonage application's id and private key, as they stand in an environment."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"VONAGE_APPLICATION_ID": "app1", "VONAGE_PRIVATE_KEY": pem.decode().replace("\n", "\\n")}


def test_voice_api_of_vonage_is_asked_where_an_application_is_named(world, application) -> None:
    case, webhook = BY_NAME["vonage"], webhook_call(BY_NAME["vonage"])
    agent = a_call(case, 1, direction="outbound", parent=webhook.root_id)
    world.add("vonage", a_call(case, id=webhook.root_id, caller="+15550101234"), agent, *[a_call(case, number) for number in range(2, 6)])
    rows, ignored, faults = read(case, world, **application)
    assert not faults
    assert len(rows) == 5
    assert ignored == {"outbound call or leg": 1}
    assert rows[webhook.key].call.caller.e164 == "+15550101234"
    assert all(asked.path == "/v1/calls" for asked in world.asked)


def test_key_of_vonage_that_cannot_sign_is_refused_and_not_shown(application) -> None:
    with pytest.raises(WrongSettings, match="VONAGE_PRIVATE_KEY") as wrong:
        listers(BY_NAME["vonage"], None, **application | {"VONAGE_PRIVATE_KEY": "no key at all"})
    assert "no key at all" not in str(wrong.value)


def test_base_url_of_a_list_has_to_be_safe() -> None:
    with pytest.raises(WrongSettings, match="BACKFILL_BASE_URLS"):
        settings_of(BY_NAME["twilio"], None, BACKFILL_BASE_URLS='{"twilio": "http://example.com"}')
    with pytest.raises(WrongSettings, match="JSON object"):
        settings_of(BY_NAME["twilio"], None, BACKFILL_BASE_URLS="http://127.0.0.1")
