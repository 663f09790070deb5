"""The page of faults: all stages on one page, a line for each, the setting's name in it, and nothing of a value."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge import environment
from bridge.providers import registry
from bridge.sandbox.processes import Process, free_port, tree
from bridge.sandbox.sentry import SentryServer
from bridge.settings import Settings
from tests.console.support import USERS
from tests.support.builders import ENVIRONMENT, make_settings
from tests.work.processes import await_true

ROOT = Path(__file__).parents[1]
ZERO_WIDTH, BYTE_ORDER_MARK = "\u200b", "\ufeff"
HASH = USERS.partition("\n")[0].rpartition(":viewer:")[2]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch):
    """The settings of a process with this environment alone."""

    def given(**values: str) -> Settings:
        monkeypatch.setattr(os, "environ", ENVIRONMENT | values)
        return environment.read()

    return given


@pytest.fixture
def page(read, capsys: pytest.CaptureFixture[str]):
    """The lines of faults, and all that was written."""

    def given(**values: str) -> tuple[list[str], str]:
        with pytest.raises(SystemExit) as ended:
            read(**values)
        assert ended.value.code == 3
        told = capsys.readouterr()
        assert told.out == ""
        return [line.removeprefix("  - ") for line in told.err.splitlines() if line.startswith("  - ")], told.err

    return given


# Each value holds `hush`, or nothing that could be a part of a secret.
WRONG = {
    # words for headers
    "a token with a line break in it": ("GHL_TOKEN", "pit-hush\nhush"),
    "a token with a space in it": ("GHL_TOKEN", "pit-hush hush"),
    "a token with a letter that no header takes": ("GHL_TOKEN", "pit-hüsh-hush"),
    "a token with an invisible character in it": ("GHL_TOKEN", f"pit-{ZERO_WIDTH}hush"),
    "a token in quotes": ("GHL_TOKEN", '"pit-hush"'),
    "a token in a word processor's quotes": ("GHL_TOKEN", "“pit-hush”"),
    "a token that is no UTF-8": ("GHL_TOKEN", "pit-hush\udcff"),
    "an API token with a space": ("API_TOKEN", "hush hush hush"),
    "an API token that is too short": ("API_TOKEN", "hush"),
    "a secret key in quotes": ("SECRET_KEY", "'hush-hush-hush'"),
    "a provider's token with a line break in it": ("TWILIO_AUTH_TOKEN", "hush\r\nhush"),
    "a provider's token in quotes": ("TWILIO_AUTH_TOKEN", "'hush'"),
    "a provider's secrets with an invisible character": ("PLIVO_AUTH_TOKEN", f"hush1 hu{ZERO_WIDTH}sh"),
    "a list's account that is no UTF-8": ("TWILIO_ACCOUNT_SID", "AC-hush\udcff"),
    "a list's key with a space": ("DIALPAD_API_KEY", "hush hush"),
    "a location that could leave its place in a URL": ("GHL_LOCATION_ID", "hush/../x?y"),
    "a contact that could leave its place in a URL": ("ANONYMOUS_CONTACT_ID", "hush b"),
    # URLs
    "a password with a slash": ("REDIS_URL", "redis://:hush/hush@host:6379/0"),
    "a password of digits with a slash": ("REDIS_URL", "redis://:6379/hush@host:6379/0"),
    "a password with a hash": ("REDIS_URL", "rediss://:hush#hush@host:6379/0"),
    "a password with a question mark": ("REDIS_URL", "redis://default:hush?db=hush@host:6379/0"),
    "a password with a bracket": ("REDIS_URL", "redis://:hush[hush@host:6379/0"),
    "a port of Redis that is none": ("REDIS_URL", "redis://:hush@host:hush/0"),
    "a database of Redis that is none": ("REDIS_URL", "redis://:hush@host:6379/hush"),
    "a database below 0": ("REDIS_URL", "redis://:hush@host:6379?db=-1"),
    "an option of redis-py with a wrong value": ("REDIS_URL", "redis://:hush@host/0?socket_timeout=hush"),
    "an option without an end": ("REDIS_URL", "redis://:hush@host/0?socket_timeout=inf"),
    "an option that redis-py does not know": ("REDIS_URL", "redis://:hush@host/0?hush=1"),
    "another scheme": ("REDIS_URL", "http://:hush@host"),
    "a Redis that is quoted": ("REDIS_URL", "'redis://:hush@host/0'"),
    "a socket without a path": ("REDIS_URL", "unix://"),
    "a DSN that is none": ("SENTRY_DSN", "hush"),
    "a DSN with a wrong port": ("SENTRY_DSN", "https://hush@o1.ingest.sentry.io:hush/1"),
    "a DSN with a port out of range": ("SENTRY_DSN", "https://hush@o1.ingest.sentry.io:99999/1"),
    "a DSN without a project": ("SENTRY_DSN", "https://hush@o1.ingest.sentry.io/hush"),
    "a DSN without a key": ("SENTRY_DSN", "https://o1.ingest.sentry.io/1"),
    "a DSN with a host that is none": ("SENTRY_DSN", "https://hush@@/1"),
    "a DSN with a bracket": ("SENTRY_DSN", "https://[hush"),
    "a space in the public URL": ("PUBLIC_URL", "https://hush example.com"),
    "a line break in the public URL": ("PUBLIC_URL", "https://hush\nexample.com"),
    "a public port out of range": ("PUBLIC_URL", "https://hush.example.com:99999"),
    "a public port that is none": ("PUBLIC_URL", "https://hush.example.com:hush"),
    "a public port of 0": ("PUBLIC_URL", "https://hush.example.com:0"),
    "a colon without a port": ("PUBLIC_URL", "https://hush.example.com:"),
    "a query": ("PUBLIC_URL", "https://hush.example.com/?hush"),
    "an empty query": ("PUBLIC_URL", "https://hush.example.com/?"),
    "a fragment": ("PUBLIC_URL", "https://hush.example.com/#hush"),
    "a user": ("PUBLIC_URL", "https://anna:hush@hush.example.com"),
    "an international name": ("PUBLIC_URL", "https://hüsh.example.com"),
    "an IPv6 address without its end": ("PUBLIC_URL", "http://[::1"),
    "a webhook's address": ("PUBLIC_URL", "https://hush.example.com/webhooks/twilio/voice"),
    "plain HTTP over the network": ("PUBLIC_URL", "http://hush.example.com"),
    "a CRM with a wrong port": ("GHL_BASE_URL", "https://hush.example.com:hush"),
    "base URLs that are no JSON": ("BACKFILL_BASE_URLS", "{hush"),
    "a base URL with a wrong port": ("BACKFILL_BASE_URLS", '{"twilio": "https://hush.example.com:hush"}'),
    "a webhook for alerts with a bracket": ("ALERT_WEBHOOK_URL", "https://[hush"),
    "a webhook for alerts with a wrong port": ("ALERT_WEBHOOK_URL", "https://hooks.example.com:hush/hush"),
    "a webhook for alerts with a space": ("ALERT_WEBHOOK_URL", "https://hooks.example.com/hush hush"),
    "a mail server's password with a slash": ("SMTP_URL", "smtp://anna:hush/hush@host:25"),
    "a mail server's password of digits with a slash": ("SMTP_URL", "smtp://anna:25/hush@host:25"),
    "a mail server's password that smtplib cannot send": ("SMTP_URL", "smtp://anna:h%C3%BCsh-hush@host:25"),
    # numbers and words
    "a number that is none": ("WORKERS", "hush"),
    "web processes that are no number": ("WEB_CONCURRENCY", "hush"),
    "a port with a fraction": ("PORT", "8000.5"),
    "a pause that is no number": ("SETTLE_SCHEDULE_S", "2,nan"),
    "a pause without an end": ("SETTLE_SCHEDULE_S", "inf"),
    "a pause below 0": ("SETTLE_SCHEDULE_S", "2,-1"),
    "a window without an end": ("GHL_BURST_WINDOW_S", "inf"),
    "a promise that is no number": ("PROMISE_S", "nan"),
    "a silence without an end": ("SILENCE_S", "inf"),
    "more days than Redis can count": ("IGNORED_DAYS", "999999999999"),
    "a format that does not exist": ("LOG_FORMAT", "hush"),
    "a level that does not exist": ("LOG_LEVEL", "hush"),
    "numbers that are none": ("OWN_NUMBERS", "+15550109999,hush"),
    "callers that are none": ("SKIPPED_CALLERS", "+15550109999,hush"),
    "an address that is none": ("ALERT_EMAIL_FROM", "hush"),
    "a tag of two lines": ("LEAD_TAGS", "inbound,hush\nhush"),
    "a source with a control character": ("LEAD_SOURCE", "hush\x07hush"),
    "an owner that Sentry would cut": ("BRIDGE_OWNER", "hush" * 51),
    # phone systems
    "tokens that are no JSON": ("TWILIO_ACCOUNT_TOKENS", '{"AC1": "hush",}'),
    "a token with a line break in JSON": ("TWILIO_ACCOUNT_TOKENS", '{"AC1": "hush\\n"}'),
    "a switch that is neither": ("TWILIO_SHARED_KEY_ONLY", "hush"),
    "an IVR that is no URL": ("TWILIO_NEXT_URL", "hush"),
    "an IVR with a wrong port": ("TWILIO_NEXT_URL", "https://ivr.example.net:hush/"),
    "an IVR with a line break": ("TWILIO_NEXT_URL", "https://ivr.example.net/hush\nhush"),
    "an IVR that is this bridge": ("TWILIO_NEXT_URL", "https://IVR.example.com/webhooks/twilio/hush"),
    "a file that is not there": ("TWILIO_TWIML_FILE", "/hush/hush.xml"),
    "a signing secret that is none": ("GENERIC_SECRET", "whsec_hush!"),
    "a public key that is none": ("TELNYX_PUBLIC_KEY", "hush"),
    # the console
    "a user that cannot be read": ("CONSOLE_USERS", "anna:owner:hush"),
    "a hash that would fail at each login": ("CONSOLE_USERS", "anna:owner:scrypt:1000:8:1$hush$abcdef"),
    "a proxy's secret that no header takes": ("CONSOLE_USERS", "@proxy:X-User:hush-hüsh-hush-hush"),
}


@pytest.mark.parametrize(("name", "value"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_one_line_with_its_name_and_without_the_value(name: str, value: str, page) -> None:
    faults, written = page(**{name: value})
    assert [fault.partition(":")[0] for fault in faults] == [name]
    assert faults[0].partition(": ")[2], "a name alone says nothing"
    assert "hush" not in written
    assert "Traceback" not in written


def test_the_faults_of_all_stages_stand_on_one_page(page) -> None:
    wrong = {
        "REDIS_URL": "redis://:hush/hush@host:6379/0",
        "GHL_TOKEN": "hush hush",
        "PORT": "hush",
        "SENTRY_DSN": "hush",
        "SETTLE_SCHEDULE_S": "nan",
        "TWILIO_ACCOUNT_TOKENS": "{hush",
        "TWILIO_SHARED_KEYS": "[hush]",
        "TWILIO_SHARED_KEY_ONLY": "hush",
        "TWILIO_NEXT_URL": "hush",
        "TWILIO_TWIML_FILE": "/hush",
        "GENERIC_SECRET": "whsec_hush",
        "QUO_SECRET": "whsec_hush",
        "QUO_LEGACY_KEY": "hush",
        "BANDWIDTH_USER": "hush:hush",
        "BANDWIDTH_PASSWORD": "hush",
        "BANDWIDTH_NEXT_URL": "hush",
        "PLIVO_AUTH_TOKEN": ",",
        "PLIVO_XML_FILE": "/hush",
        "VONAGE_SIGNATURE_SECRET": ",",
        "VONAGE_NEXT_URL": "hush",
        "SIGNALWIRE_SIGNING_KEY": ",",
        "SIGNALWIRE_NEXT_URL": "hush",
        "TELNYX_PUBLIC_KEY": "hush",
        "TELNYX_NEXT_URL": "hush",
        "CONSOLE_USERS": "hush",
    }
    faults, written = page(**wrong, SECRET_KEY="", FAILED_JOB_DAYS="500")
    named = [fault.partition(":")[0].partition(" ")[0] for fault in faults if "set one of them" not in fault]
    assert sorted(named) == sorted({*wrong, "SECRET_KEY", "FAILED_JOB_DAYS"})
    assert "hush" not in written
    assert written.count("The environment is not usable") == 1


def test_the_settings_of_a_list_are_on_the_page(page) -> None:
    lists = {"PLIVO_AUTH_TOKEN": "made-up", "PLIVO_AUTH_ID": "MA1", "PLIVO_TIME_ZONE": "America", "VONAGE_SIGNATURE_SECRET": "made-up"}
    faults, written = page(**lists, VONAGE_APPLICATION_ID="x", VONAGE_PRIVATE_KEY="-----BEGIN hush", TWILIO_ACCOUNT_TOKENS='{"AC1": "x"}')
    assert sorted(fault.partition(":")[0] for fault in faults) == ["PLIVO_TIME_ZONE", "VONAGE_PRIVATE_KEY"]
    assert "hush" not in written
    assert "TWILIO_ACCOUNT_SID" not in written, "what a list warns of belongs to the log"


def test_a_fault_that_only_follows_from_another_is_not_told(page) -> None:
    faults, _ = page(DONE_DAYS="x", FAILED_JOB_DAYS="100", DEFAULT_REGION="Texas", OWN_NUMBERS="555 010 9999")
    assert sorted(fault.partition(":")[0] for fault in faults) == ["DEFAULT_REGION", "DONE_DAYS"]


@pytest.mark.parametrize("around", ["\n", "\r\n", "\r", " ", "\t", "\u00a0", ZERO_WIDTH, BYTE_ORDER_MARK, "\u200e \r\n"], ids=repr)
def test_what_a_paste_leaves_around_a_value_is_left_out(around: str, read) -> None:
    values = {"SENTRY_DSN": "https://key@sentry.example.com/1", "CONSOLE_USERS": f"anna:owner:{HASH}", "PORT": "8001"}
    found = read(**{name: f"{around}{value}{around}" for name, value in (ENVIRONMENT | values).items()})
    assert found == make_settings(**values)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("HTTPS://Bridge.Example.com/", "https://Bridge.Example.com"),
        ("https://bridge.example.com:8443/base/", "https://bridge.example.com:8443/base"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://bridge", "https://bridge"),
    ],
)
def test_a_public_url_is_kept_as_it_is_typed_in_at_the_provider(given: str, kept: str, read) -> None:
    assert read(PUBLIC_URL=given).public_url == kept


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://127.0.0.1",
        "redis://default:p%2Fw%40@my_redis:6379/15",
        "rediss://:p@ec2-1.example.com:6380?ssl_cert_reqs=required",
        "redis://[::1]:6379/0",
        "unix:///run/redis.sock?db=1",
        "redis://:pässword@host",
    ],
)
def test_every_address_that_redis_py_takes_is_taken(url: str, read) -> None:
    assert read(REDIS_URL=url).redis_url.get_secret_value() == url


def test_several_secrets_may_stand_on_several_lines(read) -> None:
    made_up = {"PLIVO_AUTH_TOKEN": "one-made-up\ntwo-made-up", "OWN_NUMBERS": "+15550109999,\n+15550109998"}
    settings = read(**made_up, ASTERISK_HMAC_SECRET="größenordnung-zwölf")
    assert settings.value("PLIVO_AUTH_TOKEN").split() == ["one-made-up", "two-made-up"]
    assert len(settings.own_numbers) == 2


def test_every_secret_of_a_provider_says_what_it_is_made_of() -> None:
    """One word is the rule; what may be more says so, and a setting cannot be both."""
    assert not [spec.name for spec in registry.SETTINGS if spec.several and spec.free]


def gunicorn(*options: str, **values: str) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in (os.environ | ENVIRONMENT | values).items() if name != "GUNICORN_CMD_ARGS"}
    command = [sys.executable, "-m", "gunicorn", *options, "app:create_app()"]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=60, check=False)


def test_gunicorn_shows_the_same_page_and_starts_nothing() -> None:
    done = gunicorn(LOG_FORMAT="hush", PORT="hush", GHL_TOKEN="hush hush", CONSOLE_USERS="hush")
    assert done.returncode == 3
    faults = [line.removeprefix("  - ").partition(":")[0] for line in done.stderr.splitlines() if line.startswith("  - ")]
    assert sorted(faults) == ["CONSOLE_USERS", "GHL_TOKEN", "LOG_FORMAT", "PORT"]
    assert len(done.stderr.splitlines()) == 2 + len(faults), "one page, and nothing of gunicorn's own"
    assert "hush" not in done.stdout + done.stderr


def test_gunicorn_takes_its_values_from_the_settings() -> None:
    done = gunicorn("--print-config", PORT="", LOG_LEVEL="debug", LOG_FORMAT="", WEB_CONCURRENCY=" 3 ")
    assert done.returncode == 0, done.stderr
    config = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    told = {name.strip(): value.strip() for name, value in config.items()}
    assert (told["bind"], told["workers"], told["control_socket_disable"]) == ("['0.0.0.0:8000']", "3", "True")


def test_a_web_process_that_dies_is_told_by_the_one_that_starts_them(tmp_path: Path) -> None:
    """Killed for its memory, or hung: it can say nothing itself."""
    with SentryServer() as sentry:
        values = {"PORT": str(free_port()), "WEB_CONCURRENCY": "1", "SENTRY_DSN": sentry.dsn, "SPOOL_PATH": str(tmp_path / "spool")}
        command = [sys.executable, "-m", "gunicorn", "app:create_app()"]
        process = Process("web", command, os.environ | ENVIRONMENT | values, ROOT, tmp_path / "web.log")
        process.start()
        try:
            await_true(lambda: tree(process.pid)[1:], "a worker runs", within_s=20)
            os.kill(tree(process.pid)[1].pid, signal.SIGKILL)
            [event] = sentry.wait_for(1, timeout_s=20)
        finally:
            process.kill()
    assert event["logger"] == "gunicorn.error"
    assert "SIGKILL" in event["logentry"]["formatted"]
    assert event["tags"]["owner"] == ENVIRONMENT.get("BRIDGE_OWNER", "anna")


def test_help_needs_no_environment() -> None:
    bare = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    command = [sys.executable, "-m", "flask", "--app", "app", "worker", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Stops cleanly" in done.stdout
