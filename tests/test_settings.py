"""The environment is read once, every fault is told at once, and no secret is ever printed."""

from __future__ import annotations

import os

import pytest

from bridge.errors import WrongSettings
from bridge.settings import Anonymous, ProviderSetting, Settings, UncertainCreate, load
from tests.support.builders import ENVIRONMENT, make_settings

SPECS = (
    ProviderSetting("TWILIO_AUTH_TOKEN", "The token.", secret=True, switches_on=True),
    ProviderSetting("OTHER_SECRET", "Another.", secret=True, switches_on=True),
    ProviderSetting("TWILIO_SHARED_KEY_ONLY", "A switch."),
)
SECRETS = {
    "REDIS_URL": "redis://:hush-redis@127.0.0.1/0",
    "SECRET_KEY": "hush-secret-key",
    "GHL_TOKEN": "hush-token",
    "SENTRY_DSN": "https://hush-dsn@sentry.example.com/1",
    "API_TOKEN": "hush-api-token",
    "CONSOLE_USERS": "anna:hush-password",
    "TWILIO_AUTH_TOKEN": "hush-twilio",
}


def faults(**environment: str) -> list[str]:
    with pytest.raises(WrongSettings) as wrong:
        load(ENVIRONMENT | environment, SPECS)
    return wrong.value.faults


def test_what_is_required_suffices() -> None:
    settings = make_settings()
    assert settings.ghl_base_url == "https://services.leadconnectorhq.com"
    assert settings.request_timeout_s == pytest.approx(13.05)
    assert settings.value("TWILIO_AUTH_TOKEN") == ENVIRONMENT["TWILIO_AUTH_TOKEN"]
    assert settings.value("NOT_SET") == ""


def test_an_empty_environment_names_everything_that_is_missing() -> None:
    with pytest.raises(WrongSettings) as wrong:
        load({}, SPECS)
    told = "\n".join(wrong.value.faults)
    for name in ("REDIS_URL", "PUBLIC_URL", "SECRET_KEY", "GHL_TOKEN", "GHL_LOCATION_ID"):
        assert f"{name}: is missing" in told
    assert "set one of TWILIO_AUTH_TOKEN, OTHER_SECRET" in told


def test_a_blank_value_counts_as_missing() -> None:
    assert faults(GHL_TOKEN="") == ["GHL_TOKEN: is missing"]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("REDIS_URL", "http://127.0.0.1", "rediss://"),
        ("PUBLIC_URL", "http://bridge.example.com", "loopback"),
        ("PUBLIC_URL", "bridge.example.com", "base URL"),
        ("PUBLIC_URL", "https://anna:hush@bridge.example.com", "without query"),
        ("PUBLIC_URL", "https://bridge.example.com/?x=1", "without query"),
        ("GHL_BASE_URL", "ftp://x", "https://"),
        ("PORT", "0", "greater than or equal to 1"),
        ("PORT", "many", "integer"),
        ("SECRET_KEY", "short", "8 characters or more"),
        ("DEFAULT_REGION", "Texas", "two-letter"),
        ("LOG_LEVEL", "LOUD", "DEBUG"),
        ("LOG_FORMAT", "xml", "json"),
        ("SETTLE_SCHEDULE_S", "2,0", "above 0"),
        ("SETTLE_SCHEDULE_S", ",", "one or more"),
        ("SETTLE_SCHEDULE_S", "soon", "number"),
        ("ANONYMOUS", "guess", "ignore"),
        ("UNCERTAIN_CREATE", "hope", "ask"),
        ("MAX_ATTEMPTS", "0", "greater than or equal to 1"),
    ],
)
def test_a_fault_names_the_setting_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    (fault,) = faults(**{name: value})
    assert fault.startswith(f"{name}: ")
    assert allowed in fault


def test_all_faults_are_told_at_once() -> None:
    told = faults(PORT="x", WORKERS="0", PUBLIC_URL="ftp://x", TWILIO_AUTH_TOKEN="")
    assert sorted(fault.partition(":")[0] for fault in told) == ["PORT", "PUBLIC_URL", "WORKERS", "no phone system is configured"]


def test_faults_between_settings_are_told_at_once() -> None:
    told = faults(FAILED_JOB_DAYS="500", ATTEMPT_LEASE_S="5", ANONYMOUS="note_only")
    assert len(told) == 3
    assert all(any(name in fault for fault in told) for name in ("FAILED_JOB_DAYS", "ATTEMPT_LEASE_S", "ANONYMOUS_CONTACT_ID"))


def test_an_attempt_lease_outlives_a_request() -> None:
    make_settings(GHL_READ_TIMEOUT_S="20", ATTEMPT_LEASE_S="24.05")
    assert faults(GHL_READ_TIMEOUT_S="20", ATTEMPT_LEASE_S="24")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_plain_http_is_for_loopback_hosts(host: str) -> None:
    assert make_settings(PUBLIC_URL=f"http://{host}:8000/").public_url == f"http://{host}:8000"


def test_lists_are_read_from_commas() -> None:
    settings = make_settings(LEAD_TAGS="inbound call, ivr ,", OWN_NUMBERS="+15550109999", SETTLE_SCHEDULE_S="1, 2.5")
    assert (settings.lead_tags, settings.own_numbers) == (("inbound call", "ivr"), ("+15550109999",))
    assert settings.settle_schedule_s == (1.0, 2.5)


def test_words_are_read_as_choices() -> None:
    settings = make_settings(ANONYMOUS="lead", UNCERTAIN_CREATE="ask", DEFAULT_REGION="gb", LOG_LEVEL="debug")
    assert (settings.anonymous, settings.uncertain_create) == (Anonymous.LEAD, UncertainCreate.ASK)
    assert (settings.default_region, settings.log_level) == ("GB", "DEBUG")


def test_secrets_never_show_in_a_text_of_the_settings() -> None:
    settings = make_settings(**SECRETS)
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert "hush" not in text


def test_secrets_never_show_in_an_error() -> None:
    environment = ENVIRONMENT | SECRETS | {"REDIS_URL": "hush://x", "PORT": "hush", "SECRET_KEY": "hush", "API_TOKEN": "hush"}
    with pytest.raises(WrongSettings) as wrong:
        load(environment, SPECS)
    assert len(wrong.value.faults) == 4
    assert "hush" not in str(wrong.value)
    assert wrong.value.__suppress_context__


def test_nothing_is_read_but_what_is_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKERS", "7")
    monkeypatch.setenv("GHL_TOKEN", "from the machine")
    assert os.environ["WORKERS"] == "7"
    assert make_settings().workers == 2
    with pytest.raises(WrongSettings):
        load({name: value for name, value in ENVIRONMENT.items() if name != "GHL_TOKEN"}, SPECS)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_settings().workers = 3


def test_only_declared_provider_settings_are_kept() -> None:
    settings = load(ENVIRONMENT | {"UNDECLARED": "x"}, SPECS)
    assert set(settings.provider) == {"TWILIO_AUTH_TOKEN"}
    assert isinstance(settings, Settings)
