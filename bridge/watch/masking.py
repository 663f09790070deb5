"""Takes personal data and secrets out of text: the last thing that happens to a log line or an alert before it leaves the process.

Pure. Four passes, in this order: secrets that show by their own form, addresses with an `@`, values of sensitively named keys,
telephone numbers. Where a run of digits may or may not be a telephone number it is masked: ten digits alone are never taken for epoch
seconds, only a key such as `started_at` or a unit behind them says so. Masking a masked text changes nothing.

What no form betrays cannot be found: a person's name in the middle of a sentence passes. So errors never quote what the CRM or a
caller wrote.

Numbers: at most 15 digits, ITU-T E.164 (https://www.itu.int/rec/T-REC-E.164); visual separators, RFC 3966 section 5.1.1
(https://www.rfc-editor.org/rfc/rfc3966#section-5.1.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache

from bridge.watch import quoted
from bridge.watch.quoted import unquoted

HIDDEN = quoted.HIDDEN
_DEEPEST = 12  # levels of nested values; deeper ones are hidden whole
_CALL_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PASSES = 4  # what one pass hides can bring the next to light; two were the most that a million random texts took
_KEY_REACH = 64  # characters before a number in which its key is looked for


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- 1. secrets and addresses -------------------------------------------------------------------------------------------------

# The first letters stand in front, so that all other positions of a text fail at once: it halves the cost of a line.
_SECRETS = re.compile(
    r"""(?ix)
    \b(?=[bpwets])(?:
      (?P<scheme>(?:bearer|basic)\s{1,3}) (?: (?=\S{0,300}\d)[^\s"',]{6,} | [^\s"',]{16,} )
    | pit-[0-9a-z-]{6,}                   # GoHighLevel private integration token
    | whsec_[^\s"',&]+                    # Standard Webhooks signing secret
    | (?:(?<![\w-])eyJ[\w-]{8,}+ | eyJ[\w-]{8,400}+)\.[\w-]++(?:\.[\w-]*)?   # JSON Web Token; inside a run of such characters a short one
    | (?P<told>(?:token|secret|signature|password)\s{1,2}(?:is\s)?) [0-9a-f]{32,}\b
    )
    """
)
# A password may hold a slash, though it should not: as far as the last `@` before a space.
_USER_INFO = re.compile(r"(?<=://)(?:[^\s\"'<>?#&@:/]*+:(?!//)[^\s\"'<>?#&:]*|[^\s/\"'<>@]*)@")
_SIP_USER = re.compile(r"(?i)\b(sips?:)[^\s@/;<>\"']+@")
# The look-behind makes each run of address characters be tried once, from its start: without it a long run costs its square.
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]+\.[\w.%+-]*")

# --- 2. keys and their values -------------------------------------------------------------------------------------------------

_KEY = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]++)(?:(?P<quote>\\{0,3}["'])(?:\s{0,2}[:=]|,(?=\s?b?["']))|\s{0,2}(?P<sign>[:=])(?!=))\s{0,3}"""
)
_VALUE = re.compile(
    r"""(?x)
    (?P<open>b?(?P<quote>\\{1,3}["'])) (?P<escaped>.*?) (?=(?P=quote)|\Z)
    | (?P<double>b?") (?P<in_double>(?:[^"\\]|\\.)*+)
    | (?P<single>b?') (?P<in_single>(?:[^'\\]|\\.)*+)
    | (?P<bare>(?:[^\s&,;)}\]"'<>\[{\\]|\\[ux])+)
    """,
    re.DOTALL,
)
_TO_LINE_END = re.compile(r"""(?:[^\r\n"'\\]|\\[ux])+""")
_CLAUSE = re.compile(r"""(?:[^\r\n"'\\,;&|{}\[\]()]|\\[ux])+""")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SETTING = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_PLAIN = _words("None null true false True False")


class _Kind(Enum):
    OPEN = "open"
    SECRET = "secret"  # noqa: S105 - a word of ours, no password
    NAME = "name"
    NUMBER = "number"


_SECRET_WORDS = _words(
    "token secret password passwd pwd authorization signature cookie credential credentials apikey dsn digits "
    "speech transcription transcript"
)
_KEY_OWNERS = frozenset({"api", "access", "private", "auth"})
_NUMBER_WORDS = _words("caller called callee phone telephone mobile msisdn ani dnis dialled dialed recipient email mail raw fax")
_NAME_OWNERS = _words("caller called cid from first last full contact display profile lead customer person given family agent user")
_COUNTED = _words("sequence line attempt page build version retry track part serial")
# A last word that makes a sensitive name harmless: phone_number_id, TranscriptionStatus, caller_kind.
_ABOUT = _words("id ids sid status count length kind type event confidence at s ms seconds ttl timeout expires policy class")
# Names that their makers write without a break: callername, destinationnum.
_RUN_TOGETHER = re.compile(r"(?:caller|callee|customer|contact|destination|first|last|full|display)(?:id)?(?P<what>name|num|phone)")


@lru_cache(maxsize=4096)
def _kind(name: str) -> _Kind:
    """What a key of this name holds, in any spelling: `CallerName`, `caller_name`, `X-Twilio-Signature`."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or (words[-1] in _ABOUT and len(words) > 1 and words[-2:] != ["caller", "id"]):
        return _Kind.OPEN
    if not _SECRET_WORDS.isdisjoint(words) or (words[-1] == "key" and not _KEY_OWNERS.isdisjoint(words)):
        return _Kind.SECRET
    if together := _RUN_TOGETHER.search("".join(words)):
        return _Kind.NAME if together["what"] == "name" else _Kind.NUMBER
    if words[-1] == "cnam":  # as carriers call the caller's name
        return _Kind.NAME
    if words[-1] == "name" and (len(words) == 1 or not _NAME_OWNERS.isdisjoint(words)):
        return _Kind.NAME
    return _Kind.NUMBER if _names_a_number(name, words) else _Kind.OPEN


def _names_a_number(name: str, words: list[str]) -> bool:
    if words[-1] == "from":
        return True
    if words[0] in {"from", "to"}:
        return len(words) == 1 or words[-1] in {"number", "phone"} or "_" not in name
    if words[-1] in {"number", "numbers"}:
        return words[0] not in _COUNTED
    return not _NUMBER_WORDS.isdisjoint(words) or name.lower() == "e164"


def _mask_keys(text: str) -> str:
    parts: list[str] = []
    done = 0
    for key in _KEY.finditer(text):
        if key.start() < done or (kind := _kind(key["name"])) is _Kind.OPEN:
            continue
        start, end = _span_of_value(text, key, kind)
        if end > start:
            parts += text[done:start], _hide(text[start:end], kind)
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _span_of_value(text: str, key: re.Match[str], kind: _Kind) -> tuple[int, int]:
    """Where the value behind a key stands, without its quotes; an empty span where there is nothing to hide."""
    if key["sign"] == ":" and _SETTING.fullmatch(key["name"]):
        return 0, 0  # "GHL_TOKEN: is missing" tells what to mend
    if kind is _Kind.NUMBER and (number := _number_at(text, key.end())):
        return number.span()
    value = _VALUE.match(text, key.end())
    if value is None:
        return 0, 0
    if value["bare"] is None:
        inside = "escaped" if value["quote"] else "in_double" if value["double"] else "in_single"
        return value.span(inside)
    if key["sign"] == ":" and kind is not _Kind.NUMBER:
        whole = (_TO_LINE_END if kind is _Kind.SECRET else _CLAUSE).match(text, key.end())
        return (key.end(), key.end() + len(whole[0].rstrip())) if whole else value.span()
    return value.span()


def _number_at(text: str, start: int) -> re.Match[str] | None:
    """The number that begins there, spaces and all, masked already or not."""
    number = _NUMBER.match(text, start)
    return number if number and number["kept"] is None else _MASKED_NUMBER.match(text, start)


def _hide(value: str, kind: _Kind) -> str:
    if not value or value in _PLAIN or _MASKED_NUMBER.fullmatch(value):
        return value
    if kind is _Kind.NUMBER and (number := _NUMBER.fullmatch(value)) and number["kept"] is None:
        return _shortened(number)
    return HIDDEN


# --- 3. telephone numbers -----------------------------------------------------------------------------------------------------

# Not possessive, like the rest: Python before 3.11.5 matches a possessive group of alternatives wrongly.
# An opening bracket counts only around an area code: "port 37551 (1834)" is a port and a process.
_GAP = r"(?:[ \t).\-/+~\u00a0\u2009\u202f\u2010-\u2015]|\((?=\d{1,5}\)(?:[ .\-+]|%20){0,2}\d)|%2[089BDEFbdef]){0,4}"
# Also the plus as it stands in a form, in the JSON of .NET, and in a Python repr of bytes.
_PLUS = r"(?:\+|\uff0b|%2[Bb]|\\u002[Bb]|\\x2[Bb])"
# Names and values stand together without a sign in what Twilio and Plivo sign: …From12025550143To12025550199.
_START = r"(?:(?<![A-Za-z0-9…])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=From)|(?<=To))"
_TIME = r"[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\s?(?:Z|[+-]\d\d:?\d\d))?(?!\d)"
_NUMBER = re.compile(
    rf"""(?x)
    (?=[0-9A-Fa-f+(%\\\uff0b])(?:  # for speed alone: no other character starts any of these
      (?P<plus>{_PLUS}){_GAP}\d(?:{_GAP}\d){{6,}}+
    | {_START}(?:
        (?P<kept>
            [0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}(?![A-Za-z0-9])          # UUID
          | 1-[0-9a-f]{{8}}-[0-9a-f]{{24}}(?![A-Za-z0-9])                                        # X-Amzn-Trace-Id
          | (?:19|20)\d\d([-/])(?:0[1-9]|1[0-2])\3(?:0[1-9]|[12]\d|3[01])(?:{_TIME}|(?![-./]?\d))  # ISO 8601
          | (?:\d\d?/\d\d?/|\d\d?\.\d\d?\.)(?:19|20)\d\d(?![-./]?\d)                             # 11/29/2026, 29.11.2026
          | (?<="\ )[1-5]\d\d\ \d+(?![\d.+-])                                                   # status and bytes of an access log
        )
      | (?:\(|%28)?\d(?:{_GAP}\d){{6,}}+
    ))
    """
)
_MASKED_NUMBER = re.compile(r"\+?…\d\d(?!\d)")
_ENCODED = re.compile(r"%2[0-9A-Fa-f]|\\u002[Bb]|\\x2[Bb]")
_NOT_DIGIT = re.compile(r"\D+")
_KEY_BEFORE = re.compile(r"""(?P<name>[\w.-]+)\\{0,3}["']?\s{0,2}[:=]\s{0,2}\\{0,3}["']?\Z""")
_UNIT_BEHIND = re.compile(r"\s?(?:s|ms|us|µs|ns|sec|secs|seconds|minutes|days|bytes|B|kB|KB|MB|%)(?![A-Za-z0-9])")
_MEASURES = _words(
    "s ms us ns at ts time timestamp epoch exp iat nbf duration elapsed age took ttl since until size bytes length count port pid"
)
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!\Z)|\Z)){4}")
_GLUED = re.compile(r"(?!x\d|ext)[A-Za-z]")  # digits that go on in letters are the start of an id; an extension is none
_PAIRS = re.compile(r"\d\d(?:\.\d\d){3}")


def _mask_numbers(text: str) -> str:
    return _NUMBER.sub(_number, text)


def _number(match: re.Match[str]) -> str:
    if match["kept"] is not None or (not match["plus"] and _is_no_phone(match)):
        return match[0]
    return _shortened(match)


def _shortened(match: re.Match[str]) -> str:
    return ("+…" if match["plus"] else "…") + _digits(match[0])[-2:]


def _digits(text: str) -> str:
    return _NOT_DIGIT.sub("", _ENCODED.sub(" ", text))


def _is_no_phone(match: re.Match[str]) -> bool:
    """Whether digits without a plus are something else, by their form or by what stands around them."""
    text = match[0]
    if text.isdigit():
        return _is_id(match) or (_looks_measured(text) and _is_measure(match))
    if _IPV4.fullmatch(text):
        return not _PAIRS.fullmatch(text)  # 32.12.34.56 may as well be a Danish number
    whole, dot, fraction = text.partition(".")
    if dot and whole.isdigit() and fraction.isdigit():
        return whole == "0" or (_looks_measured(whole) and _is_measure(match))
    return len(_digits(text)) < 8 and " " in text  # "200 1234" is no number; "555-0143" is


def _is_id(match: re.Match[str]) -> bool:
    """Too short, too long, or the start of a token with letters in it."""
    size, dials_abroad = len(match[0]), match[0].startswith(("00", "011"))
    glued = _GLUED.match(match.string, match.end()) and not match.string.endswith(("From", "To"), 0, match.start())
    return size < 8 or size > (18 if dials_abroad else 15) or bool(glued)


def _looks_measured(whole: str) -> bool:
    """An amount below 10^9, or seconds or milliseconds since 1970 as they are between 2001 and 2033."""
    return len(whole) < 10 or (len(whole) in {10, 13} and whole.startswith("1"))


def _is_measure(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _KEY_REACH) : match.start()]
    key = _KEY_BEFORE.search(before)
    return bool(key and _is_measure_name(key["name"])) or bool(_UNIT_BEHIND.match(match.string, match.end()))


@lru_cache(maxsize=4096)
def _is_measure_name(name: str) -> bool:
    words = _WORD.findall(name)
    return bool(words) and words[-1].lower() in _MEASURES


# --- the two doors ------------------------------------------------------------------------------------------------------------


def mask(text: str) -> str:
    """`text` without telephone numbers, e-mail addresses, secrets and values of sensitively named keys.

    A number keeps its last two digits (`+…43`), all else becomes `***`. Call SIDs, UUIDs, ids, digests, dates and IP addresses stay.
    Linear in the length of the text. Never raises.
    """
    for _ in range(_PASSES):
        masked = _mask_once(text)
        if masked == text:
            break
        text = masked
    return text


def _mask_once(text: str) -> str:
    text = _SECRETS.sub(lambda found: (found["scheme"] or found["told"] or "") + HIDDEN, text)
    if "@" in text:
        text = _USER_INFO.sub(f"{HIDDEN}@", text)
        text = _SIP_USER.sub(rf"\1{HIDDEN}@", text)
        text = _EMAIL.sub(f"{HIDDEN}@{HIDDEN}", text)
    return _mask_numbers(_mask_keys(text))


def mask_value(value: object, key: str = "", *, _depth: int = 0) -> object:
    """`value` as plain data (None, bool, int, float, str, list, dict) with all text masked, and sensitively named keys masked whole.

    `key` is the name under which the value stands. Objects of other types become their masked text.
    """
    if value is None or isinstance(value, bool):
        return value
    if key and (kind := _kind(key)) is not _Kind.OPEN:
        return _hide(str(value), kind) if isinstance(value, str | int | float) else HIDDEN
    if _depth > _DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        return {mask(str(name)): mask_value(item, str(name), _depth=_depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return _mask_items(value, _depth)
    return _mask_scalar(value, key)


def _mask_items(items: Iterable[object], depth: int) -> list[object]:
    return [mask_value(item, _depth=depth + 1) for item in items]


def _mask_scalar(value: object, key: str) -> object:
    if isinstance(value, bytes | bytearray):
        return mask(value.decode("utf-8", "backslashreplace"))
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        text = str(value)
        masked = _behind_key(text, key)
        return value if masked == text else masked
    try:
        return _behind_key(str(unquoted(value)), key)
    except Exception as error:  # noqa: BLE001 - a foreign __str__ must not cost the log line
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _behind_key(text: str, key: str) -> str:
    """Mask `text` in the light of its key: `started_at` keeps its seconds, `call_key` stays whole, `owner` an address to write to."""
    if key == "call_key" and _CALL_KEY.fullmatch(text):
        return text
    if key == "owner":
        return _mask_numbers(text)
    prefix = f"{key}=" if key and _is_measure_name(key) else ""
    return mask(prefix + text)[len(prefix) :]
