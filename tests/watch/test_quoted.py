"""What an exception quotes is left out unless it quotes the program; the rest of a log line or an alert stays."""

from __future__ import annotations

import json
import logging
import traceback

import pytest

from bridge.errors import Permanent
from bridge.watch import alerts, logs
from bridge.watch.quoted import mask_quotes, mask_traceback

NAME = "Ada Example"
QUOTES = f"{NAME}'\n\n\"{NAME}"  # both kinds of quotes, and lines


@pytest.mark.parametrize(
    ("kind", "text", "left"),
    [
        ("ValueError", f"invalid literal for int() with base 10: '{NAME}'", "invalid literal for int() with base 10: '***'"),
        ("KeyError", f"'{NAME}'", "'***'"),
        ("KeyError", '"Ada O\'Neill"', '"***"'),
        ("KeyError", r"'Ada \'the\' Example'", "'***'"),
        ("KeyError", "b'Ada'", "b'***'"),
        ("ValueError", f"'{NAME}", "'***"),
        ("UnicodeDecodeError", "'utf-8' codec can't decode byte 0xff", "'***' codec can't decode byte 0xff"),
        ("json.decoder.JSONDecodeError", "Expecting value: line 1 column 1 (char 0)", "Expecting value: line 1 column 1 (char 0)"),
        ("pydantic_core._pydantic_core.ValidationError", f"1 error\n  x [input_value='{NAME}', y]", "1 error\n  x [input_value='***', y]"),
        ("AttributeError", "'NoneType' object has no attribute 'e164'", "'NoneType' object has no attribute 'e164'"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'spool'", "[Errno 2] No such file or directory: 'spool'"),
        ("bridge.errors.Permanent", "GoHighLevel answered 401 to 'find contact'", "GoHighLevel answered 401 to 'find contact'"),
    ],
)
def test_what_is_quoted_is_left_out_unless_it_is_of_the_program(kind: str, text: str, left: str) -> None:
    assert mask_quotes(kind, text) == left


def raised() -> BaseException:
    """Three exceptions, one on top of the other; the first one's text has lines, and the frames show our own quotes."""
    try:
        try:
            try:
                int(QUOTES)
            except ValueError as first:
                raise KeyError(NAME) from first
        except KeyError:
            raise Permanent("no 'lead'", cause="bug")  # noqa: B904 - "during handling" is what is wanted
    except Permanent as last:
        return last


def assert_nothing_personal(text: str) -> None:
    assert "Ada" not in text.replace("bad 'Ada\\n\\nExample'", "")
    assert "Permanent: no 'lead'" in text


def test_every_exception_of_a_traceback_is_without_its_quotes() -> None:
    text = mask_traceback("job failed\n" + "".join(traceback.format_exception(raised())))
    assert_nothing_personal(text)
    assert "raise KeyError(NAME) from first" in text, "the program's own lines stay"
    assert text.count("Traceback (most recent call last):") == 3


def test_a_text_without_a_traceback_stays_as_it_is() -> None:
    assert mask_traceback("ValueError: 'Ada'\n\nnothing") == "ValueError: 'Ada'\n\nnothing"


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.HumanFormatter()])
def test_no_line_of_the_log_shows_what_an_exception_quotes(formatter: logging.Formatter) -> None:
    error = raised()
    as_fact = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), (type(error), error, error.__traceback__))
    as_rq_does = logging.LogRecord("rq.worker", logging.ERROR, "f", 1, "failed\n%s", ("".join(traceback.format_exception(error)),), None)
    for record in (as_fact, as_rq_does):
        assert_nothing_personal(formatter.format(record))


def test_no_alert_shows_what_an_exception_quotes() -> None:
    values = [
        {"type": "ValueError", "module": "builtins", "value": f"bad '{NAME}'"},
        {"type": "KeyError", "module": None, "value": f"'{NAME}'"},
        {"type": "Permanent", "module": "bridge.errors", "value": "no 'lead'"},
    ]
    clean = alerts.scrub({"event_id": "1", "exception": {"values": values}}, {})
    assert [value["value"] for value in clean["exception"]["values"]] == ["bad '***'", "'***'", "no 'lead'"]
    assert NAME not in json.dumps(clean)
