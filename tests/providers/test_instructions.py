"""What a caller hears: found faulty at start, or right."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bridge.errors import WrongSettings
from bridge.providers import instructions
from bridge.providers.plivo import FILE, NEXT_URL
from tests.providers.support import PUBLIC_URL, settings


def answers(**environment):
    return instructions.xml_answers(settings(PLIVO_AUTH_TOKEN="t", **environment), NEXT_URL, FILE, "Speak")


def test_without_settings_a_sentence_is_said():
    assert ET.fromstring(answers().first).find("Speak").text == instructions.SENTENCE


def test_a_redirect_leads_to_the_ivr_with_its_query_whole():
    url = "https://ivr.example.net/menu?a=1&b=%3C"
    redirect = ET.fromstring(answers(PLIVO_NEXT_URL=url).first).find("Redirect")
    assert (redirect.text, redirect.get("method")) == (url, "POST")


@pytest.mark.parametrize(
    "url", ["ivr.example.net", "ftp://ivr.example.net", "https://", "https://[", f"{PUBLIC_URL}/webhooks/plivo/answer"]
)
def test_a_redirect_to_nowhere_or_to_ourselves_is_an_error(url):
    with pytest.raises(WrongSettings, match="PLIVO_NEXT_URL"):
        answers(PLIVO_NEXT_URL=url)


def test_a_file_is_heard_once_and_the_menu_not_again_after_each_input(tmp_path):
    file = tmp_path / "menu.xml"
    file.write_bytes(b"<Response><GetInput/></Response>")
    found = answers(PLIVO_XML_FILE=str(file))
    assert found.to(None, {}) == file.read_bytes()
    assert b"<GetInput" not in found.to(None, {"Digits": ""})


@pytest.mark.parametrize("content", [None, b"", b"Hello", b"<Response>", b"<Speak>Hello</Speak>"])
def test_a_file_that_holds_no_instructions_is_an_error(tmp_path, content):
    file = tmp_path / "menu.xml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(WrongSettings, match="PLIVO_XML_FILE"):
        answers(PLIVO_XML_FILE=str(file))


def test_two_answers_at_once_are_an_error():
    with pytest.raises(WrongSettings, match="set one of them"):
        answers(PLIVO_NEXT_URL="https://ivr.example.net", PLIVO_XML_FILE="menu.xml")


def test_the_warning_names_both_settings_and_goes_with_one_of_them():
    (warning,) = instructions.without_ivr(settings(PLIVO_AUTH_TOKEN="t"), NEXT_URL, FILE, "callers")
    assert NEXT_URL.name in warning
    assert FILE.name in warning
    assert instructions.without_ivr(settings(PLIVO_AUTH_TOKEN="t", PLIVO_XML_FILE="x"), NEXT_URL, FILE, "callers") == ()
