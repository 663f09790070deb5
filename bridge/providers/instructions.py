"""What a caller hears while a phone system waits for XML or JSON: call instructions, made once at start, so that no caller finds a fault.

TwiML, TeXML, cXML and Plivo's XML share <Response> and <Redirect>; a sentence is <Say> in the first three and <Speak> in Plivo's.
https://www.twilio.com/docs/voice/twiml · https://developers.telnyx.com/docs/voice/programmable-voice/texml-translator · https://www.plivo.com/docs/voice/xml/redirect
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from bridge.errors import WrongSettings
from bridge.settings import Faults, ProviderSetting, Settings

SENTENCE = "Thank you for calling. We have noted your call and will get back to you soon."
# To whom a <Dial> rang, before the two are connected: nothing to hear lets them talk, a sentence for callers would puzzle an agent.
_NOTHING = b"<Response/>"


@dataclass(frozen=True, slots=True)
class Answers:
    """What callers hear: `first` when a call comes in, `further` when they have pressed, said or been through something."""

    first: bytes
    further: bytes
    public_url: str

    def to(self, next_url: str | None, entered: Mapping[str, str], *, is_leg: bool = False) -> bytes:
        """The answer to one request; `entered` is what came with it (Digits, SpeechResult, …).

        `next_url` is the `next` parameter of the webhook's own URL, which the signature covers: the IVR names there where its caller goes
        on, and gets what was entered in the query, since a <Redirect> would drop it.
        """
        if next_url and is_elsewhere(next_url, self.public_url):
            return redirect(with_query(next_url, entered))
        if is_leg:
            return _NOTHING
        return self.further if entered else self.first


def next_url_setting(name: str, language: str) -> ProviderSetting:
    return ProviderSetting(name, f"{language} URL of your IVR, where a call goes on once it is kept.", free=True)


def file_setting(name: str, language: str, instead_of: ProviderSetting) -> ProviderSetting:
    return ProviderSetting(name, f"File with the {language} that a call begins with, instead of {instead_of.name}.", free=True)


def say(verb: str) -> bytes:
    return f"<Response><{verb}>{SENTENCE}</{verb}></Response>".encode()


def redirect(url: str) -> bytes:
    return f'<Response><Redirect method="POST">{escape(url)}</Redirect></Response>'.encode()


def with_query(url: str, entered: Mapping[str, str]) -> str:
    """The URL with more in its query."""
    joint = "&" if urlsplit(url).query else "?"
    return url + (joint + urlencode(entered) if entered else "")


def xml_answers(settings: Settings, url: ProviderSetting, file: ProviderSetting, verb: str) -> Answers:
    """What callers hear in XML: a redirect to the IVR, the file's content (once, at first), or a short polite sentence.

    Raises WrongSettings as `chosen` does.
    """
    first = chosen(settings, url, file, redirect=redirect, is_usable=_is_response, default=say(verb))
    further = first if settings.value(url.name).strip() else say(verb)  # the menu again after each input would never end
    return Answers(first, further, settings.public_url)


def chosen(
    settings: Settings,
    url: ProviderSetting,
    file: ProviderSetting,
    *,
    redirect: Callable[[str], bytes],
    is_usable: Callable[[bytes], bool],
    default: bytes,
) -> bytes:
    """The first answer of a deployment.

    Raises WrongSettings where both settings are set, the URL leads back to this bridge, or the file cannot be used.
    """
    next_url, path = settings.value(url.name).strip(), settings.value(file.name).strip()
    faults, content = Faults(), default
    if next_url and path:
        faults.append(f"{url.name}, {file.name}: set one of them")
    if next_url and not is_elsewhere(next_url, settings.public_url):
        faults.append(f"{url.name}: the https URL of your IVR; a webhook of this bridge would redirect for ever")
    with faults:
        content = _content(Path(path), file.name, is_usable) if path else default
    faults.tell()
    return redirect(next_url) if next_url else content


def without_ivr(settings: Settings, url: ProviderSetting, file: ProviderSetting, whose: str) -> tuple[str, ...]:
    """The warning of an adapter whose callers hear a sentence and nothing more."""
    if any(settings.value(spec.name).strip() for spec in (url, file)):
        return ()
    return (f"{url.name} is not set, nor {file.name}: {whose} hear one sentence, no IVR.",)


def is_elsewhere(url: str, public_url: str) -> bool:
    """Whether a URL is one that calls can go on at: http(s), and no webhook of this bridge."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and is_whole and not url.casefold().startswith(f"{public_url}/webhooks/".casefold())


def _content(path: Path, name: str, is_usable: Callable[[bytes], bool]) -> bytes:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise WrongSettings([f"{name}: cannot be read ({type(error).__name__})"]) from None
    if not is_usable(content):
        raise WrongSettings([f"{name}: holds no call instructions; see the page of the phone system"])
    return content


def _is_response(content: bytes) -> bool:
    try:
        return ET.fromstring(content).tag == "Response"  # noqa: S314 - the operator's own file, read once at start
    except (ET.ParseError, ValueError):
        return False
