"""The naive bridge as a deployment that a storm can be let loose on: the same Redis, CRM stand-in and number of processes."""

from __future__ import annotations

import requests
from rq import Queue
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry, StartedJobRegistry

from bridge.ledger.entry import State
from bridge.sandbox.deployment import READY_WITHIN_S
from bridge.sandbox.processes import Process
from bridge.sandbox.proof.storm import StormDeployment
from bridge.sandbox.proof.truth_table import Row, by_sid

STUCK_AFTER_LOOKS = 60  # a job whose worker was killed stays "started" for minutes; a storm does not wait for that


class NaiveDeployment(StormDeployment):
    """What RQ knows of its jobs takes the place of the ledger."""

    _idle_looks = 0

    def await_ready(self, within_s: float = READY_WITHIN_S) -> None:
        for url in self.urls:
            self.await_true(lambda url=url: requests.get(f"{url}/healthz", timeout=5).ok, f"{url} answers", within_s)

    def progress(self) -> tuple[int, int]:
        with self.connection() as connection:
            queue = Queue("leads", connection=connection)
            waiting = len(queue) + len(ScheduledJobRegistry(queue=queue))
            started = connection.zcard(StartedJobRegistry(queue=queue).key)
            failed = connection.zcard(FailedJobRegistry(queue=queue).key)
        ended = sum(not note["deleted"] for note in self.ghl.notes()) + failed
        self._idle_looks = 0 if waiting else self._idle_looks + 1
        return ended, waiting + (started if self._idle_looks < STUCK_AFTER_LOOKS else 0)

    def rows(self) -> list[Row]:
        """A failed job is a question; a note on a living contact is a lead; a caller without a number is passed over, and rightly so."""
        with self.connection() as connection:
            queue = Queue("leads", connection=connection)
            jobs = Job.fetch_many(FailedJobRegistry(queue=queue).get_job_ids(cleanup=False), connection)
            failed = [_row(job.args[1], State.NEEDS_ATTENTION, None) for job in jobs if job]
            ended = Job.fetch_many(FinishedJobRegistry(queue=queue).get_job_ids(cleanup=False), connection)
            finished = [_row(job.args[1], State.DONE, None) for job in ended if job and not job.args[0].startswith("+")]
        contacts = {one["id"] for one in self.ghl.contacts() if one["alive"]}
        done = [
            _row(note["body"].split()[-1], State.DONE, note["contact_id"]) for note in self.ghl.notes() if note["contact_id"] in contacts
        ]
        return list((by_sid(finished) | by_sid(failed) | by_sid(done)).values())

    def _make_processes(self, workers: int) -> list[Process]:
        made = super()._make_processes(workers)
        for process in made:
            if process.name.startswith("web"):
                process.command = ["gunicorn", "--config", "tests/naive/gunicorn_conf.py", "tests.naive.app:app"]
            elif process.name.startswith("worker"):
                clock = process.command[: list(process.command).index("flask")]  # the wrong one of worker-2
                process.command = [*clock, "rq", "worker", "--url", self.redis.url, "--with-scheduler", "leads"]
        return made


def _row(sid: str, state: State, contact_id: str | None) -> Row:
    told = {"call_key": sid, "state": state.value, "contact_id": contact_id, "waiting_for": None, "attempts": []}
    return told | {"cause": "exhausted", "cause_word": "rq.failed", "message": "three retries failed"}
