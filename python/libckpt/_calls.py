# SPDX-License-Identifier: Apache-2.0
"""Calls of ckpt's tools: where they are, and what they report."""
from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any, Sequence

from ._errors import Error, ErrorCode
from ._tree import tool_in_tree


class ToolError(Error):
    """A tool has failed. The text is its message.

    exit_code  the tool's
    kind       "refused", "failed", "cancelled", "usage", … (ckpt-dump(1))
    hint       what to do about it; may be empty
    reasons    everything that is in the way, if it is refused
    """

    def __init__(
        self, text: str, exit_code: int, kind: str = "failed", hint: str = "", reasons: Sequence[str] = ()
    ) -> None:
        super().__init__(f"{text} ({hint})" if hint else text, ErrorCode.FAILED)
        self.exit_code, self.kind, self.hint, self.reasons = exit_code, kind, hint, tuple(reasons)


def find(name: str) -> str:
    """The path of a tool: the wheel's, or the one that PATH leads to. Raises Error."""
    path = tool_in_tree(name) or shutil.which(name)
    if path is None:
        raise Error(f"there is no {name}: install ckpt's tools, or the wheel, or set PATH", ErrorCode.SYSTEM)
    return path


def parsed_json(text: str) -> Any:
    """What a tool has printed; None: it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def error_of_tool(name: str, exit_code: int, report: Any, errors: str) -> ToolError:
    """From the object "error" of a report, or from what the tool said on standard error."""
    error = report.get("error") if isinstance(report, dict) else None
    if isinstance(error, dict):
        return ToolError(
            str(error.get("what", f"{name} has failed")),
            exit_code,
            str(error.get("kind", "failed")),
            str(error.get("hint", "")),
            [str(r) for r in error.get("reasons", [])],
        )
    return ToolError(errors.strip() or f"{name} ended with {exit_code}", exit_code)


def call_tool(name: str, *arguments: str, also_fine: Sequence[int] = ()) -> Any:
    """The JSON that a tool prints. Raises ToolError if it fails, except with the exit codes of `also_fine`."""
    done = subprocess.run(
        [find(name), *arguments], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )
    report = parsed_json(done.stdout)
    if report is None or (done.returncode != 0 and done.returncode not in also_fine):
        raise error_of_tool(name, done.returncode, report, done.stderr)
    return report
