"""Alerts: Sentry, told of what is final and of nothing else, masked, grouped by cause.

The rule: **one terminal failure, one event.**

* A job that raises is reported by the SDK's RQ integration, which patches `BaseWorker.perform_job` and `handle_exception` and flushes in
  the forked work horse before `os._exit` (sentry-sdk 2.75.0, integrations/rq.py; tried with rq 3.0.0). So a job never reports itself:
  it raises. An attempt that will be tried again returns, and makes no event.
* A failure that no job raises (a killed work horse, an entry that the sweeper parks) is reported by `report`.
* A route that raises is reported by the Flask integration.
* What is logged as an error, and raised by nobody, is an event too: a fault that somebody caught would be seen in the log alone. So ERROR
  is for what a person should hear of; what the next try or the sweeper mends is a WARNING. Of RQ's worker only its own faults are heard:
  its line about a job that raised has been told, and a Redis that is away it waits out (`_is_of_no_interest`; the SDK's RQ integration
  would leave out both and those). One exception is told once, however often it is logged (the SDK's DedupeIntegration).

A storm of one cause is one issue with few events: `StormGuard` (bridge/watch/guard.py) decides which of them leave, and the next one tells
how many did not. Broken promises are told here too (`tell`), past the guard, since bridge/watch/standing.py lets few of them leave. A
monitor that hears nothing from the sweeper (`check_in`) is how a dead bridge is noticed.

Other log lines are breadcrumbs. `outgoing` is the one place through which all events leave; what Sentry shall not hear is decided there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import redis
import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations.argv import ArgvIntegration
from sentry_sdk.integrations.flask import FlaskIntegration
from sentry_sdk.integrations.logging import LoggingIntegration, unignore_logger
from sentry_sdk.integrations.rq import RqIntegration
from sentry_sdk.types import Breadcrumb, BreadcrumbHint, Event, Hint

from bridge.errors import StepFailed
from bridge.settings import Settings
from bridge.watch.delivery import AwaitedTransport, awaited, is_awaited
from bridge.watch.guard import PASSES, Admit, StormGuard, Verdict
from bridge.watch.logs import fact, said_by
from bridge.watch.masking import mask, mask_value
from bridge.watch.quoted import mask_quotes, unquoted

log = logging.getLogger(__name__)

# What an event may hold, by what becomes of it (https://develop.sentry.dev/sdk/data-model/event-payloads/). Anything else is left
# out: a field that a later SDK adds has to be looked at before it leaves.
_AS_IT_IS = frozenset(
    {
        "event_id",
        "timestamp",
        "level",
        "platform",
        "logger",
        "server_name",
        "release",
        "dist",
        "environment",
        "sdk",
        "modules",
        "transaction_info",
        "fingerprint",
        "type",
    }
)
_MASKED = frozenset({"message", "tags", "transaction"})
_OF_CONTEXTS = frozenset({"trace", "runtime", "os", "device"})
_OF_TRACE = frozenset({"trace_id", "span_id", "parent_span_id", "op", "status", "type"})
_OF_CRUMB = frozenset({"type", "category", "level", "message", "timestamp"})
_OF_REQUEST = frozenset({"url", "method"})
_OF_JOB = frozenset({"job_id", "func", "enqueued_at", "started_at"})
_OF_PROMISE = frozenset({"more", "link"})  # what `tell` says besides its sentence
_OF_LINE = frozenset({"message", "formatted"})
_OF_OUR_LINE = frozenset({"call_key", "provider", "attempt", "facts"})  # fields of a log line that are this project's own
_GROUP = "callbridge"
_RQ = "rq.worker"
# A word with a digit in it. The look-behind makes each run of such characters be tried once.
_VARIES = re.compile(r"(?<![\w.:-])[\w.:-]*\d[\w.:-]*")
CHECK_IN_EVERY_S = 60.0
_SILENT_FOR_MIN = 2  # minutes beyond that minute after which Sentry says that a check-in is missing


def _admit_all(fingerprint: str) -> Verdict:
    del fingerprint
    return PASSES


def configure(
    dsn: str | None, *, owner: str, release: str | None = None, environment: str = "production", admit: Admit = _admit_all
) -> bool:
    """Start the SDK for this process and whatever it forks. Says whether Sentry is told. `admit` is asked about each event's cause.

    A second call changes nothing: it would throw away the first client with the events that it has not sent yet.
    Raises sentry_sdk.utils.BadDsn; settings.py has refused such a SENTRY_DSN before.
    """
    if sentry_sdk.get_client().is_active():
        fact(log, "Sentry is set up already, the first set-up stays")
        return True
    if not dsn:
        fact(log, "Sentry is told nothing: SENTRY_DSN is not set")
        return False
    sentry_sdk.init(
        dsn=dsn,
        release=release,
        environment=environment,
        # Only what is named: others would add Redis commands and command lines, which hold personal data.
        auto_enabling_integrations=False,
        disabled_integrations=[ArgvIntegration()],
        integrations=[FlaskIntegration(transaction_style="url"), RqIntegration(), LoggingIntegration(event_level=logging.ERROR)],
        before_send=partial(outgoing, admit),
        before_breadcrumb=_as_the_log_says,
        transport=AwaitedTransport,
        send_default_pii=False,
        max_request_body_size="never",
        include_local_variables=False,
        traces_sample_rate=0,  # with tracing each job would wait for its flush
        trace_propagation_targets=[],  # no headers of ours in requests to the CRM
        auto_session_tracking=False,
    )
    unignore_logger(_RQ)
    sentry_sdk.get_global_scope().set_tag("owner", owner)
    fact(log, "Sentry is told of failures", owner=owner, environment=environment)
    return True


def configure_by(settings: Settings, *, release: str | None) -> bool:
    """`configure` as the settings say, with the storm guard."""
    dsn = settings.sentry_dsn.get_secret_value() if settings.sentry_dsn else None
    guard = StormGuard(settings.redis_url.get_secret_value())
    return configure(dsn, owner=settings.bridge_owner, release=release, admit=guard.admit)


def bind(*, call_key: str | None = None, owner: str | None = None, step: str | None = None, state: str | None = None) -> None:
    """Tag what is reported from here on, until the current job or request ends."""
    _tag(sentry_sdk.get_current_scope(), call_key=call_key, owner=owner, step=step, state=state)


def report(
    error: BaseException | str,
    *,
    call_key: str,
    owner: str,
    cause: str,
    step: str | None = None,
    state: str = "needs attention",
) -> None:
    """Send exactly one event for a terminal failure that no job raises. `error` is the exception, or a sentence where there is none.

    Does not wait for Sentry and never raises. Before a process ends by `os._exit`, call `flush`.
    """
    with sentry_sdk.new_scope() as scope:
        scope.fingerprint = [_GROUP, cause]
        _tag(scope, call_key=call_key, owner=owner, cause=cause, step=step, state=state)
        if isinstance(error, BaseException):
            sentry_sdk.capture_exception(error)
        else:
            sentry_sdk.capture_message(error, level="error")


def flush(timeout_s: float = 2) -> None:
    """Wait until what was reported is sent, for at most `timeout_s` seconds."""
    sentry_sdk.flush(timeout=timeout_s)


def tell(say: str, *, process: str, owner: str, cause: str, is_over: bool, more: str, link: str) -> None:
    """One event about a promise of a process: that it is broken, or that it holds again. All of a cause are one issue.

    Returns when Sentry has it. Raises OSError where it has not.
    """
    with awaited(), sentry_sdk.new_scope() as scope:
        scope.fingerprint = [_GROUP, process, cause]
        _tag(scope, owner=owner, process=process, cause=cause, alert="closed" if is_over else "open")
        scope.set_extra("more", more)
        scope.set_extra("link", link)
        sentry_sdk.capture_message(say, level="info" if is_over else "error")


def check_in(monitor: str) -> None:
    """Tell Sentry that whoever calls this is alive; it makes an issue where it hears nothing. The monitor makes itself.

    https://docs.sentry.io/platforms/python/crons/ and, for the fields, https://develop.sentry.dev/sdk/telemetry/check-ins/
    """
    capture_checkin(
        monitor_slug=monitor,
        status="ok",
        monitor_config={
            "schedule": {"type": "interval", "value": 1, "unit": "minute"},
            "checkin_margin": _SILENT_FOR_MIN,
            "failure_issue_threshold": 1,
            "recovery_threshold": 1,
        },
    )


def outgoing(admit: Admit, event: Event, hint: Hint) -> Event | None:
    """The SDK's `before_send`: the event without personal data, or None where enough of its cause have left already."""
    if _is_of_no_interest(hint):
        return None
    clean = scrub(event, hint)
    if clean.get("type") or is_awaited():
        return clean
    verdict = admit(_cause_of(clean))
    if verdict.withheld:
        clean["extra"] = {**clean.get("extra", {}), "also_happened": verdict.withheld}
    return clean if verdict.passes else None


def _is_of_no_interest(hint: Hint) -> bool:
    """Of RQ's worker: its line about a job that raised, which has been told, and that Redis is away, which it waits out (rq 3.0.0)."""
    record = hint.get("log_record")
    if record is None or record.name != _RQ:
        return False
    error = record.exc_info[1] if record.exc_info else None
    return error is None or isinstance(error, redis.ConnectionError | redis.TimeoutError)


def _cause_of(event: Event) -> str:
    """What Sentry would group by, in short: our fingerprint, or the exception and where it was raised, or the message as it is written.

    Somebody else's message may name another call or number each time; to Sentry they are one issue
    (https://docs.sentry.io/concepts/data-management/event-grouping/), and each would pass here for the first of its kind.
    """
    if fingerprint := event.get("fingerprint"):
        return " ".join(fingerprint)
    values = cast("dict[str, Any]", event).get("exception", {}).get("values") or [{}]
    raised = (values[-1].get("stacktrace", {}).get("frames") or [{}])[-1]
    line = cast("dict[str, Any]", event).get("logentry") or {}
    said = "" if values[-1] else _VARIES.sub("#", str(event.get("message") or line.get("message") or ""))
    parts = (values[-1].get("type"), raised.get("module"), raised.get("function"), event.get("logger"), said)
    return " ".join(str(part) for part in parts)


def scrub(event: Event, hint: Hint) -> Event:
    """An event without personal data, grouped by cause. Check-ins and other shapes pass as they are."""
    if event.get("type"):
        return event
    try:
        return cast("Event", _scrubbed(cast("dict[str, Any]", event), hint))
    except Exception as error:  # noqa: BLE001 - the SDK drops an event whose before_send raises, and a bare alert beats none
        message = f"An event could not be masked and is left out ({type(error).__name__}). Look at the log of this time."
        return {"event_id": event.get("event_id", ""), "level": "error", "message": message}


def _scrubbed(event: dict[str, Any], hint: Hint) -> dict[str, Any]:
    clean = {name: value for name, value in event.items() if name in _AS_IT_IS}
    clean |= {name: mask_value(value) for name, value in event.items() if name in _MASKED}
    if "owner" in (event.get("tags") or {}):
        clean["tags"]["owner"] = event["tags"]["owner"]  # BRIDGE_OWNER as it is: a setting, and no caller's datum
    if "logentry" in event:
        clean["logentry"] = _only(_line(event["logentry"], hint), _OF_LINE)
    if "exception" in event:
        clean["exception"] = {"values": [_exception(item) for item in event["exception"].get("values", [])]}
    if "breadcrumbs" in event:
        clean["breadcrumbs"] = {"values": [_crumb(crumb) for crumb in event["breadcrumbs"].get("values", [])]}
    if "request" in event:
        clean["request"] = _only(event["request"], _OF_REQUEST)
    clean["contexts"] = {name: _context(name, value) for name, value in event.get("contexts", {}).items() if name in _OF_CONTEXTS}
    extra = event.get("extra", {})
    record = hint.get("log_record")  # the SDK has made text of what stands in `extra`, exceptions too
    clean["extra"] = _only(dict(vars(record)) if record else extra, _OF_OUR_LINE if "logentry" in event else _OF_PROMISE)
    if "link" in clean["extra"]:
        clean["extra"]["link"] = extra["link"]  # of PUBLIC_URL, and no caller's datum: masked it may lead nowhere
    if extra.get("rq-job"):
        clean["extra"]["rq-job"] = _only(extra["rq-job"], _OF_JOB)
    failure = _step_failure(hint)
    return _by_cause(clean, failure) if failure else clean


def _exception(item: dict[str, Any]) -> dict[str, Any]:
    frames = item.get("stacktrace", {}).get("frames", [])
    bare = [{name: value for name, value in frame.items() if name != "vars"} for frame in frames]
    kept = {name: item[name] for name in ("type", "module", "thread_id") if name in item}
    mechanism = _only(item.get("mechanism") or {}, frozenset({"type", "handled", "exception_id", "parent_id"}))
    module = item.get("module")
    kind = f"{module}.{item.get('type')}" if module and module != "builtins" else str(item.get("type"))
    return kept | {"value": mask(mask_quotes(kind, str(item.get("value") or ""))), "mechanism": mechanism, "stacktrace": {"frames": bare}}


def _line(entry: dict[str, Any], hint: Hint) -> dict[str, Any]:
    """A log line as the log itself has it: what an exception among its arguments quotes is left out while it still is an exception."""
    record = hint.get("log_record")
    return entry if record is None else {"message": str(unquoted(record.msg)), "formatted": said_by(record)}


def _as_the_log_says(crumb: Breadcrumb, hint: BreadcrumbHint) -> Breadcrumb | None:
    """The SDK's `before_breadcrumb`. RQ's lines say what a job was called with."""
    record = hint.get("log_record")
    if record is not None:
        if record.name == _RQ:
            return None
        crumb["message"] = said_by(record)
        crumb["data"] = {"facts": mask_value(vars(record).get("facts") or {})}
    return crumb


def _crumb(crumb: dict[str, Any]) -> dict[str, Any]:
    """Without the data of others than log lines, such as requests."""
    facts = (crumb.get("data") or {}).get("facts")
    return _only(crumb, _OF_CRUMB) | ({"data": mask_value(facts)} if facts else {})


def _context(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in value if key in _OF_TRACE} if name == "trace" else value


def _only(values: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value if name == "job_id" else mask_value(value) for name, value in values.items() if name in names}


def _by_cause(event: dict[str, Any], failure: StepFailed) -> dict[str, Any]:
    event["fingerprint"] = [_GROUP, failure.cause]
    event["tags"] = {**(event.get("tags") or {}), "cause": failure.cause}
    event["extra"] |= {"hint": mask(failure.hint)} if failure.hint else {}
    event["extra"] |= {"trace_id": failure.trace_id} if failure.trace_id else {}
    return event


def _step_failure(hint: Hint) -> StepFailed | None:
    """The outermost failed step of the exception behind an event, also where something else was raised on top of it."""
    error = (hint.get("exc_info") or (None, None, None))[1]
    return next((link for link in _chain(error) if isinstance(link, StepFailed)), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _tag(scope: sentry_sdk.Scope, **tags: str | None) -> None:
    for name, value in tags.items():
        if value is not None:
            scope.set_tag(name, value)
