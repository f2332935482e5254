# SPDX-License-Identifier: Apache-2.0
"""What the workers of one run (pytest-xdist) share: folders, so that a program is compiled once, and
turns, so that a test that compares times runs alone."""
import contextlib
import fcntl
import os


def shared_folder(factory, name):
    """A folder of this run. `factory` is pytest's tmp_path_factory."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    folder.mkdir(exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(path, how=fcntl.LOCK_EX):
    with open(path, "a") as f:
        fcntl.flock(f, how)
        yield


@contextlib.contextmanager
def turn(factory, alone):
    """The time of one test. While a test waits to be alone, no other begins."""
    folder = shared_folder(factory, "turns")
    with contextlib.ExitStack() as inside:
        with locked(folder / "entry"):
            inside.enter_context(locked(folder / "running", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield


def make_once(target, make):
    """Calls make() unless another test of this run has made `target`, and returns it."""
    with locked(f"{target}.lock"):
        if not target.exists():
            make()
    return target
