"""How the carriers show their lists of calls: path, proof, filter, page and row.

Written from the same pages as the clients (bridge/providers/lists/), and apart from them: it shares no code with what it tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from bridge.sandbox.call_list_types import Answer, Asked, Calls, SandboxCall, Shape, World, day, iso, iso_at, rfc2822

# ---- Twilio and those who kept its list


def _twilio(asked: Asked, calls: Calls, world: World) -> Answer:
    """Whole days in UTC; both ends are included."""
    first, last = asked.query.get("StartTime>", "0000"), asked.query.get("StartTime<", "9999")
    if any(not re.fullmatch(r"[0-9]{4}(-[0-9]{2}-[0-9]{2})?", end) for end in (first, last)):
        return Answer(400, {"message": "StartTime is no date"})
    return _laml(asked, [call for call in calls if first <= day(call.started) <= last], world, "inbound", "outbound-api")


def _signalwire(asked: Asked, calls: Calls, world: World) -> Answer:
    """An instant in RFC 2822."""
    since = parsedate_to_datetime(asked.query["StartTime>"]).timestamp()
    return _laml(asked, [call for call in calls if call.started >= since], world, "inbound", "outbound-api")


def _texml(asked: Asked, calls: Calls, world: World) -> Answer:
    texml = [call for call in calls if call.id.startswith("v3:")]
    return _twilio(asked, texml, world)


def _laml(asked: Asked, calls: Calls, world: World, inbound: str, outbound: str) -> Answer:
    size = min(int(asked.query.get("PageSize", 50)), world.page_size)
    number = int(asked.query.get("Page", 0))
    rows = calls[::-1][number * size : (number + 1) * size]  # the newest first
    has_next = (number + 1) * size < len(calls)
    uri = f"{asked.path}?{urlencode({**asked.query, 'Page': number + 1, 'PageToken': f'PA{number}'})}" if has_next else None
    return Answer(200, {"calls": [_laml_row(call, inbound, outbound) for call in rows], "next_page_uri": uri, "page": number})


def _laml_row(call: SandboxCall, inbound: str, outbound: str) -> dict[str, Any]:
    is_over = call.status != "in-progress"
    return {
        "sid": call.id,
        "parent_call_sid": call.parent,
        "from": call.caller,
        "to": call.dialled,
        "status": call.status,
        "direction": inbound if call.direction == "inbound" else "outbound-dial" if call.parent else outbound,
        "start_time": rfc2822(call.started),
        "end_time": rfc2822(call.ended) if is_over else None,
        "duration": str(call.duration_s) if is_over else None,
        "caller_name": None,
        "forwarded_from": None,
        "price": None,
    }


# ---- Telnyx, Plivo


def _deliveries(asked: Asked, calls: Calls, world: World) -> Answer:
    """Each webhook that was sent, with two events for a call. Pages are numbered from 1."""
    since, until = (iso_at(asked.query[f"filter[started_at][{end}]"]) for end in ("gte", "lte"))
    wanted = asked.query["filter[event_type]"].split(",")
    events = [event for call in calls if not call.id.startswith("v3:") for event in _telnyx_events(call)]
    found = [row for at, row in events if since <= at <= until and row["webhook"]["event_type"] in wanted]
    size, number = min(int(asked.query["page[size]"]), world.page_size), int(asked.query["page[number]"])
    pages = -(-len(found) // size)
    return Answer(200, {"data": found[(number - 1) * size : number * size], "meta": {"page_number": number, "total_pages": pages}})


def _telnyx_events(call: SandboxCall) -> list[tuple[float, dict[str, Any]]]:
    payload = {
        "call_session_id": call.parent or call.id,
        "call_leg_id": f"leg-{call.id}",
        "from": call.caller,
        "to": call.dialled,
        "start_time": iso(call.started),
    }
    began = payload | {"direction": "incoming" if call.direction == "inbound" else "outgoing", "state": "parked"}
    ended = payload | {"end_time": iso(call.ended), "hangup_cause": "normal_clearing"}
    return [
        (
            at,
            {
                "id": f"{kind}-{call.id}",
                "status": "failed",
                "started_at": iso(at),
                "webhook": _telnyx_event(f"call.{kind}", call, at, told),
            },
        )
        for kind, at, told in (("initiated", call.started, began), ("hangup", call.ended, ended))
    ]


def _telnyx_event(kind: str, call: SandboxCall, at: float, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"record_type": "event", "event_type": kind, "id": f"{kind}-{call.id}", "occurred_at": iso(at), "payload": payload}


def _plivo(asked: Asked, calls: Calls, world: World) -> Answer:
    """Times in the account's own zone, in the filter and in the rows; 20 rows a page, and the next page as a path."""
    zone = ZoneInfo(world.time_zone)
    since = datetime.fromisoformat(asked.query["end_time__gte"]).replace(tzinfo=zone).timestamp()
    found = [call for call in calls if call.ended >= since and call.direction == asked.query.get("call_direction", call.direction)]
    size, offset = min(int(asked.query["limit"]), world.page_size, 20), int(asked.query.get("offset", 0))
    following = f"{asked.path}?limit={size}&offset={offset + size}" if offset + size < len(found) else None  # without the filter

    def local(at: float) -> str:
        return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"

    rows = [
        {
            "call_uuid": call.id,
            "parent_call_uuid": call.parent,
            "call_direction": call.direction,
            "from_number": call.caller.removeprefix("+"),
            "to_number": call.dialled.removeprefix("+"),
            "initiation_time": local(call.started),
            "end_time": local(call.ended),
            "call_duration": call.duration_s,
            "call_state": "ANSWER" if call.status == "completed" else call.status.upper(),
        }
        for call in found[offset : offset + size]
    ]
    return Answer(200, {"api_id": "made-up", "meta": {"limit": size, "next": following, "total_count": len(found)}, "objects": rows})


# ---- Vonage, Bandwidth


def _vonage(asked: Asked, calls: Calls, world: World) -> Answer:
    since, until = iso_at(asked.query["date_start"]), iso_at(asked.query["date_end"])
    if until - since > 86_400:
        return Answer(422, {"title": "The range is longer than 24 hours"})
    found = [call for call in calls if since <= call.started < until and call.direction == asked.query["direction"]]
    number = int(asked.query.get("cursor", 0))
    rows = [
        {
            "call_id": f"leg-{call.id}",
            "conversation_id": call.id,
            "from": call.caller.removeprefix("+"),
            "to": call.dialled.removeprefix("+"),
            "direction": call.direction,
            "status": "unanswered" if call.status == "no-answer" else call.status,
            "date_start": iso(call.started),
            "date_end": iso(call.ended),
            "duration": str(call.duration_s),
        }
        for call in found[number * world.page_size : (number + 1) * world.page_size]
    ]
    following = f"{world.url}{asked.path}?{urlencode({**asked.query, 'cursor': number + 1})}"
    links = {"next": {"href": following}} if (number + 1) * world.page_size < len(found) else {}
    return Answer(200, {"request_status": "SUCCESS", "records": rows, "_links": links})


def _vonage_voice(asked: Asked, calls: Calls, world: World) -> Answer:
    """The Voice API: outbound legs of a visit stand beside the caller's, under the same conversation."""
    since, until = iso_at(asked.query["date_start"]), iso_at(asked.query["date_end"])
    found = [call for call in calls if since <= call.started <= until]
    size, offset = min(int(asked.query["page_size"]), world.page_size), int(asked.query.get("record_index", 0))
    rows = [
        {
            "uuid": f"leg-{call.id}",
            "conversation_uuid": call.parent or call.id,
            "direction": call.direction,
            "status": "unanswered" if call.status == "no-answer" else call.status,
            "from": {"type": "phone", "number": call.caller.removeprefix("+")},
            "to": {"type": "phone", "number": call.dialled.removeprefix("+")},
            "start_time": iso(call.started),
            "end_time": iso(call.ended),
            "duration": str(call.duration_s),
        }
        for call in found[offset : offset + size]
    ]
    following = f"{asked.path}?page_size={size}&record_index={offset + size}"  # without the filter
    links = {"next": {"href": following}} if offset + size < len(found) else {}
    return Answer(200, {"count": len(found), "_links": links, "_embedded": {"calls": rows}})


def _bandwidth(asked: Asked, calls: Calls, world: World) -> Answer:
    since, until = iso_at(asked.query["minStartTime"]), iso_at(asked.query["maxStartTime"])
    found = [call for call in calls if since <= call.started <= until]
    size, offset = min(int(asked.query["pageSize"]), world.page_size), int(asked.query.get("cursor", 0))
    rows = [
        {
            "callId": call.id,
            "parentCallId": call.parent,
            "from": call.caller,
            "to": call.dialled,
            "direction": call.direction,
            "state": "answered" if call.status == "in-progress" else "disconnected",
            "startTime": iso(call.started),
            "answerTime": iso(call.started) if call.status == "completed" else None,
            "endTime": iso(call.ended),
            "disconnectCause": "hangup" if call.status == "completed" else "timeout",
        }
        for call in found[offset : offset + size]
    ]
    following = f'<{world.url}{asked.path}?{urlencode({**asked.query, "cursor": offset + size})}>; rel="next"'
    return Answer(200, rows, {"Link": following} if offset + size < len(found) else {})


SHAPES = (
    Shape("twilio", r"/2010-04-01/Accounts/AC\w+/Calls\.json", "Basic ", _twilio),
    Shape("signalwire", r"/api/laml/2010-04-01/Accounts/[\w-]+/Calls", "Basic ", _signalwire),
    Shape("telnyx", r"/v2/webhook_deliveries", "Bearer ", _deliveries),
    Shape("telnyx", r"/v2/texml/Accounts/[\w-]+/Calls", "Bearer ", _texml),
    Shape("plivo", r"/v1/Account/\w+/Call/", "Basic ", _plivo),
    Shape("vonage", r"/v2/reports/records", "Basic ", _vonage),
    Shape("vonage", r"/v1/calls/?", "Bearer ", _vonage_voice),
    Shape("bandwidth", r"/api/v2/accounts/\w+/calls", "Basic ", _bandwidth),
)
