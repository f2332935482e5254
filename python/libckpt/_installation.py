# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an installation: clashes with other packages, and what only root can install."""
from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from typing import Iterator, Optional

from ._calls import find

DISTRIBUTION = "libckpt"


def _scripts(distribution: importlib.metadata.Distribution) -> set[str]:
    return {e.name for e in distribution.entry_points if e.group == "console_scripts"} | {
        os.path.basename(str(f)) for f in distribution.files or [] if re.search(r"(^|/)bin/[^/]+$", str(f))
    }


def clashes() -> Iterator[str]:
    """Other packages of this environment that have scripts of our names: pip lets the last one win."""
    try:
        ours = _scripts(importlib.metadata.distribution(DISTRIBUTION))
    except importlib.metadata.PackageNotFoundError:
        return
    for other in importlib.metadata.distributions():
        name = str(other.metadata["Name"])
        if name == DISTRIBUTION:
            continue
        for script in sorted(ours & _scripts(other)):
            yield (
                f"the package {name} has a script {script}, too, and pip lets the last one win: install them in "
                f"different environments, or call python3 -m libckpt {script.removeprefix('ckpt-')}"
            )


def problem_with_criu() -> Optional[str]:
    """Why this machine's CRIU is missing or too old, as ckpt-dump finds it."""
    said = subprocess.run([find("ckpt-dump"), "--version"], capture_output=True, text=True, check=False).stdout
    problem = next((line for line in said.splitlines() if line.startswith("no CRIU: ")), None)
    if problem is None:
        return None
    return (
        f"{problem.removeprefix('no CRIU: ')}: without CRIU 4.2 or later, programs can be suspended and resumed, but "
        "neither dumped nor restored (root installs it: a package criu, or ckpt-criu of ckpt's Debian packages; "
        "CKPT_CRIU names another one)"
    )


def problem_with_rights() -> Optional[str]:
    """CRIU needs root, a capability or the helper."""
    socket = os.environ.get("CKPT_HELPER", "/run/ckpt-helper.sock")
    if os.geteuid() == 0 or os.path.exists(socket):
        return None
    return (
        "you are not root, and ckpt-helper does not run here: ckpt-dump and ckpt-restore need root, "
        "CAP_CHECKPOINT_RESTORE, or the helper that root installs with the system's packages (see ckpt-helper(8))"
    )


def report() -> list[str]:
    """All problems, one line each."""
    found = list(clashes())
    return found + [p for p in (problem_with_criu(), problem_with_rights()) if p]
