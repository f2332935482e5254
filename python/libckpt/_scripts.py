# SPDX-License-Identifier: Apache-2.0
"""The console scripts of the wheel: each becomes the tool of its name."""
from __future__ import annotations

import os
import sys

from ._errors import Error
from ._tree import builds_folder, is_packed, tool_in_tree

WRONG_USAGE = 125
"""What ckpt's tools return for an error of their own before a program has started."""


def become(name: str, arguments: list[str]) -> int:
    """Executes a tool of the wheel, or the system's, in this process. Returns only if that fails."""
    try:
        if is_packed() and not builds_folder().exists():
            _warn_once()
        path = tool_in_tree(name)
        if path is None:
            os.execvp(name, [name, *arguments])
        os.execv(path, [path, *arguments])
    except Error as error:
        print(f"{name}: error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{name}: error: cannot execute it: {error}", file=sys.stderr)
        print(f"{name}:   what to do: install ckpt's tools, or the wheel that contains them", file=sys.stderr)
    return WRONG_USAGE


def _warn_once() -> None:
    from ._installation import clashes

    for clash in clashes():
        print(f"ckpt: warning: {clash}", file=sys.stderr)


def main() -> int:
    """The entry point of every script."""
    return become(os.path.basename(sys.argv[0]), sys.argv[1:])
