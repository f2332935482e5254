"""The repository's own files, as git lists them."""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.lru_cache
def tracked():
    """Every tracked file that exists, relative to ROOT."""
    out = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [Path(f) for f in out.split("\0") if f and (ROOT / f).is_file()]
