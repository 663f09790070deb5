#!/usr/bin/env python3
"""Brings the calls of an Asterisk or FreePBX to Callbridge. One file, Python 3.8 or later, nothing to install.

    AGI(callbridge_asterisk.py,start,name=value,…)   in the dialplan: write an event into a folder, which takes milliseconds
    callbridge_asterisk.py send                      as a service: sign what is in the folder and post it, until each was taken
    callbridge_asterisk.py send --once               one pass, for a test or for cron; ends 0 when the folder is empty

Environment of `send`: CALLBRIDGE_URL (https://bridge.example.com/webhooks/asterisk/call), CALLBRIDGE_SECRET (ASTERISK_HMAC_SECRET of the
bridge). Both read CALLBRIDGE_SPOOL, the folder (default /var/spool/callbridge); Asterisk's user has to be able to write there.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO

EVENTS = ("start", "answer", "input", "end")
# What Asterisk tells each AGI script by itself: https://docs.asterisk.org/Configuration/Interfaces/Asterisk-Gateway-Interface-AGI/
FROM_AGI = {
    "agi_uniqueid": "uniqueid",
    "agi_channel": "channel",
    "agi_callerid": "callerid_num",
    "agi_calleridname": "callerid_name",
    "agi_dnid": "dnid",
    "agi_rdnis": "rdnis",
}
FOR_GOOD = {400, 404, 405, 410, 413}  # the same request would never be taken
WAIT_S, LONGEST_WAIT_S, TIMEOUT_S = 1.0, 60.0, 10.0


def tell(line: str) -> None:
    """To standard error: an AGI script's standard output is read by Asterisk as commands."""
    sys.stderr.write(line + "\n")


def spool() -> Path:
    return Path(os.environ.get("CALLBRIDGE_SPOOL", "/var/spool/callbridge"))


def note(event: str, told: list[str], agi: IO[str]) -> None:
    """Write one event into the folder: complete under its final name, or not there at all."""
    fields = {"event": event, "ts": str(int(time.time()))}
    for line in agi:
        name, colon, value = line.rstrip("\n").partition(": ")
        if not line.strip():
            break
        if colon and name in FROM_AGI:
            fields[FROM_AGI[name]] = "" if value == "unknown" else value  # what Asterisk writes where there is none
    fields.update(part.split("=", 1) for part in told if "=" in part and part.split("=", 1)[1])
    name = f"{time.time_ns()}-{os.getpid()}"
    unfinished = spool() / f".{name}"
    unfinished.write_text(urllib.parse.urlencode(fields), "utf-8")
    unfinished.rename(spool() / f"{name}.form")


def send_all(url: str, secret: str) -> bool:
    """Post what is in the folder, oldest first. False as soon as one has to wait, so that the order stays."""
    for waiting in sorted(spool().glob("*.form")):
        status = post(url, secret, waiting.read_bytes())
        if 200 <= status < 300:
            waiting.unlink()
        elif status in FOR_GOOD:
            waiting.rename(waiting.with_suffix(".refused"))
            tell(f"{waiting.name} was refused for good ({status}); it is kept as .refused")
        else:
            tell(f"{waiting.name} has to wait ({status or 'no answer'})")
            return False
    return True


def post(url: str, secret: str, body: bytes) -> int:
    """The status of the answer, 0 where none came. Signed anew for each try, since the time in it may be five minutes old at most."""
    timestamp = str(int(time.time()))
    signature = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-PBX-Timestamp": timestamp,
        "X-PBX-Signature": f"sha256={signature}",
    }
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - the owner's own URL
    try:
        with urllib.request.build_opener(NoRedirects).open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST arrives as a GET without its body, and its 200 would mean nothing."""

    def redirect_request(self, *_: object) -> None:
        return None


def send(*, once: bool) -> int:
    url, secret = os.environ["CALLBRIDGE_URL"], os.environ["CALLBRIDGE_SECRET"]
    wait_s = WAIT_S
    while True:
        is_empty = send_all(url, secret)
        if once:
            return 0 if is_empty else 1
        wait_s = WAIT_S if is_empty else min(wait_s * 2, LONGEST_WAIT_S)
        time.sleep(wait_s)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["send"]:
        return send(once="--once" in arguments)
    if not arguments or arguments[0] not in EVENTS:
        tell(__doc__ or "")
        return 2
    note(arguments[0], arguments[1:], sys.stdin)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
