"""One contract for every provider: a new one joins `CASES` and gets all of these for nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.call import CallerKind, Status, contradicts, merge
from bridge.errors import Refused
from bridge.providers import registry, signatures
from bridge.providers.base import Heard, Ignored, Kind, Provider, Sender, WebhookRequest
from bridge.sandbox.phone import Delivery, GenericPhone, PhoneCall, TwilioPhone, new_call, sample, sample_names
from tests.providers import carriers
from tests.providers.case import Case
from tests.providers.hosted_cases import HOSTED
from tests.providers.support import NOW, OLD_SECRET, PUBLIC_URL, SECRET, SHARED_KEY, SHARED_KEY_ID, TOKEN, received, settings

CALL = new_call(random.Random(7), caller="+15550101234")


def twilio_started(call: PhoneCall = CALL, **extra: str) -> Delivery:
    return TwilioPhone(PUBLIC_URL, TOKEN).voice(call, **extra)


def twilio_ended(call: PhoneCall = CALL, status: str = "completed", **extra: str) -> Delivery:
    return TwilioPhone(PUBLIC_URL, TOKEN).status(call, status, after_s=94, **extra)


def twilio_raw(body: bytes) -> Delivery:
    blank = TwilioPhone(PUBLIC_URL, TOKEN).post("voice", {})
    from bridge.providers.reading import form_fields

    given = signatures.twilio_signature(TOKEN, blank.url, form_fields(body))
    return replace(blank, body=body, headers={**blank.headers, "X-Twilio-Signature": given})


def twilio_with_shared_key() -> Delivery:
    plain = TwilioPhone(PUBLIC_URL, SHARED_KEY).post("voice", {"CallSid": "CA1", "CallStatus": "ringing"})
    return replace(plain, headers={**plain.headers, "X-Twilio-Webhooks-Signature-Settings": f"key={SHARED_KEY_ID},algorithm=HMAC_SHA1"})


def generic(secret: str = SECRET) -> GenericPhone:
    return GenericPhone(PUBLIC_URL, secret, now=lambda: NOW)


def generic_started(call: PhoneCall = CALL, **extra: object) -> Delivery:
    return generic().event("call.started", call, **extra)


def generic_ended(call: PhoneCall = CALL, status: str = "completed", **extra: object) -> Delivery:
    return generic().event("call.ended", call, status=status, duration_seconds=94, **extra)


CASES = {
    "twilio": Case(
        {"TWILIO_AUTH_TOKEN": TOKEN, "TWILIO_SHARED_KEYS": json.dumps({SHARED_KEY_ID: SHARED_KEY})},
        twilio_started,
        twilio_ended,
        twilio_raw,
        lambda: TwilioPhone(PUBLIC_URL, "another-token").voice(CALL),
        twilio_with_shared_key,
    ),
    "generic": Case(
        {"GENERIC_SECRET": f"{SECRET} {OLD_SECRET}"},
        generic_started,
        generic_ended,
        partial(GenericPhone.sign, generic(), message_id="msg_1"),
        lambda: generic("whsec_" + "QUJD" * 10).event("call.started", CALL),
        lambda: generic(OLD_SECRET).event("call.started", CALL),
        has_time=True,
    ),
    **carriers.CASES,
    **HOSTED,
}


def adapter(name: str) -> Provider:
    return registry.build(settings(**CASES[name].environment))[name]


ADAPTERS = {name: adapter(name) for name in CASES}


@pytest.fixture(params=list(CASES))
def name(request) -> str:
    return request.param


@pytest.fixture
def provider(name) -> Provider:
    return ADAPTERS[name]


@pytest.fixture
def case(name) -> Case:
    return CASES[name]


def hear(provider: Provider, delivery: Delivery) -> Heard:
    request = received(delivery)
    heard = provider.parse(request, provider.verify(request))
    assert isinstance(heard, Heard), heard
    return heard


def test_every_registered_provider_is_under_this_contract():
    assert set(CASES) == set(registry.PROVIDERS)


def test_it_has_samples_and_understands_each_of_them(provider, name):
    assert sample_names(name)
    for one in sample_names(name):
        heard = provider.parse(received(sample(name, one)), Sender())
        assert isinstance(heard, Heard), f"{one}: {heard}"
        assert heard.call.provider == provider.name == name


def test_a_signed_event_is_heard(provider, case):
    heard = hear(provider, case.started())
    assert (heard.call.root_id, heard.call.caller.e164, heard.call.dialled) == (CALL.sid, "+15550101234", case.dialled)
    assert heard.call.status is Status.RINGING


def test_a_missing_signature_is_401(provider, case):
    delivery = case.started()
    headers = {key: value for key, value in delivery.headers.items() if not any(part in key.lower() for part in case.proof)}
    bare = case.without_proof(delivery) if case.without_proof else replace(delivery, headers=headers)
    with pytest.raises(Refused) as refusal:
        provider.verify(received(bare))
    assert refusal.value.status == 401


def test_a_wrong_secret_is_403_and_names_the_setting(provider, case):
    with pytest.raises(Refused) as refusal:
        provider.verify(received(case.stranger()))
    assert refusal.value.status == 403
    assert next(spec.name for spec in provider.settings if spec.switches_on) in str(refusal.value)


def test_a_refusal_holds_neither_secrets_nor_numbers(provider, case):
    with pytest.raises(Refused) as refusal:
        provider.verify(received(case.stranger()))
    text = f"{refusal.value} {refusal.value.reason}"
    assert not any(hidden in text for hidden in (TOKEN, SECRET, "555010", CALL.sid))


def test_a_changed_body_is_refused_or_the_warnings_say_why_not(provider, case):
    delivery = case.started()
    if not case.covers_body:
        assert any("signs nothing" in warning for warning in provider.warnings())
        return
    changed, middle = delivery.body.replace(b"5550101234", b"5550106666"), len(delivery.body) // 2
    if changed == delivery.body:  # encoded
        changed = changed[:middle] + bytes([changed[middle] ^ 1]) + changed[middle + 1 :]
    with pytest.raises(Refused):
        provider.verify(received(replace(delivery, body=changed)))


def test_a_second_secret_proves_as_well(provider, case):
    assert provider.verify(received(case.rotated())) == Sender("")


def test_a_stale_signature_is_refused_where_the_scheme_has_a_time(provider, case):
    later = received(case.started(), now=NOW + 3 * 86_400)
    if case.has_time:
        with pytest.raises(Refused):
            provider.verify(later)
    else:
        provider.verify(later)  # a replay is told by its content alone: see the next claim
        assert provider.parse(later, Sender()).content == hear(provider, case.started()).content


def test_a_replay_says_the_same_as_the_first(provider, case):
    first, again = hear(provider, case.started()), hear(provider, case.started())
    assert (first.call.key, first.content) == (again.call.key, again.content)
    assert merge(first.call, again.call) == first.call


def test_another_event_says_something_else(provider, case):
    assert hear(provider, case.started()).content != hear(provider, case.ended()).content


def test_the_end_before_the_beginning_makes_the_same_call(provider, case):
    ringing, ended = hear(provider, case.started()).call, hear(provider, case.ended()).call
    assert ringing.key == ended.key
    assert merge(ended, ringing).status is merge(ringing, ended).status is Status.COMPLETED
    assert merge(ended, ringing).duration_s == case.duration_s


def test_another_caller_under_the_same_id_is_a_contradiction(provider, case):
    first, second = hear(provider, case.started()).call, hear(provider, case.started(replace(CALL, caller="+15550106666"))).call
    assert first.key == second.key
    assert contradicts(first, second)


@pytest.mark.parametrize("caller", ["anonymous", "+266696687", "Restricted"])
def test_a_withheld_caller_has_no_number(provider, case, caller):
    heard = hear(provider, case.started(replace(CALL, caller=caller)))
    assert (heard.call.caller.kind, heard.call.caller.e164, heard.call.caller.raw) == (CallerKind.WITHHELD, None, caller)


def test_a_blank_caller_is_not_lost(provider, case):
    assert hear(provider, case.started(replace(CALL, caller=""))).call.caller.kind is CallerKind.EMPTY


def test_an_unknown_status_is_a_value(provider, case):
    heard = hear(provider, case.ended(status="foo-new-status"))
    assert (heard.call.status, heard.call.raw_status) == (Status.UNKNOWN, "foo-new-status")


def test_a_known_status_is_known_in_any_case(provider, case):
    for word in case.words:
        assert hear(provider, case.ended(status=word)).call.status is not Status.UNKNOWN, word


def test_unknown_fields_hurt_nothing(provider, case):
    heard = hear(provider, case.started(Tomorrow="new"))
    assert heard.call == hear(provider, case.started()).call


@pytest.mark.parametrize("body", [b"", b"\xe9", b"\x00", b"[]", b"null", b'{"data":[]}', b"{" * 100_000, b"&&=&", b"%", b"%zz=%"])
def test_a_signed_body_without_a_call_is_ignored_with_a_reason(provider, case, body):
    if case.raw is None:
        with pytest.raises(Refused):
            provider.verify(received(replace(case.started(), body=body)))
        return
    request = received(case.raw(body))
    outcome = provider.parse(request, provider.verify(request))
    assert isinstance(outcome, Ignored)
    assert outcome.reason


def test_a_wrong_content_type_is_no_crash(provider, case):
    delivery = case.started()
    for content_type in ("text/plain", "multipart/form-data; boundary=x", "application/xml", "é", ""):
        request = received(replace(delivery, headers={**delivery.headers, "Content-Type": content_type}))
        try:
            sender = provider.verify(request)
        except Refused:
            continue
        assert provider.parse(request, sender).kind in set(Kind)


def test_the_answer_is_a_2xx_that_needs_nobody(provider):
    for kind in Kind:
        answer = provider.answer(kind)
        assert 200 <= answer.status < 300
        assert bool(answer.body) == bool(answer.content_type)


HEADER_NAMES = ["content-type", "x-twilio-signature", "x-twilio-webhooks-signature-settings", "i-twilio-idempotency-token"]
HEADER_NAMES += ["webhook-id", "webhook-timestamp", "webhook-signature"]
HEADER_NAMES += carriers.HEADERS
HEADER_NAMES += ["authorization", "verification-token", "openphone-signature", "x-pbx-timestamp", "x-pbx-signature"]
WORDS = st.text(max_size=60) | st.sampled_from(
    ["application/json", "application/x-www-form-urlencoded", "key=,algorithm=", f"key={SHARED_KEY_ID}"]
)
BODIES = st.binary(max_size=300) | st.sampled_from([b'{"data":{"call_id":', b"CallSid=CA1&From=%E9&Digits=1&Digits="])
REQUESTS = st.builds(
    WebhookRequest,
    method=st.sampled_from(["GET", "POST", "HEAD", ""]),
    path=WORDS,
    query=WORDS,
    headers=st.dictionaries(st.sampled_from(HEADER_NAMES), WORDS),
    body=BODIES,
    public_url=st.just(PUBLIC_URL),
    now=st.just(NOW),
)


@given(request=REQUESTS)
def test_whatever_arrives_is_refused_and_nothing_else_is_raised(request):
    for one in ADAPTERS.values():  # each request for all of them: making requests up is what takes time
        with pytest.raises(Refused):
            one.verify(request)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8
)
NAMES = [
    "CallSid",
    "call_id",
    "from",
    "From",
    "to",
    "Digits",
    "speech",
    "recording",
    "transcript",
    "status",
    "CallStatus",
    "started_at",
    "direction",
]
NAMES += ["CallDuration", "Timestamp", "parent_call_id", "ParentCallSid", "RecordingUrl", "channel", "account", "contactId"]
NAMES += ["payload", "call_session_id", "event_type", "conversation_uuid", "dtmf", "call", "vars", "resource_id", "CallUUID"]
OBJECTS = st.dictionaries(st.sampled_from(NAMES), ANYTHING)
JSONS = st.builds(lambda data, whole: json.dumps({**whole, "data": data, "detail": data}).encode(), OBJECTS, OBJECTS)


@given(
    request=REQUESTS
    | st.builds(lambda body: WebhookRequest("POST", "/webhooks/x", "", {"content-type": "application/json"}, body, "", NOW), JSONS)
)
def test_parsing_never_raises_and_makes_storable_text(request):
    for one in ADAPTERS.values():
        outcome = one.parse(request, Sender())
        if isinstance(outcome, Heard):
            outcome.content.encode()
            assert "\x00" not in outcome.content
