"""Who rings, as a number: from any text a phone system or a CRM shows to one spelling in E.164, or to the reason why there is none.

Pure and total: no text raises, and nothing is guessed. A number that can be read in two ways keeps its raw text and is no identity,
since a contact keyed by a guess is somebody else's contact.

The gate is "possible", not "valid" (phonenumbers): numbers set aside for tests and fiction, such as +1 555 010 xxxx, and number ranges
younger than the library have to pass.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

import phonenumbers

from bridge.call import Caller, CallerKind

_LONGEST = 128  # characters; the longest real spelling (a SIP address with parameters) is far below, and parsing stays cheap

# What phone systems put where a number would stand. Twilio: "anonymous, unknown, or other descriptions"
# (https://www.twilio.com/docs/voice/twiml#request-parameters); Bandwidth: Private, Restricted, Unavailable, Anonymous
# (https://dev.bandwidth.com/docs/voice/webhooks/answer/). -1 is what Android dialers show for a hidden number.
_WITHHELD_WORDS = frozenset({
    "-1", "anonymous", "anonymous caller", "blocked", "caller id blocked", "caller id withheld", "hidden", "id withheld", "no caller id",
    "not available", "number withheld", "out of area", "private", "private caller", "private number", "restricted", "unavailable",
    "unknown", "unknown caller", "unknown number", "withheld",
})  # fmt: skip
_NOTHING_WORDS = frozenset({"", "none", "null", "nil", "undefined"})  # what a template writes where it had no value

# The same words typed on a telephone's keypad, sent by carriers and by Twilio as if they were numbers
# (https://www.doorkeeper.jp/developer/blocking-phone-number-twilio). Two of them are possible numbers, so no library filters them.
_WITHHELD_ON_KEYPAD = frozenset({
    "266696687",  # ANONYMOUS
    "7378742833",  # RESTRICTED
    "2562533",  # BLOCKED
    "8656696",  # UNKNOWN
    "86282452253",  # UNAVAILABLE
})  # fmt: skip

_EXTENSION = re.compile(
    r"^(?P<base>.+?)[\s;,]*(?:;\s*ext=|\bextension\b|ext\b\.?|x|\*|#|,+|;)[\s:.]*(?P<extension>[0-9]{1,7})#?$", re.IGNORECASE
)
_NAME_AND_ADDRESS = re.compile(r"[^<>]*<([^<>]+)>[^<>]*")  # "Jane" <sip:+1…@host>
_NUMBER = re.compile(r"\+?[0-9 ()./\-]*[0-9][0-9 ()./\-]*")
_DECIMAL = re.compile(r"[0-9]{5,}\.[0-9]+")  # 2025550143.0: a number that went through a spreadsheet and may have lost digits
_SHORT = 5  # digits; what is dialled inside a house (201, 4711) reads as a number in countries with short ones
_LEAST = 7  # digits with country code; the shortest E.164 numbers in use (Niue, +683 xxxx)

# What systems without a number fill in: area codes do not begin with 0 or 1 in North America, and none is ten equal digits
# (https://www.nanpa.com/numbering/area-codes). Many callers share such a number, so it is nobody's.
_PLACEHOLDER = re.compile(r"\+1(?:[01][0-9]{9}|([2-9])\1{9})")

_MEXICO_WITH_1 = re.compile(r"\+521([0-9]{10})")
_BRAZIL_WITHOUT_9 = re.compile(r"\+55([1-9][0-9])([6-9][0-9]{7})")
# In São Paulo some mobiles began with 5 before the ninth digit came, as landlines there do: such a number may be either.
_BRAZIL_EITHER = re.compile(r"\+55(11)(5[0-9]{7})")
_BRAZIL_WITH_9 = re.compile(r"\+55([1-9][0-9])9([6-9][0-9]{7})|\+55(11)9(5[0-9]{7})")
_ARGENTINA = re.compile(r"\+54(9?)([1-3][0-9]{9})")


def identify(raw: str | None, *, region: str | None, country_code_first: bool = False) -> Caller:
    """Who a caller's id stands for. Never raises.

    `region` is the ISO 3166 code that national spellings are read in; None accepts international ones alone. Set
    `country_code_first` for providers whose numbers come with the country code and without plus (Plivo, Vonage): the plus is put
    back before anything is parsed.
    """
    raw = raw or ""
    word = _clean(raw)
    special = _special(word)
    if special is not None:
        return Caller(raw, special)
    if address := _NAME_AND_ADDRESS.fullmatch(word):
        word = address[1]
    scheme, _, rest = word.strip().partition(":")
    match scheme.casefold():
        case "client":
            return Caller(raw, CallerKind.CLIENT)
        case "sip" | "sips":
            return _from_sip(raw, rest, region)
        case "tel":
            return _from_text(raw, rest, None if ";phone-context=" in rest.casefold() else region, plus_first=False)
    return _from_text(raw, word, region, plus_first=country_code_first)


def dialled(raw: str | None, region: str | None, *, country_code_first: bool = False) -> str | None:
    """The dialled number: E.164 where it parses, else the provider's word without spaces around it; None where it is blank."""
    return identify(raw, region=region, country_code_first=country_code_first).e164 or (raw or "").strip() or None


def spellings(e164: str) -> tuple[str, ...]:
    """`e164` in its one canonical spelling, then the others under which a CRM may hold the same line.

    Mexico with and without the 1 (dropped in 2019), Brazil's mobiles with and without the ninth digit, Argentina's numbers with and
    without the 9 for mobiles (https://github.com/google/libphonenumber/issues/684). Landlines stay themselves.
    """
    own = canonical(e164)
    others: list[str] = []
    if own.startswith("+52") and len(own) == 13:
        others.append(f"+521{own[3:]}")
    if match := _BRAZIL_WITH_9.fullmatch(own):
        others.append("+55" + "".join(part for part in match.groups() if part))
    if match := _BRAZIL_EITHER.fullmatch(own):
        others.append(f"+55{match[1]}9{match[2]}")
    if match := _ARGENTINA.fullmatch(own):
        others.append(f"+54{'' if match[1] else '9'}{match[2]}")
    return (own, *others)


def canonical(e164: str) -> str:
    """The one spelling that claims are keyed by: Mexico without the 1, Brazil's mobiles with their ninth digit."""
    if match := _MEXICO_WITH_1.fullmatch(e164):
        return f"+52{match[1]}"
    if match := _BRAZIL_WITHOUT_9.fullmatch(e164):
        return f"+55{match[1]}9{match[2]}"
    return e164


def same_line(text: str | None, e164: str, *, region: str | None) -> bool:
    """Whether `text`, as a CRM shows it (any formatting, an extension, another spelling), is the line `e164`. Never raises.

    National spellings are read in `region`; None reads them in the country of `e164` itself, which is right for contacts that the CRM
    has already found by that number.
    """
    held = identify((text or "").strip(), region=region or _region_of(e164)).e164
    return held is not None and held in spellings(e164)


def is_extension(text: str | None) -> bool:
    """Whether a text is a number as it is dialled inside a house: 201, 4711."""
    return re.fullmatch(rf"\s*[0-9]{{1,{_SHORT}}}\s*", text or "") is not None


def is_own(caller: Caller, own_numbers: Iterable[str], *, region: str | None) -> bool:
    """Whether a caller is one of the business's own lines (OWN_NUMBERS): a call without a direction is then one that it placed."""
    return caller.e164 is not None and any(same_line(own, caller.e164, region=region) for own in own_numbers)


def _clean(raw: str) -> str:
    """Plain digits, dashes and spaces, without control, formatting and surrogate characters; cut far above any real length."""
    text = unicodedata.normalize("NFKC", raw[: 2 * _LONGEST])
    return "".join(plain for char in text if (plain := _plain(char)))


def _plain(char: str) -> str:
    if char.isspace():
        return " "
    category = unicodedata.category(char)
    return "-" if category == "Pd" else "" if category.startswith("C") else char


def _special(word: str) -> CallerKind | None:
    text = " ".join(word.casefold().split())
    if text in _NOTHING_WORDS:
        return CallerKind.EMPTY
    if text in _WITHHELD_WORDS or text.removeprefix("+") in _WITHHELD_ON_KEYPAD:
        return CallerKind.WITHHELD
    return None


def _from_sip(raw: str, address: str, region: str | None) -> Caller:
    """A SIP user part is any name. It is a number only with a plus, or as a full international number marked `user=phone` (RFC 3261)."""
    user, _, host = address.rpartition("@")
    user = unquote(re.split("[:;]", user)[0])
    if _special(user) is not None:
        return Caller(raw, CallerKind.WITHHELD)  # sip:anonymous@anonymous.invalid (RFC 3323), sip:@host
    if user.startswith("+"):
        found = _from_text(raw, user, None, plus_first=False)
        return found if found.e164 else Caller(raw, CallerKind.SIP)
    parameters = host.casefold().split(";")[1:]
    e164 = _international(user) if "user=phone" in parameters and re.fullmatch(r"[1-9][0-9]{7,14}", user) else None
    return _pstn(raw, e164) if e164 and _is_valid(e164) and _parse(user, region) in {None, e164} else Caller(raw, CallerKind.SIP)


def _from_text(raw: str, word: str, region: str | None, *, plus_first: bool) -> Caller:
    base, extension = _split_extension(word) if len(word) <= _LONGEST else ("", None)
    if not _NUMBER.fullmatch(base.strip()) or _DECIMAL.fullmatch(base.strip()):
        return Caller(raw, CallerKind.UNPARSED)
    if re.fullmatch(r" [1-9][0-9]+", base):
        e164 = _after_space(base.strip(), region)
    else:
        e164 = _number(base.strip(), region, plus_first=plus_first)
    return _pstn(raw, e164, extension) if e164 else Caller(raw, CallerKind.UNPARSED)


def _pstn(raw: str, e164: str, extension: str | None = None) -> Caller:
    return Caller(raw, CallerKind.PSTN, e164, extension)


def _split_extension(word: str) -> tuple[str, str | None]:
    match = _EXTENSION.fullmatch(word.rstrip())
    return (match["base"], match["extension"]) if match else (word, None)


def _number(text: str, region: str | None, *, plus_first: bool) -> str | None:
    digits = re.sub("[^0-9]", "", text)
    if text.startswith("+"):
        return _international(text)
    if plus_first and not digits.startswith("0"):
        return _international(digits)
    if len(digits) <= _SHORT and not digits.startswith("0"):
        return None
    national = _parse(text, region)
    if national is None and digits.startswith("00"):
        return _international(digits[2:])
    return None if digits.startswith("0") and national is None else _unambiguous(digits, national, region)


def _unambiguous(digits: str, national: str | None, region: str | None) -> str | None:
    """The national reading, unless the same digits are as good a number with their country code in front.

    '3906123456' in Italy may be 390 612 3456 or +39 06 123456: both are possible, so it is neither.
    """
    if region is None or digits.startswith("0"):
        return national
    international = _international(digits)
    has_own_code = digits.startswith(str(phonenumbers.country_code_for_region(region)))
    if national is None:
        return international if has_own_code else None
    if international is None or international == national:
        return national
    doubtful = has_own_code or (_is_valid(international) and not _is_valid(national))
    return None if doubtful else national


def _after_space(digits: str, region: str | None) -> str | None:
    """' 12025550143': a plus that was sent without being escaped arrives as a space. Put back, unless a national reading is as good."""
    international, national = _international(digits), _parse(digits, region) if len(digits) > _SHORT else None
    if international is None:
        return national
    return international if national in {None, international} or not _is_valid(national) else None


def _international(text: str) -> str | None:
    return _parse("+" + text.removeprefix("+").lstrip(), None)


def _parse(text: str, region: str | None) -> str | None:
    """The canonical E.164 spelling of a possible full number; None for anything else, a local number without area code included."""
    try:
        e164 = canonical(_format(phonenumbers.parse(text, region)))
        number = phonenumbers.parse(e164)
    except phonenumbers.NumberParseException:
        return None
    is_possible = phonenumbers.is_possible_number_with_reason(number) == phonenumbers.ValidationResult.IS_POSSIBLE
    is_settled = _format(number) == e164  # read again it would be another number: two trunk zeros, and the like
    is_somebodys = len(e164) > _LEAST and not _PLACEHOLDER.fullmatch(e164)
    return e164 if is_possible and is_settled and is_somebodys else None


def _format(number: phonenumbers.PhoneNumber) -> str:
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _region_of(e164: str) -> str | None:
    try:
        region = phonenumbers.region_code_for_country_code(phonenumbers.parse(e164).country_code or 0)
    except phonenumbers.NumberParseException:
        return None
    return region if region in phonenumbers.SUPPORTED_REGIONS else None


def _is_valid(e164: str) -> bool:
    return phonenumbers.is_valid_number(phonenumbers.parse(e164))
