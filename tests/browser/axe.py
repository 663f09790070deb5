"""axe-core, the accessibility checker: fetched once from npm into var/, since its file is larger than the rest of the tests."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

VERSION = "4.14.1"
CACHE = Path(__file__).parents[2] / "var" / "axe" / f"axe-{VERSION}.min.js"


class NoAxeError(RuntimeError):
    """axe-core could not be had. The message says how."""


def source() -> str:
    """The checker's script. Raises NoAxeError."""
    if not CACHE.exists():
        _fetch()
    return CACHE.read_text("utf-8")


def _fetch() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxeError(f"npm is missing: install it, or put axe-core's axe.min.js ({VERSION}) at {CACHE.name} in var/axe/")
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    pack = [npm, "pack", f"axe-core@{VERSION}", "--silent"]
    done = subprocess.run(pack, cwd=CACHE.parent, capture_output=True, text=True, timeout=60, check=False)
    archive = CACHE.parent / f"axe-core-{VERSION}.tgz"
    if done.returncode or not archive.exists():
        raise NoAxeError(f"npm could not fetch axe-core {VERSION}: {done.stderr.strip()[:300]}")
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        member = packed.extractfile("package/axe.min.js")
        script = member.read() if member else b""
    archive.unlink()
    part = CACHE.with_suffix(".part")
    part.write_bytes(script)
    part.rename(CACHE)  # two test workers may fetch at once
