"""How the hosted phone systems show their lists of calls; apart from the clients, like bridge/sandbox/call_list_carriers.py."""

from __future__ import annotations

import base64
from datetime import datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from bridge.sandbox.call_list_types import Answer, Asked, Calls, Shape, World, iso, iso_at

# ---- CallRail, Aircall, Dialpad


def _callrail(asked: Asked, calls: Calls, world: World) -> Answer:
    zone = ZoneInfo(world.time_zone)
    first, last = asked.query["start_date"], asked.query["end_date"]
    found = [call for call in calls if first <= f"{datetime.fromtimestamp(call.started, zone):%Y-%m-%d}" <= last]
    size, offset = min(int(asked.query["per_page"]), world.page_size), int(asked.query.get("offset", 0))
    has_next = offset + size < len(found)
    rows = [
        {
            "id": call.id,
            "customer_phone_number": call.caller,
            "tracking_phone_number": call.dialled,
            "direction": call.direction,
            "answered": call.status == "completed",
            "voicemail": False,
            "duration": call.duration_s,
            "start_time": datetime.fromtimestamp(call.started, zone).isoformat(),
            "call_type": "answered" if call.status == "completed" else "missed",
        }
        for call in found[offset : offset + size]
    ]
    following = f"{world.url}{asked.path}?{urlencode({**asked.query, 'offset': offset + size})}"
    return Answer(200, {"calls": rows, "has_next_page": has_next, "next_page": following if has_next else None, "per_page": size})


def _aircall(asked: Asked, calls: Calls, world: World) -> Answer:
    since, until = float(asked.query["from"]), float(asked.query["to"])
    found = [call for call in calls if since <= call.started <= until]
    size, number = min(int(asked.query["per_page"]), world.page_size, 50), int(asked.query.get("page", 1))
    # Its own link need not hold the filter, and following it would begin with the account's oldest call.
    following = f"{world.url}{asked.path}?page={number + 1}&per_page={size}" if number * size < len(found) else None
    rows = [
        {
            "id": int(call.id),
            "direction": call.direction,
            "status": "done",
            "missed_call_reason": None if call.status == "completed" else "agents_did_not_answer",
            "started_at": int(call.started),
            "answered_at": int(call.started) if call.status == "completed" else None,
            "ended_at": int(call.ended),
            "duration": call.duration_s,
            "raw_digits": call.caller,
            "number": {"digits": call.dialled},
        }
        for call in found[(number - 1) * size : number * size]
    ]
    return Answer(200, {"meta": {"total": len(found), "current_page": number, "next_page_link": following}, "calls": rows})


def _dialpad(asked: Asked, calls: Calls, world: World) -> Answer:
    """Concluded calls, the newest first, in milliseconds."""
    since, until = int(asked.query["started_after"]) / 1000, int(asked.query["started_before"]) / 1000
    found = [call for call in calls if since <= call.started <= until and call.status != "in-progress"][::-1]
    offset = int(base64.b64decode(asked.query.get("cursor", "MA==")))
    rows = [
        {
            "call_id": call.id,
            "entry_point_call_id": call.parent,
            "direction": call.direction,
            "external_number": call.caller,
            "internal_number": call.dialled,
            "date_started": f"{call.started * 1000:.0f}",
            "date_connected": f"{call.started * 1000:.0f}" if call.status == "completed" else None,
            "date_ended": f"{call.ended * 1000:.0f}",
            "duration": call.duration_s * 1000.0,
            "state": "hangup",
        }
        for call in found[offset : offset + world.page_size]
    ]
    has_next = offset + world.page_size < len(found)
    cursor = {"cursor": base64.b64encode(str(offset + world.page_size).encode()).decode()} if has_next else {}
    return Answer(200, {"items": rows, **cursor})


def _quo(asked: Asked, calls: Calls, world: World) -> Answer:
    """The newest first; who took part, and by `actorId` on which side. Requests without the version are refused."""
    if not asked.headers.get("authorization") or asked.headers["authorization"].startswith("Bearer"):
        return Answer(401, {"message": "Unauthorized", "title": "Unauthorized"})  # the key stands there as it is
    if asked.headers.get("quo-api-version") != "2026-03-30":
        return Answer(400, {"message": "The Quo-Api-Version header is required", "title": "Bad Request"})
    since, until = iso_at(asked.query["createdAt[gte]"]), iso_at(asked.query["createdAt[lte]"])
    found = [call for call in calls if since <= call.started <= until][::-1]
    size, offset = min(int(asked.query.get("limit", 10)), world.page_size, 50), int(base64.b64decode(asked.query.get("after", "MA==")))
    rows = [
        {
            "id": call.id,
            "phoneNumberId": "PN1",
            "actorId": "US1",
            "direction": "incoming" if call.direction == "inbound" else "outgoing",
            "status": call.status,
            "participants": [{"phoneNumber": call.dialled, "actorId": "US1"}, {"phoneNumber": call.caller, "actorId": None}],
            "createdAt": iso(call.started),
            "answeredAt": iso(call.started) if call.status in {"completed", "in-progress"} else None,
            "completedAt": None if call.status == "in-progress" else iso(call.ended),
            "duration": call.duration_s,
        }
        for call in found[offset : offset + size]
    ]
    cursor = base64.b64encode(str(offset + size).encode()).decode() if offset + size < len(found) else None
    return Answer(200, {"data": rows, "nextCursor": cursor})


# ---- RingCentral


def _ringcentral_token(asked: Asked, calls: Calls, world: World) -> Answer:
    del calls, world
    is_known = asked.form.get("grant_type", "").endswith("jwt-bearer") and asked.form.get("assertion")
    return Answer(200, {"access_token": "made-up", "expires_in": 3600}) if is_known else Answer(400, {"error": "invalid_grant"})


def _ringcentral(asked: Asked, calls: Calls, world: World) -> Answer:
    since, until = iso_at(asked.query["dateFrom"]), iso_at(asked.query["dateTo"])
    found = [call for call in calls if since <= call.started <= until and call.direction == asked.query["direction"].lower()]
    size, number = min(int(asked.query["perPage"]), world.page_size), int(asked.query["page"])
    rows = [
        {
            "id": f"log-{call.id}",
            "telephonySessionId": call.id,
            "type": "Voice",
            "direction": call.direction.capitalize(),
            "result": "Accepted" if call.status == "completed" else "Missed",
            "startTime": iso(call.started),
            "duration": call.duration_s,
            "from": {"phoneNumber": call.caller},
            "to": {"phoneNumber": call.dialled},
        }
        for call in found[(number - 1) * size : number * size]
    ]
    following = {"nextPage": {"uri": f"{world.url}{asked.path}?page={number + 1}"}} if number * size < len(found) else {}
    return Answer(200, {"records": rows, "paging": {"page": number, "perPage": size}, "navigation": following})


SHAPES = (
    Shape("callrail", r"/v3/a/\w+/calls\.json", "Token token=", _callrail),
    Shape("aircall", r"/v1/calls", "Basic ", _aircall),
    Shape("dialpad", r"/api/v2/call", "Bearer ", _dialpad),
    Shape("quo", r"/calls", "", _quo),
    Shape("ringcentral", r"/restapi/oauth/token", "Basic ", _ringcentral_token),
    Shape("ringcentral", r"/restapi/v1\.0/account/~/call-log", "Bearer ", _ringcentral),
)
