"""What a caller hears: found faulty at start, or right."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bridge.errors import WrongSettings
from bridge.providers import twiml
from tests.providers.support import PUBLIC_URL, TOKEN, settings


def heard(**environment):
    return twiml.of(settings(TWILIO_AUTH_TOKEN=TOKEN, **environment)).first


def test_without_settings_a_sentence_is_said():
    assert ET.fromstring(heard()).find("Say").text


def test_a_redirect_leads_to_the_ivr_with_its_query_whole():
    url = "https://ivr.example.net/menu?a=1&b=%3C"
    redirect = ET.fromstring(heard(TWILIO_NEXT_URL=url)).find("Redirect")
    assert (redirect.text, redirect.get("method")) == (url, "POST")


@pytest.mark.parametrize("url", ["ivr.example.net", "ftp://ivr.example.net", "https://", f"{PUBLIC_URL}/webhooks/twilio/voice"])
def test_a_redirect_to_nowhere_or_to_ourselves_is_an_error(url):
    with pytest.raises(WrongSettings, match="TWILIO_NEXT_URL"):
        heard(TWILIO_NEXT_URL=url)


def test_a_file_is_answered_as_it_stands(tmp_path):
    file = tmp_path / "menu.xml"
    file.write_bytes(b'<?xml version="1.0"?>\n<Response><Say>Hello</Say></Response>')
    assert heard(TWILIO_TWIML_FILE=str(file)) == file.read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"Hello", b"<Response>", b"<Say>Hello</Say>"])
def test_a_file_that_is_no_twiml_is_an_error(tmp_path, content):
    file = tmp_path / "menu.xml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(WrongSettings, match="TWILIO_TWIML_FILE"):
        heard(TWILIO_TWIML_FILE=str(file))


def test_two_answers_at_once_are_an_error():
    with pytest.raises(WrongSettings, match="set one of them"):
        heard(TWILIO_NEXT_URL="https://ivr.example.net", TWILIO_TWIML_FILE="menu.xml")


def test_a_menu_is_not_played_again_after_each_input(tmp_path):
    file = tmp_path / "menu.xml"
    file.write_bytes(b"<Response><Gather/></Response>")
    answers = twiml.of(settings(TWILIO_AUTH_TOKEN=TOKEN, TWILIO_TWIML_FILE=str(file)))
    assert answers.to(None, {}) == file.read_bytes()
    assert b"<Gather" not in answers.to(None, {"Digits": ""})


@pytest.mark.parametrize(
    ("next_url", "leads_to"),
    [
        ("https://ivr.example.net/after", "https://ivr.example.net/after?Digits=2&SpeechResult=a+b"),
        ("https://ivr.example.net/after?x=1", "https://ivr.example.net/after?x=1&Digits=2&SpeechResult=a+b"),
    ],
)
def test_the_next_step_gets_what_was_entered(next_url, leads_to):
    answers = twiml.of(settings(TWILIO_AUTH_TOKEN=TOKEN))
    assert ET.fromstring(answers.to(next_url, {"Digits": "2", "SpeechResult": "a b"})).find("Redirect").text == leads_to


@pytest.mark.parametrize("next_url", ["javascript:x", "//ivr.example.net", "https://[", "", f"{PUBLIC_URL}/webhooks/twilio/voice"])
def test_a_next_step_that_leads_nowhere_is_passed_over(next_url):
    answers = twiml.of(settings(TWILIO_AUTH_TOKEN=TOKEN))
    assert answers.to(next_url, {}) == answers.first
