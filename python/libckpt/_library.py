# SPDX-License-Identifier: Apache-2.0
"""libckpt.so.1 in this process, by ctypes.

Every function is called without the GIL (CDLL, not PyDLL): they wait for the agent's thread, which needs the GIL
for callbacks.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Optional

from ._errors import Error, ErrorCode, error_of
from ._tree import library_in_tree

NAME = "libckpt.so.1"

BEFORE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p))
AFTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


class CResult(ctypes.Structure):
    """``struct ckpt_result``."""

    _fields_ = [
        ("outcome", ctypes.c_int),
        ("seconds", ctypes.c_double),
        ("device_bytes", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 5),
    ]


_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ckpt_checkpoint": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(CResult)]),
    "ckpt_on_checkpoint": (ctypes.c_int, [BEFORE, AFTER, ctypes.c_void_p]),
    "ckpt_remove_callbacks": (ctypes.c_int, [ctypes.c_int]),
    "ckpt_exclude": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "ckpt_include": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "ckpt_suspend": (ctypes.c_int, [ctypes.c_char_p]),
    "ckpt_suspend_memory": (ctypes.c_int, [ctypes.c_char_p]),
    "ckpt_resume": (ctypes.c_int, []),
    "ckpt_last_error": (ctypes.c_char_p, []),
}

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def in_session() -> bool:
    """Whether ckpt-run or ckpt-restore has started this program. The variable's value in os.environ is the first
    session's even after a restore, so only its presence says anything."""
    return bool(os.environ.get("CKPT_SESSION"))


def _open() -> ctypes.CDLL:
    """By its name first: ckpt's drivers in this process may have loaded it already, and a second copy would be a
    second agent."""
    try:
        return ctypes.CDLL(NAME)
    except OSError as error:
        beside = library_in_tree(NAME)
        if beside is None:
            raise Error(
                f"cannot load {NAME}: {error} (start the program with ckpt-run, which sets LD_LIBRARY_PATH, and keep "
                "that variable)",
                ErrorCode.SYSTEM,
            ) from error
        return ctypes.CDLL(beside)


def library() -> ctypes.CDLL:
    """The library, with the types of its functions. Raises Error if it cannot be loaded."""
    global _loaded
    with _lock:
        if _loaded is None:
            found = _open()
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
            _loaded = found
        return _loaded


def call(name: str, *arguments: Any) -> int:
    """The value of a function that returns an int. Raises its error."""
    lib = library()
    value = int(getattr(lib, name)(*arguments))
    if value < 0:
        text = lib.ckpt_last_error()  # this thread's
        raise error_of(value, bytes(text or b"").decode(errors="replace"))
    return value


def _forget() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_forget)
