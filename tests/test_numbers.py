"""Numbers: what is one caller, what is nobody, and what is not guessed. Cases in brackets are reports from the field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.call import CallerKind
from bridge.numbers import canonical, dialled, identify, is_own, same_line, spellings


def e164(raw, region="US", **options):
    return identify(raw, region=region, **options).e164


@pytest.mark.parametrize(
    ("raw", "region", "expected"),
    [
        ("+12025550143", "US", "+12025550143"),
        ("12025550143", "US", "+12025550143"),
        ("2025550143", "US", "+12025550143"),
        ("(202) 555-0143", "US", "+12025550143"),
        ("+1 202\u2011555\u20110143", "US", "+12025550143"),  # non-breaking hyphens
        ("\u202a+1 202 555 0143\u202c", "US", "+12025550143"),  # marks of direction, copied along
        ("\uff0b\uff11 202 555 0143", None, "+12025550143"),  # full-width
        ("+15550101234", "US", "+15550101234"),  # fiction: possible, not valid
        ("5550101234", "US", "+15550101234"),
        ("+390612345678", "US", "+390612345678"),  # Italy keeps its zero
        ("0612345678", "IT", "+390612345678"),
        ("+44 (0)20 7946 0018", "US", "+442079460018"),  # Great Britain drops it
        ("02079460018", "GB", "+442079460018"),
        ("00442079460018", "GB", "+442079460018"),
        ("+4402079460018", "GB", "+442079460018"),
        ("442079460018", "GB", "+442079460018"),
        ("00442079460018", "US", "+442079460018"),
        ("0031201234567", "US", "+31201234567"),
        ("0011442079460018", "AU", "+442079460018"),
        ("00491234567", "US", "+491234567"),
        ("+6834000", None, "+6834000"),  # Niue, as short as numbers get
        (" 12025550143", "US", "+12025550143"),  # a plus that arrived as a space
        (" 442079460018", "US", "+442079460018"),
        ("+390612345678", None, "+390612345678"),
    ],
)
def test_one_line_has_one_spelling_however_it_is_written(raw, region, expected):
    caller = identify(raw, region=region)
    assert (caller.kind, caller.e164, caller.raw) == (CallerKind.PSTN, expected, raw)


@pytest.mark.parametrize(
    ("raw", "region"),
    [
        ("3906123456", "IT"),  # [B047] +39 06 123456, or 390 612 3456
        ("4915112345678", "DE"),
        ("5511955500123", "US"),
        ("525512345678", "US"),
        ("442079460018", "US"),
        ("02079460018", "US"),  # [B050] no guess at another country
        ("4930123456", "US"),  # no valid number here, a valid one in Berlin
        (" 2025550143", "US"),  # a plus lost (Egypt), or a sloppy space
        ("201", "US"),
        ("201", "DE"),
        ("4711", "DE"),
        ("5550143", "US"),  # without area code
        ("911", "US"),
        ("123456e1", "DE"),  # [B062] a SIP id that parsers read as a number
        ("2.02555e9", "US"),  # [B055]
        ("2025550143.0", "DE"),
        ("+12025550143, +12025550199", "US"),
        ("1-800-FLOWERS", "US"),
        ("*67", "US"),
        ("+", None),
        ("+0", None),
        ("+820000000", None),  # two trunk zeros: read again it would be another number
        (" 99999999999999", "US"),
        ("2025550143", None),
        ("Jane", "US"),
        ("+" + "1" * 10_000, "US"),
    ],
)
def test_text_that_is_no_number_or_two_is_never_guessed(raw, region):
    caller = identify(raw, region=region)
    assert (caller.kind, caller.e164, caller.raw) == (CallerKind.UNPARSED, None, raw)


@pytest.mark.parametrize(
    "word", ["anonymous", "Anonymous", "Restricted", "PRIVATE", "Unavailable", "unknown", "Blocked", " Private  number ", "-1"]
)
def test_withheld_words_are_nobody_at_all(word):
    assert identify(word, region="US").kind is CallerKind.WITHHELD


@pytest.mark.parametrize("digits", ["266696687", "7378742833", "2562533", "8656696", "86282452253"])
@pytest.mark.parametrize("plus", ["", "+"])
@pytest.mark.parametrize("country_code_first", [True, False])
def test_withheld_words_on_a_keypad_are_nobody_at_all(plus, digits, country_code_first):
    caller = identify(plus + digits, region="US", country_code_first=country_code_first)
    assert (caller.kind, caller.e164) == (CallerKind.WITHHELD, None)


def test_a_number_that_contains_a_keypad_word_is_somebody():
    assert e164("+17378742833") == "+17378742833"


@pytest.mark.parametrize("nothing", ["", None, "   ", "null", "None", "\x00"])
def test_a_blank_caller_id_is_empty(nothing):
    assert identify(nothing, region="US").kind is CallerKind.EMPTY


@pytest.mark.parametrize(
    ("raw", "kind", "expected"),
    [
        ("sip:+12025550143@pbx.example", CallerKind.PSTN, "+12025550143"),
        ("sip:%2B12025550143@pbx.example;user=phone", CallerKind.PSTN, "+12025550143"),
        ("sips:+1-202-555-0143:secret@pbx.example;user=phone", CallerKind.PSTN, "+12025550143"),
        ('"Jane" <sip:+12025550143@pbx.example>', CallerKind.PSTN, "+12025550143"),
        ("sip:442079460018@pbx.example;user=phone", CallerKind.PSTN, "+442079460018"),
        ("sip:442079460018@pbx.example", CallerKind.SIP, None),
        ("sip:2025550143@pbx.example;user=phone", CallerKind.SIP, None),
        ("sip:5550101234@203.0.113.10", CallerKind.SIP, None),
        ("sip:1001@pbx.example", CallerKind.SIP, None),
        ("sip:alice@example.com", CallerKind.SIP, None),
        ("sip:+alice@example.com", CallerKind.SIP, None),
        ("sip:anonymous@anonymous.invalid", CallerKind.WITHHELD, None),
        ("sip:266696687@203.0.113.10", CallerKind.WITHHELD, None),
        ("client:agent7", CallerKind.CLIENT, None),
        ("client:+12025550143", CallerKind.CLIENT, None),
        ("tel:+1-202-555-0143", CallerKind.PSTN, "+12025550143"),
        ("tel:7042;phone-context=pbx.example", CallerKind.UNPARSED, None),
    ],
)
def test_addresses_are_numbers_only_where_they_say_so(raw, kind, expected):
    caller = identify(raw, region="US")
    assert (caller.kind, caller.e164) == (kind, expected)


@pytest.mark.parametrize("written", [" ext. 227", "*227", "x227", " x 227", ";ext=227", ",227", ",,227", "#227", " extension 227"])
def test_an_extension_is_split_off(written):
    caller = identify("+12025550143" + written, region="US")
    assert (caller.e164, caller.extension) == ("+12025550143", "227")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("447700900123", "+447700900123"),
        ("15550101234", "+15550101234"),
        ("3906123456", "+3906123456"),
        ("+15550101234", "+15550101234"),
        ("201", None),
    ],
)
def test_country_code_first_gets_its_plus_before_parsing(raw, expected):
    assert e164(raw, "US", country_code_first=True) == expected


@pytest.mark.parametrize(
    ("raw", "expected", "others"),
    [
        ("+5215512345678", "+525512345678", ("+5215512345678",)),  # [B043]
        ("+525512345678", "+525512345678", ("+5215512345678",)),
        ("+551181234567", "+5511981234567", ("+551181234567",)),  # a mobile before the ninth digit
        ("+5511981234567", "+5511981234567", ("+551181234567",)),
        ("+551133330123", "+551133330123", ()),  # a landline
        ("+551155500123", "+551155500123", ("+5511955500123",)),  # [B044] either, so both are looked up
        ("+5511955500123", "+5511955500123", ("+551155500123",)),
        ("+5521955500123", "+5521955500123", ()),  # outside São Paulo 5 is a landline's digit alone
        ("+5491123456789", "+5491123456789", ("+541123456789",)),
        ("+541123456789", "+541123456789", ("+5491123456789",)),
        ("+12025550143", "+12025550143", ()),
    ],
)
def test_a_line_with_two_spellings_is_known_by_both(raw, expected, others):
    assert e164(raw) == expected
    assert spellings(expected) == (expected, *others)
    assert all(same_line(other, expected, region="US") for other in others)


@pytest.mark.parametrize(
    ("text", "number", "region"),
    [
        ("+1 202-555-0143", "+12025550143", "US"),  # [B049]
        ("(202) 555-0143", "+12025550143", "US"),
        (" 2025550143 ", "+12025550143", "US"),
        ("+12025550143 ext. 227", "+12025550143", "US"),  # [B052]
        ("+12025550143*227", "+12025550143", "US"),  # [B053]
        ("020 7946 0018", "+442079460018", "GB"),
        ("+521 55 1234 5678", "+525512345678", "US"),
        ("+52 55 1234 5678", "+525512345678", "US"),
        ("+55 11 5550-0123", "+5511955500123", "US"),
    ],
)
def test_the_text_of_a_crm_is_recognised(text, number, region):
    assert same_line(text, number, region=region)


@pytest.mark.parametrize(
    ("text", "number"), [("(202) 555-0143", "+12025550143"), ("020 7946 0018", "+442079460018"), ("(555) 010-1234", "+15550101234")]
)
def test_without_a_region_national_text_is_read_in_the_caller_s_country(text, number):
    assert same_line(text, number, region=None)
    assert not same_line(text, number, region="FR")
    assert not same_line(text, "nonsense", region=None)
    assert not same_line(text, "+80012345678", region=None)  # a code that belongs to no country


@pytest.mark.parametrize("text", [None, "", "+12025550144", "anonymous", "020 7946 0018", "Jane Doe", "+551133330123"])
def test_another_line_is_not_recognised(text):
    assert not same_line(text, "+12025550143", region="US")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("+1 555 010 9999", "+15550109999"),
        (" sip:sales@example.com ", "sip:sales@example.com"),
        ("202", "202"),
        ("", None),
        ("  ", None),
        (None, None),
    ],
)
def test_the_dialled_number_is_e164_or_the_word(raw, expected):
    assert dialled(raw, "US") == expected


def test_own_lines_are_recognised_in_any_formatting():
    assert is_own(identify("+15550109999", region="US"), ("+15550108888", "(555) 010-9999"), region="US")
    assert not is_own(identify("+15550101234", region="US"), ("+15550109999",), region="US")
    assert not is_own(identify("anonymous", region="US"), ("anonymous",), region="US")


ALPHABET = st.characters() | st.sampled_from("+0123456789 ()-.;*#,x@:%<>\x00\ud83d")


@given(st.text(ALPHABET, max_size=200), st.sampled_from([None, "US", "IT", "DE", "BR", "MX", "XX"]), st.booleans())
def test_no_text_raises_and_every_answer_is_whole(raw, region, country_code_first):
    caller = identify(raw, region=region, country_code_first=country_code_first)
    assert (caller.kind is CallerKind.PSTN) == (caller.e164 is not None)
    assert caller.raw == raw
    dialled(raw, region)
    same_line(raw, "+12025550143", region=region)


@given(st.from_regex(r"\+[1-9][0-9]{6,13}", fullmatch=True))
def test_a_spelling_that_was_found_is_found_again(raw):
    found = e164(raw)
    if found is not None:
        assert e164(found) == found == canonical(found)
        assert found in {spelling for other in spellings(found) for spelling in spellings(other)}


def test_ten_thousand_characters_cost_nothing():
    assert identify("+1 202 " * 1500, region="US").kind is CallerKind.UNPARSED
