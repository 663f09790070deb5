"""The job: search, then create, then write a note. Whatever fails is raised, and RQ tries again."""

from __future__ import annotations

import os

import requests

TIMEOUT_S = (float(os.environ.get("GHL_CONNECT_TIMEOUT_S", "3.05")), float(os.environ.get("GHL_READ_TIMEOUT_S", "10")))


def make_lead(phone: str, call_sid: str) -> None:
    if not phone.startswith("+"):
        return
    location = os.environ["GHL_LOCATION_ID"]
    found = call("GET", "/contacts/search/duplicate", params={"locationId": location, "number": phone})["contact"]
    if not found:
        found = call("POST", "/contacts/", json={"locationId": location, "phone": phone, "source": "Phone call"})["contact"]
    call("POST", f"/contacts/{found['id']}/notes", json={"body": f"Inbound call {call_sid}"})


def call(method: str, path: str, **details):
    headers = {"Authorization": f"Bearer {os.environ['GHL_TOKEN']}", "Version": "2021-07-28"}
    answer = requests.request(method, os.environ["GHL_BASE_URL"] + path, headers=headers, timeout=TIMEOUT_S, **details)
    answer.raise_for_status()
    return answer.json()
