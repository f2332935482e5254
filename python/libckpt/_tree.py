# SPDX-License-Identifier: Apache-2.0
"""The tools and libraries that a wheel contains.

An image refers to the libraries that its program had mapped, and CRIU restores it only if they are unchanged. `pip
install -U` and the end of a virtual environment would remove them. So the whole tree is copied at first use into a
folder of the user that is named after the build, and is used from there; it stays until the user removes it.
"""
from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import Optional

from ._errors import Error, ErrorCode

PACKED = Path(__file__).resolve().parent / "tree"
"""In an installed wheel; elsewhere there is none, and the system's tools are used."""

_BUILD = "build-id"
_LINKS = "links"  # a wheel cannot contain symbolic links


def is_packed() -> bool:
    """Whether this module came in a wheel, with tools."""
    return (PACKED / _BUILD).is_file()


def builds_folder() -> Path:
    """Where the trees of all builds are: XDG_DATA_HOME/ckpt/builds. A HOME of another user (sudo) is not used."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):
        return Path(data) / "ckpt" / "builds"
    home = os.environ.get("HOME", "")
    try:
        own = os.path.isabs(home) and os.stat(home).st_uid == os.geteuid()
    except OSError:
        own = False
    return Path(home if own else pwd.getpwuid(os.geteuid()).pw_dir) / ".local" / "share" / "ckpt" / "builds"


def _check_owner(folder: Path) -> None:
    """What is executed from there is as good as its owner."""
    state = folder.lstat()
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise Error(
            f"{folder} belongs to another user, or others can write it: ckpt executes nothing from there (remove it, "
            "or set XDG_DATA_HOME to a folder of your own)",
            ErrorCode.SYSTEM,
        )


def _copy(target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        shutil.copytree(PACKED, made / "tree", symlinks=True)
        for line in (PACKED / _LINKS).read_text().splitlines():
            name, leads_to = line.split(" ", 1)
            os.symlink(leads_to, made / "tree" / name)
        os.chmod(made / "tree", 0o700)
        os.rename(made / "tree", target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def user_tree() -> Optional[Path]:
    """The tree of this build in the user's folder, which is made if need be. None: the module is not from a wheel."""
    if not is_packed():
        return None
    target = builds_folder() / (PACKED / _BUILD).read_text().strip()
    try:
        if not target.is_dir():
            _copy(target)
        _check_owner(target)
    except OSError as error:
        raise Error(
            f"cannot copy ckpt's tools and libraries to {target}, where images find them after an upgrade: {error} (set "
            "XDG_DATA_HOME to a folder that you can write)",
            ErrorCode.SYSTEM,
        ) from error
    return target


def library_in_tree(name: str) -> Optional[str]:
    """A library of the wheel, for a program whose LD_LIBRARY_PATH does not lead to it."""
    tree = user_tree()
    found = sorted(tree.glob(f"lib/**/ckpt/*/{name}")) if tree else []
    return str(found[0]) if found else None


def tool_in_tree(name: str) -> Optional[str]:
    """A tool of the wheel."""
    tree = user_tree()
    path = tree / "bin" / name if tree else None
    return str(path) if path is not None and path.exists() else None
