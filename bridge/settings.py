"""The environment, read once, typed. Every fault is reported at once, with what would be allowed; secrets are never printed.

docs/settings.md has a line for each name here; a test compares the two. Providers declare their own settings beside their adapter
(`ProviderSetting`), and `load` reads those too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

import phonenumbers
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bridge import numbers, values
from bridge.errors import WrongSettings

DAY_S = 86_400
MOST_DAYS = 36_500  # a hundred years; Redis refuses times to live that are far longer
_MANY_LINES = frozenset({
    "console_users", "own_numbers", "skipped_callers", "lead_tags", "alert_email_to", "backfill_numbers", "backfill_base_urls",
})  # fmt: skip
# What stands in for a required setting that is wrong, while the others are checked. Nothing is ever started with it.
_INSTEAD = {
    "redis_url": "redis://127.0.0.1/0",
    "public_url": "https://bridge.example.com",
    "secret_key": "nothing is signed",
    "ghl_token": "none",
    "ghl_location_id": "none",
}


class Faults(list[str]):
    """Gathers what is wrong, so that all of it is told at once.

    `with faults: …` keeps what a WrongSettings says, and goes on behind the block.
    """

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, WrongSettings):
            return False
        self += error.faults
        return True

    def tell(self) -> None:
        """Raises WrongSettings where anything was gathered."""
        if self:
            raise WrongSettings(list(self)) from None


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
    several: bool = False  # holds several words, separated by spaces or commas, so that a secret can be replaced without a gap
    free: bool = False  # any text (JSON, a URL, a file's name); all others have to fit into a header

    @property
    def form(self) -> values.Form:
        return values.Form.TEXT if self.free else values.Form.WORDS if self.several else values.Form.WORD


Check = Callable[["Settings"], object]


class Settings(BaseSettings):
    """All settings. Field names are the environment's names in lower case."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True, hide_input_in_errors=True, allow_inf_nan=False)

    redis_url: values.RedisUrl
    public_url: values.PublicUrl
    secret_key: SecretStr = Field(min_length=8)
    ghl_token: values.Token
    ghl_location_id: values.RecordId
    ghl_base_url: values.BaseUrl = "https://services.leadconnectorhq.com"
    port: int = Field(default=8000, ge=1, le=65535)
    web_concurrency: int = Field(default=2, ge=1, le=64)

    bridge_owner: str = Field(default="owner", max_length=200)  # Sentry takes no longer tag
    default_region: str = "US"
    own_numbers: values.Words = ()
    sentry_dsn: values.SentryDsn | None = None
    api_token: values.Token | None = Field(default=None, min_length=8)
    console_users: SecretStr | None = None

    promise_s: float = Field(default=60, gt=0, le=86_400)
    silence_s: float | None = Field(default=None, gt=0, le=400 * DAY_S)
    failure_share: float = Field(default=0.1, gt=0, le=1)
    alert_webhook_url: values.WebhookUrl | None = None
    alert_email_to: values.Addresses = ()
    alert_email_from: values.Address | None = None
    smtp_url: values.SmtpUrl | None = None

    lead_source: str = "Phone call"
    lead_tags: values.Words = ("inbound call",)
    anonymous: Anonymous = Anonymous.IGNORE
    anonymous_contact_id: values.RecordId | None = None
    skipped_callers: values.Words = ()
    short_call_s: float = Field(default=0, ge=0, le=60)
    note_wait_s: float = Field(default=120, ge=0, le=3600)
    note_max_chars: int = Field(default=4000, ge=200, le=65_000)

    workers: int = Field(default=2, ge=1, le=64)
    max_attempts: int = Field(default=24, ge=1, le=100)
    retry_base_s: float = Field(default=2, gt=0, le=60)
    retry_cap_s: float = Field(default=600, gt=0, le=3600)
    settle_schedule_s: values.Pauses = (2, 5, 15, 60)
    uncertain_create: UncertainCreate = UncertainCreate.UPSERT
    attempt_lease_s: float = Field(default=30, ge=2, le=300)
    ghl_connect_timeout_s: float = Field(default=3.05, gt=0, le=30)
    ghl_read_timeout_s: float = Field(default=10, gt=0, le=60)
    ghl_burst: int = Field(default=100, ge=1, le=1_000_000)
    ghl_burst_window_s: float = Field(default=10, gt=0, le=DAY_S)
    ghl_daily: int = Field(default=200_000, ge=1, le=1_000_000_000)

    backfill_every_s: float = Field(default=600, ge=0, le=86_400)
    backfill_overlap_s: float = Field(default=7200, ge=60, le=7 * 86_400)
    backfill_numbers: values.Words = ()
    backfill_base_urls: values.BaseUrls | None = None
    silence_after_calls: float = Field(default=8, gt=0, le=1000)

    replay_days: int = Field(default=3, ge=1, le=400)
    done_days: int = Field(default=90, ge=1, le=MOST_DAYS)
    attention_days: int = Field(default=400, ge=1, le=MOST_DAYS)
    failed_job_days: int = Field(default=90, ge=1, le=MOST_DAYS)
    ignored_days: int = Field(default=7, ge=1, le=MOST_DAYS)
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

    def words(self, name: str) -> tuple[str, ...]:
        """The words in a provider's setting, so that a secret can be replaced without a gap."""
        return values.words(self.value(name))

    def list_base_url(self, provider: str) -> str:
        """Where a provider's list of calls is asked for instead of at the provider; "" where nothing was set."""
        return values.base_urls(self.backfill_base_urls or "{}").get(provider, "")

    @field_validator("default_region")
    @classmethod
    def _check_region(cls, value: str) -> str:
        if value.upper() not in phonenumbers.SUPPORTED_REGIONS:
            raise values.Unfit("a two-letter country code such as US, GB or DE")
        return value.upper()

    @field_validator("log_level")
    @classmethod
    def _check_level(cls, value: str) -> str:
        if value.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise values.Unfit("DEBUG, INFO, WARNING or ERROR")
        return value.upper()

    def between(self) -> Iterator[tuple[frozenset[str], str]]:
        """What is wrong between settings that can be used each for itself: their names, and what to change."""
        if min(self.done_days, self.attention_days) < self.failed_job_days:
            text = "FAILED_JOB_DAYS must not exceed DONE_DAYS or ATTENTION_DAYS: RQ would remember a call that the ledger forgot"
            yield frozenset({"FAILED_JOB_DAYS", "DONE_DAYS", "ATTENTION_DAYS"}), text
        if self.attempt_lease_s < self.request_timeout_s + 1:
            text = "ATTEMPT_LEASE_S must exceed GHL_CONNECT_TIMEOUT_S + GHL_READ_TIMEOUT_S by a second or more"
            yield frozenset({"ATTEMPT_LEASE_S", "GHL_CONNECT_TIMEOUT_S", "GHL_READ_TIMEOUT_S"}), text
        if self.anonymous is Anonymous.NOTE_ONLY and not self.anonymous_contact_id:
            text = "ANONYMOUS=note_only needs ANONYMOUS_CONTACT_ID: the contact that collects those notes"
            yield frozenset({"ANONYMOUS", "ANONYMOUS_CONTACT_ID"}), text
        if self.alert_email_to and not (self.smtp_url and self.alert_email_from):
            text = "ALERT_EMAIL_TO needs SMTP_URL and ALERT_EMAIL_FROM: the mail server, and the address it sends for"
            yield frozenset({"ALERT_EMAIL_TO", "SMTP_URL", "ALERT_EMAIL_FROM"}), text
        for name, listed in (("OWN_NUMBERS", self.own_numbers), ("SKIPPED_CALLERS", self.skipped_callers)):
            if any(numbers.identify(one, region=self.default_region).e164 is None for one in listed):
                text = f"{name}: numbers such as +15551234567, or as they are dialled in DEFAULT_REGION, separated by commas"
                yield frozenset({name, "DEFAULT_REGION"}), text


def load(environment: Mapping[str, str], specs: Iterable[ProviderSetting] = (), checks: Iterable[Check] = ()) -> Settings:
    """The settings in `environment`, with those of the providers named by `specs`.

    `checks` look at what is behind the settings (the providers, the console's users); each raises WrongSettings. They are asked as well
    where other settings are wrong already: those have their defaults then.

    Raises WrongSettings with every fault of all of them at once. No fault holds a part of a value.
    """
    specs = tuple(specs)
    forms = {name.upper(): _form(name) for name in Settings.model_fields if name != "provider"}
    provided = {spec.name: spec.form for spec in specs}
    switches = [spec.name for spec in specs if spec.switches_on]
    given = {name: text for name in (*forms, *provided) if (text := values.clean(environment.get(name, "")))}
    wrong = {name: said for name, text in given.items() if (said := values.misfit(text, (forms | provided)[name]))}
    faults = Faults(f"{name}: {said}" for name, said in wrong.items())
    if specs and not given.keys() & switches:
        faults.append(f"no phone system is configured: set one of {', '.join(switches)}")
    told = set(wrong)
    # What has no right form is checked no further, but its provider is: it counts as set.
    secrets = {name: SecretStr("wrong" if name in wrong else given[name]) for name in provided if name in given}
    settings = _usable({name: given[name] for name in forms if name in given}, secrets, told, faults)
    faults += [text for names, text in settings.between() if not names & told]
    for check in checks:
        further = Faults()
        with further:
            check(settings)
        faults += [fault for fault in further if fault.partition(":")[0] not in told]
    faults.tell()
    return settings


def _form(name: str) -> values.Form:
    return values.Form.TEXT if name in _MANY_LINES else values.Form.LINE


def _usable(given: Mapping[str, str], provider: Mapping[str, SecretStr], told: set[str], faults: Faults) -> Settings:
    """The settings, those that are wrong with their defaults, so that what depends on the others can be checked too.

    `told` names those that are known to be wrong; the others are added to it and to `faults`.
    """
    usable = {name.lower(): text for name, text in given.items() if name not in told}
    instead = {name: text for name, text in _INSTEAD.items() if name.upper() in told}
    try:
        return Settings(**instead | usable, provider=provider)  # type: ignore[arg-type]  # - pydantic reads them
    except ValidationError as error:
        items = error.errors(include_input=False, include_url=False)
    for item in items:
        name = str(item["loc"][0]).upper()
        if name not in told:  # of a list with several faults the first
            told.add(name)
            faults.append(f"{name}: {_said(item)}")
    return _usable(given, provider, told, faults)


def _said(item: ErrorDetails) -> str:
    """What pydantic says of a type or a range holds no value. An error of a parser may: only our own are repeated."""
    if item["type"] == "missing":
        return "is missing"
    if item["type"] == "too_short":
        return f"{item['ctx']['min_length']} characters or more"
    cause = item.get("ctx", {}).get("error")
    if item["type"] == "value_error" and not isinstance(cause, values.Unfit):
        return "cannot be read; docs/settings.md says what is allowed"
    return str(item["msg"]).removeprefix("Value error, ")
