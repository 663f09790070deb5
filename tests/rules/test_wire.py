"""What other processes, other versions and queued jobs rely on."""

from __future__ import annotations

import importlib
import inspect
import re

from tests.rules.test_tests import calls
from tests.rules.tree import ROOT, name, nodes, parsed, python_files, text

JOB = "handlers.run_call.run_call"
QUEUE = "calls"


def test_the_path_of_the_job_never_changes() -> None:
    from bridge.work import queues

    assert queues.JOB == JOB, "jobs queued by the version before carry this path: a worker of the new version could not run them"


def test_the_job_takes_a_call_key_and_nothing_else() -> None:
    module, _, function = JOB.rpartition(".")
    run_call = getattr(importlib.import_module(module), function)
    assert list(inspect.signature(run_call).parameters) == ["call_key"], "queued jobs carry one argument, the call key; keep it so"


def test_the_name_of_the_queue_never_changes() -> None:
    from bridge.work import queues

    assert queues.QUEUE == QUEUE, "jobs wait in rq:queue:calls: under another name nobody would take them"


def test_there_is_one_queue_and_one_place_that_names_it() -> None:
    named = [
        f"{name(path)}:{call.lineno}"
        for path in python_files("app.py", "bridge", "handlers")
        for call, called in calls(parsed(path))
        if called == "Queue" and name(path) != "bridge/work/queues.py"
    ]
    assert not named, f"{named} make an RQ queue: use bridge.work.queues.calls_queue (with two queues a worker can lose a job)"


def test_the_queue_is_listened_to() -> None:
    listeners = [
        name(path)
        for path in python_files("app.py", "bridge")
        if name(path).startswith(("app.py", "bridge/parts.py", "bridge/commands/", "bridge/work/"))
        and name(path) != "bridge/work/queues.py"
        and {"QUEUE", "calls_queue"} & {getattr(node, "id", getattr(node, "attr", "")) for node in nodes(path)}
    ]
    assert listeners, "no worker listens to bridge.work.queues.QUEUE: jobs would wait for ever"


def test_the_procfile_starts_web_and_worker() -> None:
    lines = dict(re.findall(r"^(\w+): *(\S.*)$", text(ROOT / "Procfile") or "" if (ROOT / "Procfile").exists() else "", re.MULTILINE))
    assert set(lines) == {"web", "worker"}, f"the Procfile has {sorted(lines)}; two kinds of process suffice: web and worker"
    assert "gunicorn" in lines["web"], "web is served by gunicorn"
    assert "worker" in lines["worker"], "worker runs the command that supervises the RQ workers and the sweeper"
