"""What an exception quotes is left out unless it quotes the program; the rest of a log line or an alert stays."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

import pytest

from bridge.errors import Permanent
from bridge.sandbox.sentry import SentryServer
from bridge.watch import alerts, logs, quoted
from bridge.watch.quoted import mask_quotes, mask_traceback, traceback_of
from tests.rules.tree import ROOT
from tests.watch.quoting import NAME, SHAPES

QUOTES = f"{NAME}'\n\n\"{NAME}"  # both kinds of quotes, and lines


@pytest.mark.parametrize(
    ("kind", "text", "left"),
    [
        ("ValueError", f"invalid literal for int() with base 10: '{NAME}'", "invalid literal for int() with base 10: '***'"),
        ("KeyError", f"'{NAME}'", "'***'"),
        ("KeyError", '"Ada O\'Neill"', '"***"'),
        ("KeyError", r"'Ada \'the\' Example'", "'***'"),
        ("KeyError", "b'Ada'", "b'***'"),
        ("ValueError", "bad 'Ada O'Neill Example' and 'Eve.' here", "bad '***' and '***' here"),
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


def lines_of(error: BaseException, formatter: logging.Formatter) -> list[str]:
    """An exception by every way into the log."""
    text = "".join(traceback.format_exception(error))
    is_bare = "\n" not in text.strip()  # nothing betrays it in a sentence
    messages: list[tuple[object, tuple[object, ...]]] = [
        ("failed\n%s", ("" if is_bare else text,)),
        (f"failed: {'' if is_bare else text}", ()),
        ("failed: %s", (error,)),
        ("failed: %r %(", (error,)),
        ("failed: %s", ([error, 1],)),
        ("failed: %(why)s", ({"why": error},)),
        (error, ()),
    ]
    records = [logging.LogRecord("x", logging.ERROR, "f", 1, said, told, None) for said, told in messages]
    records.append(logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), (type(error), error, error.__traceback__)))
    records.append(logging.makeLogRecord({"msg": "failed", "facts": {"why": error, "all": [error]}, "because": error}))
    records.append(logging.makeLogRecord({"msg": "failed", "exc_text": text}))
    return [formatter.format(record) for record in records]


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.HumanFormatter()])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_no_way_into_the_log_shows_what_an_exception_of_any_shape_quotes(
    shape: Callable[[], BaseException], formatter: logging.Formatter
) -> None:
    for line in lines_of(shape(), formatter):
        assert "Ada" not in line
        assert "Example" not in line


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_traceback_has_the_frames_and_the_exceptions_of_the_standard_librarys(shape: Callable[[], BaseException]) -> None:
    error = shape()
    ours, theirs = traceback_of(error), "".join(traceback.format_exception(error))
    for word in ("  File ", "Error", "Traceback (most", "The above exception", "During handling", "a note", "in _"):
        assert ours.count(word) == theirs.count(word), word


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "group" not in shape.__name__], ids=lambda shape: shape.__name__)
def test_but_for_the_quotes_a_traceback_is_the_standard_librarys(
    shape: Callable[[], BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quoted, "mask_quotes", lambda _kind, text: text)
    error = shape()
    assert traceback_of(error) == "".join(traceback.format_exception(error)).rstrip("\n")


REPORTS = """
import logging, sys
from bridge.watch import alerts
from tests.watch.quoting import SHAPES
alerts.configure(sys.argv[1], owner="ops")
for number, shape in enumerate(SHAPES):
    error, log = shape(), logging.getLogger(f"probe.{number}")
    log.warning("a crumb: %s", error)
    log.error("failed: %s", error)
    log.error(error)
    log.error("failed", exc_info=error)
    log.error("failed", extra={"facts": {"why": error}})
    alerts.report(shape(), call_key="twilio-CA1", owner="ops", cause=f"probe.{number}")
alerts.flush()
"""


def test_no_alert_shows_what_an_exception_of_any_shape_quotes() -> None:
    with SentryServer() as sentry:
        subprocess.run([sys.executable, "-c", REPORTS, sentry.dsn], cwd=ROOT, check=True, timeout=60)
        sentry.wait_for(5 * len(SHAPES))
        for text in sentry.texts:
            assert "Ada" not in text
            assert "Example" not in text


@pytest.mark.parametrize(
    "piece",
    ["Traceback (most recent call last):\n", " Traceback (most recent call last):\n", "  | Traceback (most recent call last):\n", " \n",
     "X: 'a\n", "'", '"', "'\\", "a'b", "\n\nThe above exception was the direct cause\n", " +-", "| ", "  + Exception Group "],
)  # fmt: skip
def test_cost_grows_with_length_and_not_faster(piece: str) -> None:
    """Eight times the text may cost some eight times the time; quadratic matching would cost 64 times."""

    def cost(size: int) -> float:
        text = "Traceback (most recent call last):\n" + piece * (size // len(piece))
        return min(_seconds(text) for _ in range(4))

    assert cost(80_000) < 32 * cost(10_000) + 0.002


def _seconds(text: str) -> float:
    started = time.thread_time()
    mask_traceback(text)
    mask_quotes("ValueError", text)
    return time.thread_time() - started


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
