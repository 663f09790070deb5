"""Flask and RQ: verify the signature, queue a job when the call has ended, answer. Nothing here is wrong on a day without faults."""

from __future__ import annotations

import os

from flask import Flask, abort, request
from redis import Redis
from rq import Queue, Retry
from twilio.request_validator import RequestValidator

from tests.naive.jobs import make_lead

app = Flask(__name__)
queue = Queue("leads", connection=Redis.from_url(os.environ["REDIS_URL"]))
validator = RequestValidator(os.environ["TWILIO_AUTH_TOKEN"])


@app.post("/webhooks/twilio/<what>")
def webhook(what: str):
    url = os.environ["PUBLIC_URL"] + request.path
    if not validator.validate(url, request.form, request.headers.get("X-Twilio-Signature", "")):
        abort(403)
    if request.form.get("CallStatus") == "completed" and "ParentCallSid" not in request.form:
        queue.enqueue(make_lead, request.form["From"], request.form["CallSid"], retry=Retry(max=3))
    return "<Response/>", 200, {"Content-Type": "text/xml"}


@app.get("/healthz")
def healthz():
    return "ok"
