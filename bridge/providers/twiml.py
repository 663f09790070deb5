"""What a caller hears while Twilio waits: TwiML (https://www.twilio.com/docs/voice/twiml)."""

from __future__ import annotations

from bridge.providers import instructions
from bridge.settings import ProviderSetting, Settings

NEXT_URL = ProviderSetting(
    "TWILIO_NEXT_URL",
    "TwiML URL of your IVR: voice requests are answered with a <Redirect> to it, unless their own URL names a `next` one.",
    free=True,
)
FILE = instructions.file_setting("TWILIO_TWIML_FILE", "TwiML", NEXT_URL)


def of(settings: Settings) -> instructions.Answers:
    """The answers of this deployment: a redirect to the IVR, the file's content (once, at first), or a short polite sentence.

    Raises WrongSettings where both are set, the URL leads back to this bridge, or the file is no TwiML.
    """
    return instructions.xml_answers(settings, NEXT_URL, FILE, "Say")
