"""Twilio's list of calls: /2010-04-01/Accounts/{AccountSid}/Calls.json.

https://www.twilio.com/docs/voice/api/call-resource#read-multiple-call-resources

`StartTime>` and `StartTime<` are whole days in UTC, both included (OpenAPI twilio_api_v2010), so a day more is asked for on both sides
and each call judged by its own time. Access: the Auth Token, or an API key with its secret. Digits and speech are not in the list.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from bridge.providers.base import Provider
from bridge.providers.lists import laml
from bridge.providers.lists.base import Ask, Lister, Unset, Window, basic, day, needed
from bridge.providers.twilio import ACCOUNT_TOKENS, SHARED_KEY_ONLY, TOKEN
from bridge.settings import DAY_S, ProviderSetting, Settings

log = logging.getLogger(__name__)

BASE_URL = "https://api.twilio.com"

ACCOUNT = ProviderSetting("TWILIO_ACCOUNT_SID", "Account SID (AC…) whose list of calls is read: Twilio Console, Account Info.")
KEY = ProviderSetting("TWILIO_API_KEY", "API key SID (SK…) to read the list with, in place of the Auth Token: Console, API keys.")
SECRET = ProviderSetting("TWILIO_API_SECRET", "Secret of that API key.", secret=True)
SETTINGS = (ACCOUNT, KEY, SECRET)


class TwilioList(laml.LamlLister):
    name = "twilio"

    def __init__(self, settings: Settings, adapter: Provider, sid: str, user: str, password: str, credentials: str, account: str) -> None:
        super().__init__(settings, adapter, BASE_URL, basic(user, password), credentials, account)
        self._sid = sid

    def first(self, window: Window) -> Ask:
        days = (("StartTime>", day(window.since - DAY_S)), ("StartTime<", day(window.until + DAY_S)))
        return Ask(f"/2010-04-01/Accounts/{self._sid}/Calls.json", (*days, ("PageSize", str(laml.PAGE_SIZE))))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    """The list of TWILIO_ACCOUNT_SID, and one for each token of a subaccount."""
    tokens: dict[str, str] = json.loads(settings.value(ACCOUNT_TOKENS.name) or "{}")  # the adapter has checked its form
    found: list[Lister] = []
    main = settings.value(ACCOUNT.name).strip()
    if main:
        user, password, credentials = _access(settings, main)
        found.append(TwilioList(settings, adapter, main, user, password, credentials, _told_account(settings, tokens, main)))
    elif settings.value(TOKEN.name).strip() and tokens:
        log.warning("the list of the account of %s is not read: set %s", TOKEN.name, ACCOUNT.name)
    for sid, token in tokens.items():
        if sid != main:
            account = _told_account(settings, tokens, sid)
            found.append(TwilioList(settings, adapter, sid, sid, token, ACCOUNT_TOKENS.name, account))
    if not found:
        raise Unset(f"its list of calls is not read: set {ACCOUNT.name}")
    return found


def _told_account(settings: Settings, tokens: Mapping[str, str], sid: str) -> str:
    """The account under which the webhooks of `sid` are kept, as the adapter's `verify` says: another one would be another key.

    "" where the main token or a SharedKey signs them, the account's own id where a token of TWILIO_ACCOUNT_TOKENS does.
    """
    is_shared_only = settings.value(SHARED_KEY_ONLY.name).strip().casefold() in {"yes", "true", "1"}
    token = tokens.get(sid)
    return "" if is_shared_only or token is None or token == settings.value(TOKEN.name).strip() else sid


def _access(settings: Settings, sid: str) -> tuple[str, str, str]:
    if settings.value(KEY.name).strip():
        key, secret = needed(settings, KEY.name, SECRET.name)
        return key, secret, f"{ACCOUNT.name}, {KEY.name} and {SECRET.name}"
    if settings.value(TOKEN.name).strip():
        return sid, settings.value(TOKEN.name).strip(), f"{ACCOUNT.name} and {TOKEN.name}"
    raise Unset(f"its list of calls is not read: set {TOKEN.name}, or {KEY.name} and {SECRET.name}")
