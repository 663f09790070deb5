"""The log: one line for each fact, masked in the formatter, so that nothing depends on the care of whoever writes a line.

    log = logging.getLogger(__name__)
    with bound(call_key=call.key, attempt=2):
        fact(log, "step done", step="note_call", took_s=0.21)

gives, as JSON:

    {"time": "2026-11-29T17:52:57.123Z", "level": "info", "logger": "handlers.run_call", "event": "step done",
     "call_key": "twilio-CA…", "attempt": 2, "step": "note_call", "took_s": 0.21}

Foreign loggers go the same way. RQ 3.0.0 adds its own handlers when a worker starts, unless the root logger has one
(rq/logutils.py, `setup_loghandlers`); gunicorn 27 adds its own whenever it is configured (gunicorn/glogging.py, `Logger.setup`), so its
`logconfig_dict` is `gunicorn_logging(...)`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from bridge.settings import LogFormat
from bridge.watch.masking import mask, mask_value
from bridge.watch.quoted import mask_traceback, traceback_of, unquoted

_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default={})  # noqa: B039 - never changed in place, only replaced
_FACTS = "facts"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _FACTS}
# What RQ hangs on its record of a failed job: the job's arguments, which tell nothing that the call key does not.
_LEFT_OUT = frozenset({"arguments", "kwargs"})
_RESERVED = frozenset({"time", "level", "logger", "event", "error", "stack"})
# At DEBUG these write request lines and bodies: masked too, but many lines for each call.
_CHATTY = ("urllib3", "requests", "sentry_sdk", "asyncio")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # everything that a terminal or str.splitlines takes for the end of a line
_NEEDS_QUOTES = re.compile(r"[\s=\"]|\A\Z")


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Put `fields` on every line written inside, foreign ones included. Nests; the inner value of a name wins."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def fact(logger: logging.Logger, event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: object) -> None:
    """Write one line. `event` is a short stable sentence without values in it, so that lines can be counted by it; values are `fields`."""
    logger.log(level, event, exc_info=error, extra={_FACTS: fields}, stacklevel=2)


class MaskingFormatter(logging.Formatter, ABC):
    """Makes one line of one record. Never raises: a failure in here would make `logging` print the unmasked record to stderr."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            return self.line(record)
        except Exception as error:  # noqa: BLE001 - see the class: a line without its content beats a leak
            return self.line(_unwritable(record, error))

    @abstractmethod
    def line(self, record: logging.LogRecord) -> str: ...


class JsonFormatter(MaskingFormatter):
    """One JSON object for each line; an exception's traceback stands in `error`, with its line ends escaped."""

    def line(self, record: logging.LogRecord) -> str:
        known: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _message(record),
        }
        text = json.dumps(known | _fields(record) | _traces(record), ensure_ascii=False)
        return _encodable(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


class HumanFormatter(MaskingFormatter):
    """`time LEVEL logger: event key=value …`; the lines of a traceback are indented behind a bar, so that none can pass for a fact."""

    def line(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{_flat(name)}={_plain(value)}" for name, value in _fields(record).items())
        first = f"{_time(record)} {record.levelname:<7} {record.name}: {_flat(_message(record))} {fields}".rstrip()
        traced = [f"    | {_flat(line)}" for text in _traces(record).values() for line in text.splitlines()]
        return _encodable("\n".join([first, *traced]))


def formatter(log_format: LogFormat | str = LogFormat.JSON) -> logging.Formatter:
    """The formatter of this name; also the factory that `gunicorn_logging` names."""
    return JsonFormatter() if LogFormat(log_format) is LogFormat.JSON else HumanFormatter()


class OneStreamHandler(logging.StreamHandler[TextIO]):
    """A stream handler whose own failure says nothing of the line that could not be written.

    That of the standard library prints message and arguments to stderr as they are.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        del record
        failure = sys.exc_info()[0]
        try:
            sys.stderr.write(f"A log line could not be written: {failure.__name__ if failure else 'unknown failure'}\n")
        except (OSError, ValueError):  # stderr is gone as well: nobody is left to tell
            return


def configure(log_format: LogFormat = LogFormat.JSON, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log line of this process, once and masked, to `stream` (default: stdout). Call it again to change one's mind.

    Handlers that libraries have hung on their own loggers are taken away, so that no line passes by the formatter. Warnings and
    exceptions that nothing catches go the same way.
    """
    handler = OneStreamHandler(stream or sys.stdout)
    handler.setFormatter(formatter(log_format))
    root = logging.getLogger()
    for old in [old for old in root.handlers if type(old) in {OneStreamHandler, logging.StreamHandler}]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in list(logging.root.manager.loggerDict):
        _release(logging.getLogger(name))
    for name in ("rq.worker", "rq.job"):
        logging.getLogger(name).setLevel(level)  # RQ sets INFO on import, whatever the root says
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    if threading.excepthook is threading.__excepthook__:  # a test runner's own stays
        threading.excepthook = _uncaught_in_thread


def gunicorn_logging(log_format: LogFormat | str = LogFormat.JSON, level: str = "INFO") -> dict[str, Any]:
    """The value of gunicorn's setting `logconfig_dict`, for its arbiter, its workers and its access log."""
    through_root: dict[str, Any] = {"handlers": [], "propagate": True, "level": level}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"masking": {"()": f"{__name__}.formatter", "log_format": str(LogFormat(log_format))}},
        "handlers": {"stdout": {"()": f"{__name__}.OneStreamHandler", "stream": "ext://sys.stdout", "formatter": "masking"}},
        "root": {"handlers": ["stdout"], "level": level},
        "loggers": {"gunicorn.error": through_root, "gunicorn.access": through_root},
    }


def _release(logger: logging.Logger) -> None:
    """Take a logger's own handlers away and let its records reach the root."""
    own = [handler for handler in logger.handlers if not isinstance(handler, logging.NullHandler)]
    for handler in own:
        logger.removeHandler(handler)
    if own or logger.name.startswith("gunicorn."):
        logger.propagate = True


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger(__name__).critical("the process ends by an exception", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = args.thread.name if args.thread else None
        fact(logging.getLogger(__name__), "a thread ends by an exception", level=logging.CRITICAL, error=args.exc_value, thread=name)


def _unwritable(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    facts = {"of": record.name, "because": type(error).__name__}
    return logging.makeLogRecord(
        {"name": __name__, "levelno": logging.ERROR, "levelname": "ERROR", "msg": "a log line could not be made", _FACTS: facts}
    )


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def said_by(record: logging.LogRecord) -> str:
    """The message of a record without what an exception in it quotes, be it an argument or a whole traceback; not masked yet."""
    arguments = _bare(record.args)
    try:
        text = str(unquoted(record.msg))
        text = text % arguments if arguments else text
    except Exception:  # noqa: BLE001 - arguments that do not fit are still worth reading
        text = f"{unquoted(record.msg)} {arguments!r}"
    return mask_traceback(_ANSI.sub("", text))  # RQ writes the traceback of a failed job into the message


def _bare(arguments: object) -> object:
    """`logging` takes one mapping, or a tuple."""
    if isinstance(arguments, Mapping):
        return {name: unquoted(value) for name, value in arguments.items()}
    return tuple(unquoted(value) for value in arguments) if isinstance(arguments, tuple) else arguments


def _message(record: logging.LogRecord) -> str:
    return mask(said_by(record))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Bound fields, then the record's own, masked; a name that the line needs itself gets an underscore."""
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in _LEFT_OUT}
    named = {**_bound.get(), **extra, **getattr(record, _FACTS, {})}
    return {f"{name}_" if name in _RESERVED else name: mask_value(value, name) for name, value in named.items()}


def _traces(record: logging.LogRecord) -> dict[str, str]:
    traces = {}
    if record.exc_info and record.exc_info[1] is not None:
        traces["error"] = mask(traceback_of(record.exc_info[1], record.exc_info[2]))
    elif record.exc_text:  # the record came from another process, its exception already made text
        traces["error"] = mask(mask_traceback(record.exc_text, is_one=True))
    if record.stack_info:
        traces["stack"] = mask(record.stack_info)
    return traces


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = json.dumps(text, ensure_ascii=False) if isinstance(value, str) and _NEEDS_QUOTES.search(text) else text
    return _flat(text)


def _flat(text: str) -> str:
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def _encodable(text: str) -> str:
    """Lone surrogates (from undecodable bytes) as escapes: no stream could take them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
