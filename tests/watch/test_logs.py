"""The log: one masked line for each fact, whoever writes it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
import urllib.request
import warnings
from pathlib import Path

import pytest
from rq.logutils import setup_loghandlers

from bridge.settings import LogFormat
from bridge.watch import logs

ROOT = Path(__file__).parents[2]
PHONE = "+12025550143"
log = logging.getLogger("test.watch.logs")


def _fail():
    raise RuntimeError(f"phone {PHONE} already taken")


@pytest.fixture
def stream():
    """A stream that all logging goes to; everything that `configure` changes is put back."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.excepthook, warnings.showwarning)
    loggers = {name: logging.getLogger(name) for name in ["rq.worker", "rq.job", "gunicorn.error", "urllib3", "test.watch.logs"]}
    state = {name: (logger.handlers[:], logger.level, logger.propagate) for name, logger in loggers.items()}
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:], root.level, sys.excepthook, warnings.showwarning = before
    for name, (handlers, level, propagate) in state.items():
        loggers[name].handlers[:], loggers[name].propagate = handlers, propagate
        loggers[name].setLevel(level)


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_fact_is_one_json_line_with_its_fields(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    logs.fact(log, "step done", step="note_call", took_s=0.21)
    [line] = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "test.watch.logs", "event": "step done", "step": "note_call", "took_s": 0.21}


def test_bound_fields_stand_on_each_line_inside_and_on_none_after(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    with logs.bound(call_key="twilio-CA1", attempt=1):
        with logs.bound(attempt=2):
            logging.getLogger("urllib3").info("foreign")
        log.info("outer")
    log.info("after")
    assert [(line.get("call_key"), line.get("attempt")) for line in lines(stream)] == [("twilio-CA1", 2), ("twilio-CA1", 1), (None, None)]


def test_bound_fields_end_with_an_exception(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    with pytest.raises(ValueError, match="x"), logs.bound(call_key="twilio-CA1"):
        raise ValueError("x")
    log.info("after")
    assert "call_key" not in lines(stream)[0]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_message_arguments_fields_and_traceback_are_masked(stream, log_format):
    logs.configure(log_format, "DEBUG", stream)
    try:
        _fail()
    except RuntimeError as error:
        log.exception("lead for %s: %s", PHONE, {"CallerName": "Ada Example"}, extra={"detail": [PHONE]}, stack_info=True)
        logs.fact(log, "failed", error=error, caller=PHONE, name="Ada Example")
    logging.getLogger("urllib3.connectionpool").info("GET /contacts?number=%%2B12025550143&token=abc")
    text = stream.getvalue()
    assert "2025550143" not in text
    assert "Ada Example" not in text
    assert "token=***" in text
    assert text.count("RuntimeError: phone +…43 already taken") == 2


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\x85", "\u2028", "\x0b", "\x1b[2K"])
def test_a_value_cannot_begin_a_line_of_its_own(stream, log_format, end):
    logs.configure(log_format, "INFO", stream)
    logs.fact(log, f"a{end}2026-11-29T00:00:00Z forged", status=f"b{end}forged", **{f"c{end}": 1})
    assert len(stream.getvalue().splitlines()) == 1
    assert end not in stream.getvalue().removesuffix("\n")


def test_lines_of_a_traceback_cannot_pass_for_a_fact(stream):
    logs.configure(LogFormat.HUMAN, "INFO", stream)
    logs.fact(log, "failed", error=ValueError("x\n2026-11-29T00:00:00Z INFO forged"))
    first, *rest = stream.getvalue().splitlines()
    assert " failed" in first
    assert rest
    assert all(line.startswith("    | ") for line in rest)


def test_the_human_line_quotes_what_would_not_read_back(stream):
    logs.configure(LogFormat.HUMAN, "INFO", stream)
    logs.fact(log, "step done", step="note_call", tags=["a", "b"], why="two words", none=None)
    assert stream.getvalue().rstrip().endswith('test.watch.logs: step done step=note_call tags=["a", "b"] why="two words" none=null')


def test_fields_cannot_replace_what_the_line_says_itself(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    logs.fact(log, "step done", time="never")
    [line] = lines(stream)
    assert line["time"].endswith("Z")
    assert line["time_"] == "never"


def test_a_record_that_cannot_be_formatted_leaks_nothing(stream, capsys):
    class Broken:
        def __repr__(self):
            raise RuntimeError(PHONE)

    logs.configure(LogFormat.JSON, "INFO", stream)
    [handler] = [one for one in logging.getLogger().handlers if isinstance(one, logs.OneStreamHandler)]
    for message, argument in [("three %d %d", PHONE), ("odd %d", Broken()), ("undecodable %s", "\udcff")]:
        handler.handle(logging.makeLogRecord({"msg": message, "args": (argument,)}))
    assert [line["event"] for line in lines(stream)] == [
        "three %d %d ('+…43',)",
        "a log line could not be made",
        "undecodable \udcff",
    ]
    assert "2025550143" not in stream.getvalue() + capsys.readouterr().err


def test_a_stream_that_fails_leaks_nothing(stream, capsys):
    logs.configure(LogFormat.JSON, "INFO", stream)
    stream.close()
    log.info("caller %s", PHONE)
    assert capsys.readouterr().err == "A log line could not be written: ValueError\n"


def test_configuring_twice_writes_each_line_once(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    logs.configure(LogFormat.JSON, "INFO", stream)
    log.info("once")
    assert len(lines(stream)) == 1


@pytest.mark.parametrize("rq_first", [True, False])
def test_rq_adds_no_handler_of_its_own(stream, rq_first):
    if rq_first:
        logging.getLogger("rq.worker").addHandler(logging.StreamHandler(stream))
        logging.getLogger("rq.worker").propagate = False
    logs.configure(LogFormat.JSON, "INFO", stream)
    setup_loghandlers("INFO", name="rq.worker")
    logging.getLogger("rq.worker").error("job %s raised", "x", extra={"arguments": ("Ada",), "kwargs": {}, "queue": "calls"})
    [line] = lines(stream)
    assert line["logger"] == "rq.worker"
    assert line["queue"] == "calls"
    assert "Ada" not in stream.getvalue()


def test_request_lines_of_urllib3_stay_out_even_at_debug(stream):
    logs.configure(LogFormat.JSON, "DEBUG", stream)
    logging.getLogger("urllib3.connectionpool").debug("GET /contacts?number=%%2B12025550143")
    log.debug("ours")
    assert [line["event"] for line in lines(stream)] == ["ours"]


def test_warnings_go_the_same_way(stream):
    logs.configure(LogFormat.JSON, "INFO", stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn(f"caller {PHONE}", stacklevel=1)
    assert "2025550143" not in stream.getvalue()
    assert lines(stream)[0]["logger"] == "py.warnings"


UNCAUGHT = f"""
import sys, threading
from bridge.settings import LogFormat
from bridge.watch import logs
def fail():
    raise RuntimeError("caller {PHONE}")
logs.configure(LogFormat.JSON, "INFO", sys.stdout)
thread = threading.Thread(target=fail, name="sweeper")
thread.start()
thread.join()
fail()
"""


def test_an_exception_that_ends_a_thread_or_the_process_is_masked():
    done = subprocess.run([sys.executable, "-c", UNCAUGHT], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    in_thread, in_process = (json.loads(line) for line in done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (1, "")
    assert (in_thread["event"], in_thread["thread"]) == ("a thread ends by an exception", "sweeper")
    assert in_process["event"] == "the process ends by an exception"
    assert in_thread["error"].endswith("RuntimeError: caller +…43")
    assert in_process["error"].endswith("RuntimeError: caller +…43")


APP = """
import logging
def app(environ, start_response):
    logging.getLogger("app").info("in the app for +12025550143")
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""

CONFIGURATION = """
from bridge.watch.logs import gunicorn_logging
bind = "127.0.0.1:0"
accesslog = "-"
logconfig_dict = gunicorn_logging("json", "INFO")
"""


def test_every_line_of_gunicorn_is_json_and_masked(tmp_path):
    (tmp_path / "wsgi_probe.py").write_text(APP)
    (tmp_path / "gunicorn.conf.py").write_text(CONFIGURATION)
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "--config",
        str(tmp_path / "gunicorn.conf.py"),
        "--pythonpath",
        f"{tmp_path},{ROOT}",
        "wsgi_probe:app",
    ]
    server = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    guard = threading.Timer(30, server.kill)
    guard.start()
    try:
        seen = [json.loads(server.stdout.readline())]
        while "Listening at" not in seen[-1]["event"]:
            seen.append(json.loads(server.stdout.readline()))
        port = seen[-1]["event"].split("127.0.0.1:")[1].split()[0]
        urllib.request.urlopen(f"http://127.0.0.1:{port}/x?From=%2B12025550143", timeout=10).close()
    finally:
        server.terminate()
        out, err = server.communicate(timeout=20)
        guard.cancel()
    seen += [json.loads(line) for line in out.splitlines()]
    assert {"gunicorn.error", "gunicorn.access", "app"} <= {line["logger"] for line in seen}
    assert "2025550143" not in out
    assert err == ""
