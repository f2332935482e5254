# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a Python program by ckpt, from inside of the program.

A program needs none of this to be checkpointed: ``ckpt-run python3 train.py`` is enough. With this module it
can choose a good moment, run code of its own before and after every checkpoint, leave memory out of images,
and give up its devices for a while::

    import libckpt as ckpt

    for step in range(steps):
        train(step)
        ckpt.checkpoint(every="10m")

Outside of a session, that is, in a program that neither ckpt-run nor ckpt-restore has started, the functions do
nothing: no library is loaded and no thread is started.

``libckpt.tools`` calls ckpt-run, ckpt-dump and the other tools, for programs outside.
"""
from ._arrays import NotExcludable
from ._callbacks import Registration, on_checkpoint
from ._checkpoint import Result, available, checkpoint
from ._errors import DevicesLost, Error, ErrorCode
from ._exclude import Exclusion, exclude
from ._outcome import Outcome
from ._restored import generation, reopen
from ._suspend import resume, suspended
from ._version import __version__

__all__ = [
    "DevicesLost",
    "Error",
    "ErrorCode",
    "Exclusion",
    "NotExcludable",
    "Outcome",
    "Registration",
    "Result",
    "__version__",
    "available",
    "checkpoint",
    "exclude",
    "generation",
    "on_checkpoint",
    "reopen",
    "resume",
    "suspended",
]
