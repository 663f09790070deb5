"""Importing the project in an empty environment touches nothing."""

from __future__ import annotations

import subprocess
import sys

from tests.rules.tree import ROOT, our_modules

# Runs in a process of its own: an audit hook can never be taken away again.
# socket.bind is not watched: urllib3 tries whether ::1 can be bound while it is imported.
_IMPORT_ALL = """
import importlib, os, sys

FORBIDDEN = {
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "sqlite3.connect", "subprocess.Popen",
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.mkdir", "os.remove", "os.rename", "os.putenv",
    "signal.pthread_kill", "shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp",
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
importing = ""

def watch(event, args):
    if not importing:
        return
    if event in FORBIDDEN or (event == "open" and isinstance(args[2], int) and args[2] & WRITES and args[0] != os.devnull):
        sys.stderr.write(f"importing {importing} does {event} {args!r}\\n")
        sys.stderr.flush()
        os._exit(3)

sys.addaudithook(watch)
sys.path.insert(0, sys.argv[1])
for importing in sys.argv[2:]:
    importlib.import_module(importing)
importing = ""
"""


def test_importing_any_module_touches_nothing() -> None:
    code = [sys.executable, "-B", "-c", _IMPORT_ALL, str(ROOT), *sorted(our_modules())]
    done = subprocess.run(code, env={}, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    assert done.returncode == 0, f"{said}. Move it into a function that is called when it is needed. In full:\n{done.stderr[-3000:]}"
    assert not done.stdout, f"importing prints: {done.stdout[:300]}"
