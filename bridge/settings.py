"""The environment, read once, typed. Every fault is reported at once, with what would be allowed; secrets are never printed.

docs/settings.md has a line for each name here; a test compares the two. Providers declare their own settings beside their adapter
(`ProviderSetting`), and `load` reads those too.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import phonenumbers
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from sentry_sdk.utils import Dsn

from bridge.errors import WrongSettings

DAY_S = 86_400
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")


class Anonymous(StrEnum):
    """What becomes of a caller without a usable number."""

    IGNORE = "ignore"  # accepted, done, counted, with its reason shown
    NOTE_ONLY = "note_only"  # one note on the contact named by ANONYMOUS_CONTACT_ID
    LEAD = "lead"  # a contact of its own, without a phone number, never merged with another


class UncertainCreate(StrEnum):
    """What follows when an uncertain create could not be settled in a location that allows duplicates."""

    UPSERT = "upsert"
    ASK = "ask"


class LogFormat(StrEnum):
    JSON = "json"
    HUMAN = "human"


@dataclass(frozen=True, slots=True)
class ProviderSetting:
    """One setting of a provider, as data: `settings`, `doctor`, masking and the docs page are made from it."""

    name: str  # the environment variable
    help: str  # what it is and where to find it, one sentence
    secret: bool = False
    switches_on: bool = False  # the provider is configured as soon as this is set


Words = Annotated[tuple[str, ...], NoDecode]
Seconds = Annotated[tuple[float, ...], NoDecode]


class Settings(BaseSettings):
    """All settings. Field names are the environment's names in lower case."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    redis_url: SecretStr
    public_url: str
    secret_key: SecretStr = Field(min_length=8)
    ghl_token: SecretStr = Field(min_length=1)
    ghl_location_id: str = Field(min_length=1)
    ghl_base_url: str = "https://services.leadconnectorhq.com"
    port: int = Field(default=8000, ge=1, le=65535)

    bridge_owner: str = "owner"
    default_region: str = "US"
    own_numbers: Words = ()
    sentry_dsn: SecretStr | None = None
    api_token: SecretStr | None = Field(default=None, min_length=8)
    console_users: SecretStr | None = None

    promise_s: float = Field(default=60, gt=0, le=86_400)
    silence_s: float | None = Field(default=None, gt=0)
    failure_share: float = Field(default=0.1, gt=0, le=1)
    alert_webhook_url: SecretStr | None = None
    alert_email_to: Words = ()
    alert_email_from: str | None = None
    smtp_url: SecretStr | None = None

    lead_source: str = "Phone call"
    lead_tags: Words = ("inbound call",)
    anonymous: Anonymous = Anonymous.IGNORE
    anonymous_contact_id: str | None = None
    note_wait_s: float = Field(default=120, ge=0, le=3600)
    note_max_chars: int = Field(default=4000, ge=200, le=65_000)

    workers: int = Field(default=2, ge=1, le=64)
    max_attempts: int = Field(default=24, ge=1, le=100)
    retry_base_s: float = Field(default=2, gt=0, le=60)
    retry_cap_s: float = Field(default=600, gt=0, le=3600)
    settle_schedule_s: Seconds = (2, 5, 15, 60)
    uncertain_create: UncertainCreate = UncertainCreate.UPSERT
    attempt_lease_s: float = Field(default=30, ge=2, le=300)
    ghl_connect_timeout_s: float = Field(default=3.05, gt=0, le=30)
    ghl_read_timeout_s: float = Field(default=10, gt=0, le=60)
    ghl_burst: int = Field(default=100, ge=1)
    ghl_burst_window_s: float = Field(default=10, gt=0)
    ghl_daily: int = Field(default=200_000, ge=1)

    backfill_every_s: float = Field(default=600, ge=0, le=86_400)
    backfill_overlap_s: float = Field(default=7200, ge=60, le=7 * 86_400)
    backfill_numbers: Words = ()
    backfill_base_urls: str | None = None
    silence_after_calls: float = Field(default=8, gt=0, le=1000)

    replay_days: int = Field(default=3, ge=1, le=400)
    done_days: int = Field(default=90, ge=1)
    attention_days: int = Field(default=400, ge=1)
    failed_job_days: int = Field(default=90, ge=1)
    ignored_days: int = Field(default=7, ge=1)
    spool_path: str = "var/spool.sqlite3"
    log_format: LogFormat = LogFormat.JSON
    log_level: str = "INFO"
    provider: Mapping[str, SecretStr] = Field(default_factory=dict, exclude=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` hands in: no hidden read of os.environ or of files."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @property
    def request_timeout_s(self) -> float:
        """The longest that one request to the CRM can take; leases have to outlive it."""
        return self.ghl_connect_timeout_s + self.ghl_read_timeout_s

    def value(self, name: str) -> str:
        """A provider's setting, or "" where it is not set."""
        secret = self.provider.get(name)
        return secret.get_secret_value() if secret else ""

    def list_base_url(self, provider: str) -> str:
        """Where a provider's list of calls is asked for instead of at the provider; "" where nothing was set."""
        return _base_urls(self.backfill_base_urls).get(provider, "")

    @field_validator("own_numbers", "lead_tags", "alert_email_to", "backfill_numbers", mode="before")
    @classmethod
    def _split_words(cls, value: object) -> object:
        return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value

    @field_validator("settle_schedule_s", mode="before")
    @classmethod
    def _split_seconds(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("settle_schedule_s")
    @classmethod
    def _check_schedule(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or min(value) <= 0:
            raise ValueError("one or more pauses in seconds, each above 0, such as 2,5,15,60")
        return value

    @field_validator("default_region")
    @classmethod
    def _check_region(cls, value: str) -> str:
        if value.upper() not in phonenumbers.SUPPORTED_REGIONS:
            raise ValueError("a two-letter country code such as US, GB or DE")
        return value.upper()

    @field_validator("log_level")
    @classmethod
    def _check_level(cls, value: str) -> str:
        if value.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise ValueError("DEBUG, INFO, WARNING or ERROR")
        return value.upper()

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: SecretStr) -> SecretStr:
        if urlsplit(value.get_secret_value()).scheme not in {"redis", "rediss", "unix"}:
            raise ValueError("redis://…, rediss://… or unix://…")
        return value

    @field_validator("backfill_base_urls")
    @classmethod
    def _check_base_urls(cls, value: str | None) -> str | None:
        for url in _base_urls(value).values():
            cls._check_url(url)
        return value

    @field_validator("public_url", "ghl_base_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if not parts.hostname or parts.query or parts.fragment or parts.username or parts.password:
            raise ValueError("a base URL such as https://bridge.example.com, without query, fragment or user")
        if not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname))):
            raise ValueError("https://…, or http://… for a loopback host such as 127.0.0.1")
        return value.rstrip("/")

    @field_validator("sentry_dsn")
    @classmethod
    def _check_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not _is_dsn(value.get_secret_value()):
            raise ValueError("a DSN as Sentry shows it under Client Keys: https://key@host/project number")
        return value

    @field_validator("alert_webhook_url")
    @classmethod
    def _check_webhook(cls, value: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(value.get_secret_value()) if value else None
        if parts and not (parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname)))):
            raise ValueError("https://…, as Slack gives it, or http://… for a loopback host")
        return value

    @field_validator("smtp_url")
    @classmethod
    def _check_smtp(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not _is_smtp(value.get_secret_value()):
            raise ValueError("smtp://user:password@host:587 or smtps://user:password@host:465; in user and password, @ is %40 and : is %3A")
        return value

    @field_validator("alert_email_to", "alert_email_from")
    @classmethod
    def _check_addresses(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        given = (value,) if isinstance(value, str) else value or ()
        if not all(_ADDRESS.fullmatch(address) for address in given):
            raise ValueError("plain addresses such as ops@example.com, without names")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        faults: list[str] = []
        if min(self.done_days, self.attention_days) < self.failed_job_days:
            faults.append("FAILED_JOB_DAYS must not exceed DONE_DAYS or ATTENTION_DAYS: RQ would remember a call that the ledger forgot")
        if self.attempt_lease_s < self.request_timeout_s + 1:
            faults.append("ATTEMPT_LEASE_S must exceed GHL_CONNECT_TIMEOUT_S + GHL_READ_TIMEOUT_S by a second or more")
        if self.anonymous is Anonymous.NOTE_ONLY and not self.anonymous_contact_id:
            faults.append("ANONYMOUS=note_only needs ANONYMOUS_CONTACT_ID: the contact that collects those notes")
        if self.alert_email_to and not (self.smtp_url and self.alert_email_from):
            faults.append("ALERT_EMAIL_TO needs SMTP_URL and ALERT_EMAIL_FROM: the mail server, and the address it sends for")
        if faults:
            raise ValueError("\n".join(faults))
        return self


def load(environment: Mapping[str, str], specs: Iterable[ProviderSetting] = ()) -> Settings:
    """The settings in `environment`, with those of the providers named by `specs`.

    Raises WrongSettings with every fault at once.
    """
    specs = tuple(specs)
    values: dict[str, Any] = {name: environment[name.upper()] for name in Settings.model_fields if environment.get(name.upper())}
    values["provider"] = {spec.name: SecretStr(environment[spec.name]) for spec in specs if environment.get(spec.name)}
    faults: list[str] = []
    if specs and not any(spec.switches_on and spec.name in values["provider"] for spec in specs):
        allowed = ", ".join(spec.name for spec in specs if spec.switches_on)
        faults.append(f"no phone system is configured: set one of {allowed}")
    try:
        settings = Settings(**values)
    except ValidationError as error:
        items = error.errors(include_input=False, include_url=False)
        faults = [line for item in items for line in _fault(dict(item)).splitlines()] + faults
        raise WrongSettings(faults) from None
    if faults:
        raise WrongSettings(faults)
    return settings


def _base_urls(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(url, str) for url in found.values()):
        raise ValueError('a JSON object of providers and base URLs, such as {"twilio": "http://127.0.0.1:8091"}')
    return found


def _fault(error: dict[str, Any]) -> str:
    name = ".".join(str(part) for part in error["loc"][:1]).upper()
    text = "is missing" if error["type"] == "missing" else str(error["msg"]).removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _is_smtp(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"smtp", "smtps"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none
        return False


def _is_dsn(url: str) -> bool:
    """What the SDK takes. Its own words of refusal would quote the key."""
    try:
        Dsn(url)
    except ValueError:  # BadDsn is one; a port that is none is another
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
