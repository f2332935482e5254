# SPDX-License-Identifier: Apache-2.0
"""The program starts its own checkpoints."""
from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import Optional, Union

from ._errors import Error
from ._library import CResult, call, in_session, library
from ._outcome import Outcome
from ._seconds import seconds_of

_STOP = 1
_OVERWRITE = 2
_WITH_FILES = 8


@dataclass(frozen=True)
class Result:
    """What a call of checkpoint() has done."""

    outcome: Outcome
    image: Optional[str] = None
    """The image's folder; None if no checkpoint was made."""
    seconds: float = 0.0
    """CONTINUED: how long device calls had to wait. RESTORED: wall-clock time since the checkpoint."""
    device_bytes: int = 0
    """Device memory of this process that was saved."""

    @property
    def restored(self) -> bool:
        """This is a copy, started from the image."""
        return self.outcome is Outcome.RESTORED


def available() -> bool:
    """Whether the functions of this module have an effect: the program runs under ckpt-run or ckpt-restore, and the
    library can be loaded. If only the library is missing, checkpoint() says so."""
    if not in_session():
        return False
    try:
        library()
    except Error:
        return False
    return True


class _Clock:
    """When the last checkpoint was made. CLOCK_MONOTONIC goes on in a restored program."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def due(self, seconds: float) -> bool:
        """Whether that much time has passed. Then it counts from now on: a checkpoint that fails is not tried again
        in every step."""
        if time.monotonic() - self._last < seconds:
            return False
        self.made()
        return True

    def made(self) -> None:
        """A checkpoint was made, or has failed."""
        self._last = time.monotonic()


_clock = _Clock()


def _default_image() -> str:
    """The same for all checkpoints of one program: its PID is the same in a restored copy."""
    script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    name = re.sub(r"[^\w.-]", "_", script).lstrip(".-") or "python"
    return f"ckpt-{name}-{os.getpid()}.img"


def checkpoint(
    path: Union[str, "os.PathLike[str]", None] = None,
    stop: bool = False,
    every: Union[float, str, None] = None,
    *,
    overwrite: bool = True,
    with_files: bool = False,
) -> Result:
    """Writes an image of the whole program, that is, of every process that ckpt-run started.

    Returns like fork(): once in the program, and once in every copy that is started from the image (with
    ``result.restored``). All callbacks of on_checkpoint() have returned by then. Other threads continue meanwhile,
    until the tools stop them.

    path       the image's folder. Default: ``ckpt-SCRIPT-PID.img`` in the current directory.
    stop       end the program once the image is complete; only copies return.
    every      do nothing unless this time has passed since the last checkpoint, or since the import of this module:
               seconds, or a text such as "90s", "10m" or "1h30m".
    overwrite  replace an existing image. With False, that is an error.
    with_files the image carries the interpreter, libraries and other files that the program has mapped or open and only
               reads, for a machine where they are missing or differ. What it imports or opens later is not among them.

    Raises Error if the checkpoint is refused or fails (the program continues as before), and DevicesLost.
    Outside of a session nothing happens: the outcome is NO_SESSION.
    """
    interval = None if every is None else seconds_of(every)
    if not in_session():
        return Result(Outcome.NO_SESSION)
    if interval is not None and not _clock.due(interval):
        return Result(Outcome.NOT_DUE)
    image = os.path.abspath(os.fspath(path) if path is not None else _default_image())
    flags = (_STOP if stop else 0) | (_OVERWRITE if overwrite else 0) | (_WITH_FILES if with_files else 0)
    result = CResult()
    outcome = Outcome(call("ckpt_checkpoint", os.fsencode(image), flags, ctypes.byref(result)))
    _clock.made()
    return Result(outcome, image, float(result.seconds), int(result.device_bytes))
