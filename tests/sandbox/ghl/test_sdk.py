"""The official Python SDK as a client that knows nothing of us: async, `Version: v3`, a private integration token.

Its base URL is a class attribute and nothing else (highlevel/highlevel.py), so that a subclass points it here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sandbox.ghl.conftest import PHONE

highlevel = pytest.importorskip("highlevel", reason="the official SDK is not installed: pip install gohighlevel-api-client")


def with_sdk(ghl, work):
    """Run `work(client)` with an SDK client of the stand-in, and close it."""

    class Client(highlevel.HighLevel):
        BASE_URL = ghl.url

    async def run():
        client = Client(private_integration_token=ghl.world.token, log_level="error")
        try:
            return await work(client)
        finally:
            await client.close()

    # In a thread of its own: the browser tests leave an event loop running in theirs.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(run())).result()


def test_sdk_creates_finds_and_notes_a_contact(ghl):
    location = ghl.world.location_id

    async def work(client):
        created = await client.contacts.create_contact({"locationId": location, "phone": PHONE, "tags": ["call"]})
        contact_id = created["contact"]["id"]
        found = await client.contacts.get_duplicate_contact(location, number=PHONE)
        filters = [{"field": "phone", "operator": "eq", "value": PHONE}]
        hits = await client.contacts.search_contacts_advanced({"locationId": location, "pageLimit": 1, "filters": filters})
        noted = await client.contacts.create_note(contact_id, {"body": "key-1"})
        notes = await client.contacts.get_all_notes(contact_id)
        return contact_id, found["contact"]["id"], hits["contacts"][0]["id"], noted["note"]["id"], notes["notes"][0]["id"]

    contact_id, by_duplicate, by_search, noted, listed = with_sdk(ghl, work)
    assert contact_id == by_duplicate == by_search
    assert noted == listed
    assert ghl.truth.notes_with("key-1") == {contact_id: 1}


def test_sdk_reads_the_location_tags_and_upserts(ghl):
    async def work(client):
        location = await client.locations.get_location(ghl.world.location_id)
        upserted = await client.contacts.upsert_contact({"locationId": ghl.world.location_id, "phone": PHONE})
        tagged = await client.contacts.add_tags(upserted["contact"]["id"], {"tags": ["call"]})
        return location["location"]["settings"]["allowDuplicateContact"], upserted["new"], tagged["tags"]

    assert with_sdk(ghl, work) == (False, True, ["call"])


def test_sdk_shows_the_refused_duplicate_with_its_contact_id(ghl):
    known = ghl.add_contact(phone=PHONE)

    async def work(client):
        with pytest.raises(highlevel.GHLError) as caught:
            await client.contacts.create_contact({"locationId": ghl.world.location_id, "phone": PHONE})
        return caught.value

    error = with_sdk(ghl, work)
    assert (error.status_code, error.response["meta"]["contactId"]) == (400, known.id)
