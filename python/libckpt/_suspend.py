# SPDX-License-Identifier: Apache-2.0
"""The program gives up its devices for a while."""
from __future__ import annotations

import contextlib
import os
from typing import Iterator, Union

from ._library import call, in_session


def resume() -> None:
    """Takes the devices again after suspended() could not. Raises Error if they still lack memory."""
    if in_session():
        call("ckpt_resume")


@contextlib.contextmanager
def suspended(
    folder: Union[str, "os.PathLike[str]", None] = None, *, memory_only: bool = False
) -> Iterator[None]:
    """A block in which the program holds no device: others may use it, or reset it.

    The contents of device memory go into an unnamed file in ``folder``, or into host memory. With ``memory_only``,
    only memory is given back, which is faster; what CUDA's driver keeps itself stays on the device.

    Every device call of any thread waits until the end of the block, so the block itself must make none. If the
    devices lack memory at its end, Error is raised, and the program stays suspended: call resume() again, or
    ``ckpt-restore --resume`` from outside. Outside of a session the block runs as it is.
    """
    if not in_session():
        yield
        return
    name = "ckpt_suspend_memory" if memory_only else "ckpt_suspend"
    call(name, None if folder is None else os.fsencode(os.path.abspath(os.fspath(folder))))
    try:
        yield
    finally:
        resume()
