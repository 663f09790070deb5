"""What a caller hears while Twilio waits: call instructions, made once at start, so that no fault of theirs is found by a caller.

TwiML: https://www.twilio.com/docs/voice/twiml
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from bridge.errors import WrongSettings
from bridge.settings import ProviderSetting, Settings

NEXT_URL = ProviderSetting(
    "TWILIO_NEXT_URL",
    "TwiML URL of your IVR: voice requests are answered with a <Redirect> to it, unless their own URL names a `next` one.",
)
FILE = ProviderSetting("TWILIO_TWIML_FILE", "File with the TwiML that a call begins with, instead of TWILIO_NEXT_URL.")

_SAY = b"<Response><Say>Thank you for calling. We have noted your call and will get back to you soon.</Say></Response>"
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
        if next_url and _is_elsewhere(next_url, self.public_url):
            joint = "&" if urlsplit(next_url).query else "?"
            return _redirect(next_url + (joint + urlencode(entered) if entered else ""))
        if is_leg:
            return _NOTHING
        return self.further if entered else self.first


def of(settings: Settings) -> Answers:
    """The answers of this deployment: a redirect to the IVR, the file's content (once, at first), or a short polite sentence.

    Raises WrongSettings where both are set, the URL leads back to this bridge, or the file is no TwiML.
    """
    url, path = settings.value(NEXT_URL.name).strip(), settings.value(FILE.name).strip()
    if url and path:
        raise WrongSettings([f"{NEXT_URL.name}, {FILE.name}: set one of them"])
    if path:
        return Answers(_content(Path(path)), _SAY, settings.public_url)  # the menu again after each input would never end
    if not url:
        return Answers(_SAY, _SAY, settings.public_url)
    if not _is_elsewhere(url, settings.public_url):
        raise WrongSettings([f"{NEXT_URL.name}: the https URL of your IVR; a webhook of this bridge would redirect for ever"])
    return Answers(_redirect(url), _redirect(url), settings.public_url)


def _is_elsewhere(url: str, public_url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and not url.startswith(f"{public_url}/webhooks/")


def _redirect(url: str) -> bytes:
    return f'<Response><Redirect method="POST">{escape(url)}</Redirect></Response>'.encode()


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        root = ET.fromstring(content)  # noqa: S314 - the operator's own file, read once at start
    except (OSError, ValueError, ET.ParseError) as error:
        raise WrongSettings([f"{FILE.name}: cannot be read as XML ({type(error).__name__})"]) from None
    if root.tag != "Response":
        raise WrongSettings([f"{FILE.name}: its outer element has to be <Response>"])
    return content
