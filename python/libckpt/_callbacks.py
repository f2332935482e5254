# SPDX-License-Identifier: Apache-2.0
"""Code of the program that runs around every checkpoint.

The agent's thread calls it and takes the GIL for that. That cannot block a checkpoint for ever: `before` runs
while device calls still pass, and `after` when they pass again, so a thread that holds the GIL in a device call
returns from it. And this module calls the library without the GIL.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
from types import TracebackType
from typing import Any, Callable, Optional

from ._library import AFTER, BEFORE, call, in_session
from ._outcome import Outcome

Before = Callable[[], object]
After = Callable[[Outcome], object]


class Registration:
    """Callbacks of on_checkpoint(). remove(), or the end of a ``with`` block, takes them back."""

    def __init__(self, before: Optional[Before], after: Optional[After]) -> None:
        self._before, self._after = before, after
        self._id = 0
        self._reason = b""
        self._running_in = 0  # the thread that is in one of the callbacks
        # The library keeps only the addresses of these.
        self._c_before = BEFORE(self._call_before) if before else BEFORE()
        self._c_after = AFTER(self._call_after) if after else AFTER()

    def _call_before(self, _user: Any, reason: Any) -> int:
        self._running_in = threading.get_ident()
        try:
            if self._before:
                self._before()
            return 0
        except BaseException as error:
            text = str(error) or type(error).__name__
            self._reason = text.replace("\0", " ").encode(errors="replace")  # must stay valid until the next call
            if reason:
                reason[0] = self._reason
            return 1
        finally:
            self._running_in = 0

    def _call_after(self, _user: Any, outcome: int) -> None:
        self._running_in = threading.get_ident()
        try:
            if self._after:
                self._after(Outcome(outcome))
        except BaseException:  # the agent's thread has no caller to raise it to
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        finally:
            self._running_in = 0

    def _start(self) -> None:
        self._id = call("ckpt_on_checkpoint", self._c_before, self._c_after, None)
        with _lock:
            _registered[self._id] = self

    def remove(self) -> None:
        """Afterwards neither callback runs. May be called again, and from the callbacks themselves."""
        with _lock:
            known = _registered.pop(self._id, None)
        if known is not None:
            call("ckpt_remove_callbacks", self._id)
            if self._running_in == threading.get_ident():
                _kept.append(self)  # the callback has called this, and returns into memory of the registration

    def __enter__(self) -> "Registration":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.remove()


_lock = threading.Lock()
_registered: dict[int, Registration] = {}
_kept: list[Registration] = []


def on_checkpoint(before: Optional[Before] = None, after: Optional[After] = None) -> Registration:
    """Registers callbacks that run around every checkpoint and suspend of this process, however it was started.

    before()        in order of registration, before devices are stopped. It may use devices, wait for other threads
                    and close what an image cannot hold, such as a connection to another machine. An exception
                    refuses the checkpoint, and its text is the reason that the tool reports; the `after` of the
                    same registration is then not called.
    after(outcome)  in the opposite order, once for every `before` that agreed; outcome is CONTINUED, RESTORED or
                    FAILED. An exception is printed.

    Both run on a thread of ckpt, not on the main thread, and must not call checkpoint() or suspended(). Tell an event
    loop by ``loop.call_soon_threadsafe``. Outside of a session nothing is registered. The child of a fork has no
    callbacks.
    """
    registration = Registration(before, after)
    if in_session():
        registration._start()
    return registration


def _remove_all() -> None:
    """At exit: a thread that is not Python's own cannot call Python code any more once the interpreter has ended."""
    with _lock:
        all_of_them = list(_registered.values())
    for registration in all_of_them:
        registration.remove()


def _forget() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _registered.clear()
    _kept.clear()


atexit.register(_remove_all)
os.register_at_fork(after_in_child=_forget)
