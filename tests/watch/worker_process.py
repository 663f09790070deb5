"""A worker process as in production: logs, then alerts, then RQ's forking worker until the queue is empty.

python -m tests.watch.worker_process REDIS_URL DSN
"""

from __future__ import annotations

import sys

import redis
from rq import Queue, Worker
from rq.serializers import JSONSerializer

from bridge.settings import LogFormat
from bridge.watch import alerts, logs


def main(redis_url, dsn):
    logs.configure(LogFormat.JSON, "DEBUG", sys.stdout)
    alerts.configure(dsn, owner="ops@example.org", release="1.2.3", environment="test")
    connection = redis.Redis.from_url(redis_url)
    queue = Queue("calls", connection=connection, serializer=JSONSerializer)
    worker = Worker([queue], connection=connection, serializer=JSONSerializer, work_horse_killed_handler=report_killed)
    worker.work(burst=True, logging_level="DEBUG")


def report_killed(job, *_what):
    alerts.report("the work horse was killed", call_key=job.id, owner="night shift", cause="worker.killed", step="note_call")


if __name__ == "__main__":
    main(*sys.argv[1:])
