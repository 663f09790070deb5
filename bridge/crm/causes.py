"""The words by which failures at the CRM are grouped. docs/errors.md explains each to the person on duty; a test compares the two."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Stable words: alerts are fingerprinted by them and the ledger keeps them."""

    CONNECT = "crm.connect"
    TIMEOUT = "crm.timeout"
    RESET = "crm.reset"
    SERVER = "crm.5xx"
    NOT_NOW = "crm.not_now"
    RATE_LIMIT = "crm.429"
    DAILY_LIMIT = "crm.daily_limit"
    BUDGET = "crm.budget"
    UNREADABLE = "crm.unreadable"
    TOO_LARGE = "crm.too_large"
    OTHER_PHONE = "crm.other_phone"
    DUPLICATE_UNNAMED = "crm.duplicate_unnamed"
    UNPROCESSABLE = "crm.422"
    INVALID = "crm.invalid"
    BAD_REQUEST = "crm.400"
    TOKEN = "crm.401_token"  # noqa: S105 - a word for alerts, no password
    SCOPE = "crm.401_scope"
    FORBIDDEN = "crm.403"
    NOT_FOUND = "crm.404"
    GONE = "crm.gone"
    VERSION = "crm.version"
    REDIRECT = "crm.redirect"
    STATUS = "crm.status"
    REDIS = "redis"


# What a person does next; `{scope}` is the scope that the request needs. Empty where the bridge mends it by itself.
HINTS: dict[Cause, str] = {
    Cause.CONNECT: "If it lasts, check GHL_BASE_URL and that this machine reaches it (flask doctor).",
    Cause.TIMEOUT: "If it lasts, look at the vendor's status page before raising GHL_READ_TIMEOUT_S.",
    Cause.RESET: "",
    Cause.SERVER: "If it lasts, look at the vendor's status page; give its support the trace id.",
    Cause.NOT_NOW: "",
    Cause.RATE_LIMIT: "If it is frequent, another program uses the same token: lower GHL_BURST to leave it its share.",
    Cause.DAILY_LIMIT: "The day's quota of the location is spent. See what else uses a token there; work goes on by itself.",
    Cause.BUDGET: "Work goes on by itself. If it is constant, too many calls for GHL_BURST and GHL_DAILY.",
    Cause.UNREADABLE: "Check that GHL_BASE_URL is the API and no web page or proxy.",
    Cause.TOO_LARGE: "Open the contact in the CRM: it has more notes than the bridge reads. Finish this call by hand.",
    Cause.OTHER_PHONE: "Open both contacts in the CRM; one may be a merge or carry the number as a second one.",
    Cause.DUPLICATE_UNNAMED: "The CRM has the caller and does not say where: search it for the number, second numbers too.",
    Cause.UNPROCESSABLE: "The CRM refused what was sent; its words name the field.",
    Cause.INVALID: "The CRM refused what was sent; its words name the field. Mend it and start the call again, or close it by hand.",
    Cause.BAD_REQUEST: "The CRM refused the request; give its support the trace id, or close the call by hand.",
    Cause.TOKEN: "GHL_TOKEN is not accepted: make a new private integration token in the location and set it.",
    Cause.SCOPE: "GHL_TOKEN lacks a scope: add {scope} to the private integration.",
    Cause.FORBIDDEN: "GHL_TOKEN has no access to GHL_LOCATION_ID: the two must belong to the same location.",
    Cause.NOT_FOUND: "Check GHL_BASE_URL, and that GHL_LOCATION_ID names a location that still exists.",
    Cause.GONE: "The contact or note was deleted or merged; the bridge looks the caller up again.",
    Cause.VERSION: "The vendor has retired the API version that this release speaks: update Callbridge.",
    Cause.REDIRECT: "Redirects are not followed: set GHL_BASE_URL to the address it points to.",
    Cause.STATUS: "The CRM answered with a status that this API does not document; give its support the trace id.",
    Cause.REDIS: "Check REDIS_URL and the Redis server (flask doctor).",
}
