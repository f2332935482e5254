# SPDX-License-Identifier: Apache-2.0
"""What a program must do again after a restore, such as opening a data set that comes over the network."""
from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable, Iterable, Iterator, Optional, TypeVar

from ._callbacks import Registration, on_checkpoint
from ._library import in_session
from ._outcome import Outcome

T = TypeVar("T")


class _Counter:
    def __init__(self) -> None:
        self.value = 0
        self.forget()

    def forget(self) -> None:
        """The child of a fork has neither the callback nor the thread that may have held the lock."""
        self._lock = threading.Lock()
        self._registration: Optional[Registration] = None

    def _note(self, outcome: Outcome) -> None:
        if outcome is Outcome.RESTORED:
            self.value += 1

    def start(self) -> None:
        with self._lock:
            if self._registration is None and in_session():
                self._registration = on_checkpoint(after=self._note)


_restores = _Counter()
os.register_at_fork(after_in_child=_restores.forget)


def generation() -> int:
    """How often the program was restored since it first called this function: 0 in the original. A number that has
    changed says that this is a copy. The first call starts the count."""
    _restores.start()
    return _restores.value


def _close(source: Any) -> None:
    """A source from before the restore; its connection may be gone."""
    with contextlib.suppress(Exception):
        close = getattr(source, "close", None)
        if close is not None:
            close()


def reopen(open_at: Callable[[int], Iterable[T]]) -> Iterator[T]:
    """The items of ``open_at(0)``; after a restore, those of ``open_at(n)``, where n items were delivered before.

    For sources that an image cannot hold, or that are to be read anew: ``for batch in ckpt.reopen(loader_from):``.
    The old source is closed. An item that it has prepared but not delivered is read again.
    """
    position = 0
    while True:
        opened_in = generation()
        source = iter(open_at(position))
        try:
            while generation() == opened_in:
                try:
                    item = next(source)
                except StopIteration:
                    return
                except Exception:
                    if generation() == opened_in:
                        raise
                    break  # a connection of before the restore
                position += 1
                yield item
        finally:
            _close(source)
