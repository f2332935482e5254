# SPDX-License-Identifier: Apache-2.0
"""python3 -m libckpt COMMAND …: ckpt's tools without their scripts.

  run SCRIPT.py …    this Python's interpreter with SCRIPT.py under ckpt-run
  doctor             what is missing here, and clashes with other packages
  builds             the folders of tools and libraries that wheels have copied, which images need
  dump, restore, …   ckpt-dump, ckpt-restore, …
"""
from __future__ import annotations

import sys
from typing import Callable

from ._errors import Error
from ._scripts import WRONG_USAGE, become
from ._tree import builds_folder

TOOLS = ("run", "dump", "restore", "image", "ps", "history", "fatbin")


def _script_at(words: list[str]) -> int:
    """The index of the script among the arguments of `run`: the first that ends in .py, or follows "--"."""
    for i, word in enumerate(words):
        if word == "--":
            return i + 1
        if word.endswith(".py"):
            return i
    return len(words)


def _run(words: list[str]) -> int:
    at = _script_at(words)
    if at < len(words) and words[at].endswith(".py"):
        options = [w for w in words[:at] if w != "--"]
        words = [*options, "--", sys.executable, *words[at:]]
    return become("ckpt-run", words)


def _doctor(_words: list[str]) -> int:
    from ._installation import report

    problems = report()
    for problem in problems:
        print(f"- {problem}")
    print("nothing is missing" if not problems else f"{len(problems)} remarks")
    return 1 if problems else 0


def _builds(_words: list[str]) -> int:
    folder = builds_folder()
    for build in sorted(folder.iterdir()) if folder.is_dir() else []:
        print(build)
    return 0


def main(words: list[str]) -> int:
    """Runs a command, and returns the exit code."""
    own: dict[str, Callable[[list[str]], int]] = {"run": _run, "doctor": _doctor, "builds": _builds}
    name = words[0] if words else ""
    try:
        if name in own:
            return own[name](words[1:])
        if name in TOOLS:
            return become(f"ckpt-{name}", words[1:])
    except Error as error:
        print(f"libckpt: error: {error}", file=sys.stderr)
        return WRONG_USAGE
    print((__doc__ or "").rstrip(), file=sys.stdout if name in ("-h", "--help") else sys.stderr)
    return 0 if name in ("-h", "--help") else WRONG_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
