# SPDX-License-Identifier: Apache-2.0
"""ckpt's tools for Python programs: what they report as JSON is returned as dataclasses.

`raw` of each is the tool's whole report; the man pages describe it. Options that have no parameter here go into
``options``, as on the command line.
"""
from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ._calls import ToolError, call_tool, error_of_tool, find, parsed_json

__all__ = [
    "CarriedFiles",
    "CheckReport",
    "Device",
    "DumpReport",
    "Image",
    "RunningProgram",
    "SuspendReport",
    "ToolError",
    "check",
    "devices",
    "dump",
    "find",
    "images",
    "ps",
    "restore",
    "restore_detached",
    "resume",
    "run",
    "suspend",
]

PathLike = Union[str, "os.PathLike[str]"]
Raw = Mapping[str, Any]


def _raw() -> Any:
    return field(repr=False, compare=False)


@dataclass(frozen=True)
class Device:
    """A device as ``ckpt-run --list-devices`` shows it."""

    index: int
    api: str
    name: str
    raw: Raw = _raw()


@dataclass(frozen=True)
class RunningProgram:
    """A program under ckpt-run or ckpt-restore."""

    pid: int
    keeper: int
    user: str
    state: str
    program: str
    processes: int
    resident_bytes: int
    devices: tuple[str, ...]
    last_image: Optional[str]
    raw: Raw = _raw()


@dataclass(frozen=True)
class DumpReport:
    """An image that was written."""

    image: str
    pid: int
    processes: int
    bytes: int
    stored_bytes: int
    pause_seconds: float
    seconds: float
    remarks: tuple[str, ...]
    carried_files: int
    """How many files of the program the image carries (with_files), and their bytes."""
    carried_bytes: int
    raw: Raw = _raw()


@dataclass(frozen=True)
class CarriedFiles:
    """The files that an image would carry, and why it would leave others out."""

    files: tuple[str, ...]
    bytes: int
    left_out: Mapping[str, str]
    raw: Raw = _raw()


@dataclass(frozen=True)
class CheckReport:
    """Whether a dump is possible now. `reasons` are all that are in the way."""

    pid: int
    program: str
    possible: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    needs: Raw
    carried: Optional[CarriedFiles]
    """With with_files."""
    raw: Raw = _raw()


@dataclass(frozen=True)
class SuspendReport:
    """A program that has given its devices back."""

    pid: int
    device_bytes: int
    raw: Raw = _raw()


@dataclass(frozen=True)
class Image:
    """An image in a folder. `why` says what is wrong with one that is not "complete"."""

    image: str
    state: str
    program: str
    created: str
    bytes: int
    stored_bytes: int
    parent: Optional[str]
    encrypted: bool
    why: str
    raw: Raw = _raw()


def devices() -> list[Device]:
    """The devices of this machine, as all tools number them. Raises ToolError if there is none."""
    listed = call_tool("ckpt-run", "--list-devices", "--json")
    return [Device(int(d["index"]), d["api"], d["name"], d) for d in listed]


def run(
    command: Sequence[PathLike],
    *,
    device: Optional[str] = None,
    image: Optional[PathLike] = None,
    every: Optional[str] = None,
    options: Sequence[str] = (),
    **popen: Any,
) -> "subprocess.Popen[Any]":
    """Starts a program so that it can be checkpointed. The process is ckpt-run's; it ends as the program ends, and with
    85 if the program was checkpointed and stopped. ``popen`` is for subprocess.Popen."""
    words = [find("ckpt-run"), *options]
    for option, value in (("--device", device), ("--image", image), ("--every", every)):
        if value is not None:
            words += [option, os.fspath(value)]
    return subprocess.Popen([*words, "--", *(os.fspath(w) for w in command)], **popen)


def _carried(r: Optional[Raw]) -> Optional[CarriedFiles]:
    if r is None:
        return None
    return CarriedFiles(tuple(r["files"]), r["bytes"], {f["path"]: f["why"] for f in r["left_out"]}, r)


def check(pid: int, *, with_files: bool = False) -> CheckReport:
    """Looks whether the program of a process could be dumped now, and changes nothing. ``with_files``: also which files
    the image would carry."""
    words = ["--check", "--json", *["--with-files"] * with_files, str(pid)]
    r = call_tool("ckpt-dump", *words, also_fine=(1,))
    if "possible" not in r:
        raise error_of_tool("ckpt-dump", 1, r, "")
    return CheckReport(
        r["pid"],
        r["program"],
        r["possible"],
        tuple(r["reasons"]),
        tuple(r["remarks"]),
        r["needs"],
        _carried(r.get("carried")),
        r,
    )


def dump(
    pid: int,
    image: Optional[PathLike] = None,
    *,
    leave_running: bool = False,
    overwrite: bool = False,
    parent: Optional[PathLike] = None,
    with_files: bool = False,
    options: Sequence[str] = (),
) -> DumpReport:
    """Writes an image of the program of a process, and stops it unless ``leave_running``. ``with_files``: it carries the
    libraries and other files that the program only reads."""
    words = ["--json", *["--with-files"] * with_files, *options]
    words += ["--leave-running"] * leave_running + ["--overwrite"] * overwrite
    words += [] if image is None else ["--output", os.fspath(image)]
    words += [] if parent is None else ["--parent", os.fspath(parent)]
    r = call_tool("ckpt-dump", *words, str(pid))
    return DumpReport(
        r["image"],
        r["pid"],
        r["processes"],
        r["bytes"],
        r["stored_bytes"],
        r["pause_seconds"],
        r["seconds"],
        tuple(r["remarks"]),
        r["carried_files"],
        r["carried_bytes"],
        r,
    )


def suspend(pid: int, *, memory_only: bool = False, to: Optional[PathLike] = None) -> SuspendReport:
    """Makes the program of a process give its devices back until resume()."""
    words = ["--json", "--suspend=memory" if memory_only else "--suspend=full"]
    words += [] if to is None else ["--to", os.fspath(to)]
    r = call_tool("ckpt-dump", *words, str(pid))
    return SuspendReport(pid, int(r["device_bytes"]), r)


def resume(pid: int, *, device: Optional[str] = None, options: Sequence[str] = ()) -> None:
    """Lets a suspended program continue, or moves a running one, to the devices of ``device``."""
    words = [find("ckpt-restore"), *options, "--resume", str(pid)]
    words += [] if device is None else ["--device", device]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise error_of_tool("ckpt-restore", done.returncode, None, done.stderr)


def _restore_words(image: PathLike, device: Optional[str], options: Sequence[str]) -> list[str]:
    return [find("ckpt-restore"), *options, *([] if device is None else ["--device", device]), os.fspath(image)]


def restore(
    image: PathLike, *, device: Optional[str] = None, options: Sequence[str] = (), **popen: Any
) -> "subprocess.Popen[Any]":
    """Starts a program from an image, or from the newest of a series. The process is ckpt-restore's, and ends as the
    program ends."""
    return subprocess.Popen(_restore_words(image, device, options), **popen)


def restore_detached(image: PathLike, *, device: Optional[str] = None, options: Sequence[str] = ()) -> int:
    """Starts a program from an image in the background, and returns its PID once it runs. Raises ToolError."""
    with tempfile.TemporaryDirectory(prefix="ckpt-report-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            _restore_words(image, device, ["--detach", "--json-report", str(report), *options]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        said = parsed_json(report.read_text(encoding="utf-8", errors="replace")) if report.exists() else None
    if done.returncode != 0:
        raise error_of_tool("ckpt-restore", done.returncode, said, done.stderr)
    return int(done.stdout)


def ps(*, user: Optional[str] = None) -> list[RunningProgram]:
    """The programs that run under ckpt-run or ckpt-restore: one's own, or all if root asks."""
    listed = call_tool("ckpt-ps", "--json", *([] if user is None else ["--user", user]))
    return [
        RunningProgram(
            p["pid"],
            p["keeper"],
            p["user"],
            p["state"],
            p["program"],
            p["processes"],
            p["resident_bytes"],
            tuple(p["devices"]),
            p["last_image"],
            p,
        )
        for p in listed
    ]


def images(folder: PathLike = ".", *, verify: bool = False) -> list[Image]:
    """The images in a folder, damaged ones too."""
    words = ["list", "--json", *(["--verify"] if verify else []), os.fspath(folder)]
    return [
        Image(
            i["image"],
            i["state"],
            i["program"],
            i["created"],
            i["bytes"],
            i["stored_bytes"],
            i["parent"] or None,
            i["encrypted"],
            i["why"],
            i,
        )
        for i in call_tool("ckpt-image", *words, also_fine=(1,))
    ]
