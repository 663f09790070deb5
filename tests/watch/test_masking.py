"""Masking: nothing personal survives, and what an operator needs to find a call stays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import phonenumbers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.watch.masking import mask, mask_value

PAYLOADS = Path(__file__).parents[3] / "shared" / "payloads"


@pytest.mark.parametrize(
    "number",
    [
        "+12025550143",
        "12025550143",
        "2025550143",
        "(202) 555-0143",
        "+1 (202) 555-0143",
        "202.555.0143",
        "202-555-0143",
        "555-0143",
        "1-202-555-0143",
        "tel:+12025550143",
        "tel:+1-202-555-0143",
        "%2B12025550143",
        "%2B1%20202%20555%200143",
        "%28202%29+555-0143",
        "sip:+12025550143@pbx.example",
        "sip:12025550143@pbx",
        r"\u002B12025550143",
        "001 202 555 0143",
        "01112025550143",
        "call_12025550143.wav",
        "2025550143x99",
        "StatusVerifiedFrom12025550143To12025550199.",
        "+12025550143ext99",
        "x%3D12025550143",
        r"line\n12025550143",
        "202\u2011555\u20110143",
        "+1\u00a0202\u00a0555\u00a00143",
        "12025550143 12025550143",
        "+12025550143+12025550143",
        "12025550143,12025550143",
    ],
)
def test_a_number_is_masked_in_every_spelling(number):
    masked = mask(f"caller {number} rang")
    assert not re.search(r"\d{3}", masked), masked
    assert masked.startswith("caller ")
    assert masked.endswith(" rang")


@pytest.mark.parametrize(
    "number", ["+44 20 7946 0018", "+33 1 23 45 67 89", "+49 30/1234567", "+4532123456", "4532123456", "32 12 34 56", "+2904567"]
)
def test_numbers_of_other_countries_are_masked(number):
    assert not re.search(r"\d{3}", re.sub(r"[^\d…]", "", mask(number)))


def test_a_masked_number_keeps_its_last_two_digits():
    assert mask("from +12025550143 to 12025550199") == "from +…43 to …99"


@pytest.mark.parametrize(
    "text",
    [
        "CA0123456789abcdef0123456789abcdef",
        "twilio-CA01234567890123456789012345678901",
        "twilio-AC0123456789abcdef0123456789abcdef-CA0123456789abcdef0123456789abcdef",
        "telnyx-_1234567890123456789012345678901234567890",
        "contact ABcd1234567890abcdEF",
        "550e8400-e29b-41d4-a716-446655440000",
        "00000000-0000-0000-0000-123456789012",
        "Root=1-67891233-abcdef012345678912345678",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "2026-11-29T17:52:57Z",
        "2026-11-29T17:52:57.123456+00:00",
        "2026-11-29 17:52:57,123",
        "2026-11-29",
        "11/29/2026",
        "29.11.2026",
        "Sun, 29 Nov 2026 17:52:57 +0000",
        "[29/Nov/2026:17:52:57 +0000]",
        "took 12.345678901 s",
        "took_s=12.345678901",
        "retry in 0.123456789",
        "size 123456789 bytes",
        "amount 1,234.56 USD",
        "port 8000, pid=4194304",
        "started_at=1790000000",
        '"createdAt": 1790000000123',
        "Timestamp=1790000000.123456",
        "127.0.0.1:54321",
        "192.168.100.200",
        "snowflake 1234567890123456789",
        "GHL_TOKEN: is missing",
        "move from accepted to running",
        "Listening at: http://127.0.0.1:37551 (18341)",
        "step 3 of 5, attempt 12 of 16",
        "HTTP/1.1 200 OK",
        '"POST /webhooks/twilio HTTP/1.1" 200 12345 "-"',
        "the bearer token is missing",
        "sequence_number=12",
        "queue_name=calls",
        "phone_number_id=abc",
        "TranscriptionStatus=completed",
        "callbridge 27.0.1 on Python 3.11.7",
        "http://127.0.0.1:8000/readyz",
    ],
)
def test_what_is_no_number_stays_readable(text):
    assert mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("'Authorization': 'Bearer pit-1'", "'Authorization': '***'"),
        ("sent Bearer abcdef0123456789", "sent Bearer ***"),
        ("pit-0a1b2c3d-1111-2222-3333-444455556666", "***"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "***"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "jwt ***"),
        ("t-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "t-***"),
        (f"jwt eyJ{'a' * 3000}.eyJzdWIiOiIxIn0.c2ln", "jwt ***"),
        ("redis://:s3cret@redis.example:6379/0", "redis://***@redis.example:6379/0"),
        ("rediss://user:p@ss/word@redis.example:6379/0", "rediss://***@redis.example:6379/0"),
        ("https://public@sentry.example/1", "https://***@sentry.example/1"),
        ("TWILIO_AUTH_TOKEN=0123456789abcdef0123456789abcdef", "TWILIO_AUTH_TOKEN=***"),
        ("auth token 0123456789abcdef0123456789abcdef", "auth token ***"),
        ("X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=", "X-Twilio-Signature: ***"),
        ("--api-key=abc", "--api-key=***"),
        ("GET /x?token=abc&page=2", "GET /x?token=***&page=2"),
        ("Cookie: session=abc; other=def", "Cookie: ***"),
    ],
)
def test_secrets_are_masked(text, masked):
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("ada.example+test@mail.example.org wrote", "***@*** wrote"),
        ("From=%2B12025550143&CallerName=Ada+Example&Digits=1234", "From=+…43&CallerName=***&Digits=***"),
        ("From=client%3Aalice&To=bob", "From=***&To=***"),
        ("callerid_name=JANE+DOE&callernum=2025550143", "callerid_name=***&callernum=…43"),
        ('{"callername":"JANE DOE","destinationnum":"x"}', '{"callername":"***","destinationnum":"***"}'),
        ("CallerId=JANE+DOE&CallSid=CA1", "CallerId=***&CallSid=CA1"),
        ("FromCity=SPRINGFIELD&CallStatus=ringing", "FromCity=***&CallStatus=ringing"),
        ('{"phone": "+12025550143", "firstName": "Ada", "id": 7}', '{"phone": "+…43", "firstName": "***", "id": 7}'),
        ('{"name": "Ada \\"the\\" Example", "id": 7}', '{"name": "***", "id": 7}'),
        ('{"name": "O\'Brien", \'ok\': 1}', '{"name": "***", \'ok\': 1}'),
        (r"{\"name\": \"Ada Example\", \"n\": 1}", r"{\"name\": \"***\", \"n\": 1}"),
        ("[('CallerName', 'Ada Example'), ('From', '+12025550143')]", "[('CallerName', '***'), ('From', '+…43')]"),
        ("Caller(raw='alice', e164='+12025550143')", "Caller(raw='***', e164='+…43')"),
        ("SpeechResult=I+am+Ada&Confidence=0.9", "SpeechResult=***&Confidence=0.9"),
        ("Name: Ada Example, born", "Name: ***, born"),
        ('{"name": null, "email": ""}', '{"name": null, "email": ""}'),
        ('{"name": "never closed', '{"name": "***'),
        ("error: token=abc", "error: token=***"),
    ],
)
def test_values_of_sensitive_keys_are_masked(text, masked):
    assert mask(text) == masked


def test_nested_values_are_masked_by_key_and_by_text():
    event = {
        "call_key": "generic-1234567890",
        "to": [{"phone_number": "+12025550143"}],
        "caller": {"name": "Ada"},
        "note": ["rang from +12025550143", b"+12025550143"],
        "names": {"+12025550143": 1},
        "started_at": 1790000000,
        "id": 12025550143,
        "took_s": 0.25,
        "owner": "ops@example.org, 12025550143",
        "ok": True,
        "none": None,
    }
    assert mask_value(event) == {
        "call_key": "generic-1234567890",
        "to": "***",
        "caller": "***",
        "note": ["rang from +…43", "+…43"],
        "names": {"+…43": 1},
        "started_at": 1790000000,
        "id": "…43",
        "took_s": 0.25,
        "owner": "ops@example.org, …43",
        "ok": True,
        "none": None,
    }


def test_foreign_objects_become_masked_text():
    @dataclass
    class Lead:
        phone: str

    class Broken:
        def __str__(self):
            raise RuntimeError("+12025550143")

    assert mask_value([Lead("+12025550143"), Broken()])[0].endswith("Lead(phone='+…43')")
    assert mask_value(Broken()) == "<Broken: RuntimeError>"


def test_a_value_that_holds_itself_ends():
    loop: list[object] = []
    loop.append(loop)
    assert "***" in str(mask_value(loop))


_EXAMPLES = [
    number
    for region in sorted(phonenumbers.SUPPORTED_REGIONS)
    for kind in (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE)
    if (number := phonenumbers.example_number_for_type(region, kind))
]
_FORMATS = phonenumbers.PhoneNumberFormat


@st.composite
def spelt_numbers(draw):
    """A real number of any country with random last digits, in a format that people or programs write."""
    example = draw(st.sampled_from(_EXAMPLES))
    e164 = phonenumbers.format_number(example, _FORMATS.E164)
    tail = "".join(draw(st.lists(st.sampled_from("0123456789"), min_size=2, max_size=2)))
    number = phonenumbers.parse(e164[:-2] + tail)
    international = phonenumbers.format_number(number, _FORMATS.INTERNATIONAL)
    spelling = draw(
        st.sampled_from(
            [
                e164[:-2] + tail,
                international,
                phonenumbers.format_number(number, _FORMATS.RFC3966),
                international.replace(" ", "."),
                international.replace(" ", "-"),
                international.replace("+", "%2B").replace(" ", "%20"),
                international.replace("+", "00"),
                international.replace("+", "00").replace(" ", ""),
                (e164[:-2] + tail).replace("+", "%2B"),
                *([e164[1:-2] + tail] if len(e164) > 8 else []),  # seven bare digits are too common to be taken for a number
            ]
        )
    )
    return number, spelling


_BEFORE = st.sampled_from(
    ["", " ", "=", ":", ";", ",", '"', "'", "(", "<", "/", "\n", "&", "?q=", "caller ", "%3D", "sip:", "_", "[", " at 12:30 "]
)
_AFTER = st.sampled_from(["", " ", ":", ";", ",", '"', "'", ")", ">", "/", "\n", "&x=1", " rang", "_", "]", "@pbx", "ext 5", ".wav", "\\n"])


@settings(max_examples=300, deadline=None)
@given(spelt_numbers(), _BEFORE, _AFTER)
def test_no_number_of_any_country_survives(spelt, before, after):
    number, spelling = spelt
    masked = mask(before + spelling + after)
    digits = f"{number.country_code}{number.national_number}"
    assert not re.search(r"\d{4}", re.sub(r"(?<=\d)[ ().\-/](?=\d)", "", masked.replace(before, "", 1))), masked
    assert digits not in re.sub(r"\D", "", masked)


_PIECES = st.sampled_from(
    ["+12025550143", "12025550143", "name=", "From:", '"token": "', "'", '"', "\\", "@", "a.b", "***", "+…43", "…43",
     "://", "sip:", "bearer ", "1", "-", " ", "(", "%2B",
     "2026-11-29", "T17:52:57", "\n", "&", ",", "x@y.org", "phone", "=", "pit-", "eyJ", "é", "0.5", "s"]
)  # fmt: skip


@pytest.mark.parametrize(
    "key",
    ["caller_name", "callerName", "CallerName", "cid_name", "caller_id_name", "calleridname", "cnam", "CNAM", "caller.cnam", "from_name",
     "FromName", "displayName", "profileName", "lead_name", "customer_name", "fullName", "firstname", "LastName", "name", "agent_name"],
)  # fmt: skip
def test_whatever_a_phone_system_calls_a_persons_name_it_is_left_out(key):
    for text in (
        f"/webhooks/x?{key}=Ada+Example&z=1",
        f'{{"{key}": "Ada Example"}}',
        f"{{'{key}': 'Ada Example'}}",
        str(mask_value({key: "Ada Example"})),
    ):
        assert "Ada" not in mask(text)
        assert "Example" not in mask(text)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=12).map("".join)))
def test_masking_twice_changes_nothing_more(text):
    once = mask(text)
    assert mask(once) == once


@pytest.mark.skipif(not PAYLOADS.is_dir(), reason="the captured webhooks in ../shared/payloads are not here")
def test_captured_webhooks_hold_no_caller_after_masking():
    """Whole requests of every provider, with their signed texts: numbers of the samples end in 5550101234 and 5550109999."""
    for path in sorted(PAYLOADS.iterdir()):
        masked = mask(path.read_text(encoding="utf-8", errors="replace"))
        found = re.findall(r"(?:\+|%2B)\d{7,15}|55501[01]\d{4,5}|JANE.DOE", masked) if path.suffix != ".jwt" else []
        assert not found, path.name
