"""How the stand-in's location behaves: everything that stays so until somebody changes it. What goes wrong once is a fault (faults.py)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class OwnCheck(StrEnum):
    """What the CRM's own duplicate check (the refusal of a create, the match of an upsert) sees. Which one is true is not known."""

    SHARP = "sharp"  # every contact, at once
    LAGGING = "lagging"  # what `search/duplicate` shows, so as late as `duplicate_lag_s`


class TokenState(StrEnum):
    VALID = "valid"
    REVOKED = "revoked"  # 401 "Invalid JWT"
    SCOPE_MISSING = "scope_missing"  # 401 "The token is not authorized for this scope."
    WRONG_LOCATION = "wrong_location"  # 403


class World(BaseModel):
    """The settings of one location and of the service around it. Times are in seconds; a fraction compresses them for a test.

    A pydantic model, since it is what the control endpoint reads: unknown names and wrong values are refused with their reason.
    The limits are those of https://marketplace.gohighlevel.com/docs/other/rate-limits/ (100 in 10 s and 200,000 a day).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    location_id: str = Field(default="sandboxLocation00001", min_length=1)
    token: str = Field(default="pit-sandbox", min_length=1)
    token_state: TokenState = TokenState.VALID
    name: str = "Sandbox Dental"
    country: str = "US"
    timezone: str = "America/Chicago"

    allow_duplicate_contact: bool = False
    match_order: tuple[str, ...] = ("email", "phone")  # "Contact Deduplication Preferences"; not readable over the API
    own_check: OwnCheck = OwnCheck.SHARP
    match_additional_phones: bool = False  # not known of the real service
    create_window_s: float = Field(default=0, ge=0, le=60)  # time between check and insert; 0 makes the two one atomic act
    search_lag_s: float = Field(default=0, ge=0, le=600)  # POST /contacts/search
    duplicate_lag_s: float = Field(default=0, ge=0, le=600)  # GET /contacts/search/duplicate

    note_max_chars: int = Field(default=65_000, ge=1)  # undocumented
    bad_phone_status: int = Field(default=400, ge=400, le=422)  # undocumented
    latency_s: float = Field(default=0, ge=0, le=60)  # before each request is worked on

    burst: int = Field(default=100, ge=1)
    burst_window_s: float = Field(default=10, gt=0)
    daily: int = Field(default=200_000, ge=1)
    day_s: float = Field(default=86_400, gt=0)
    rate_headers: bool = True
    retry_after_s: float | None = None  # sent with a 429; the real service documents no such header

    def changed(self, **changes: object) -> World:
        """The same world with some settings changed. Raises pydantic.ValidationError naming each wrong one."""
        return World.model_validate({**self.model_dump(), **changes})
