# SPDX-License-Identifier: Apache-2.0
"""Small files on a disk that vanish while a program does not run: a restore makes them again, with their folders."""
import os
import pathlib
import shutil
import uuid

import pytest

from conftest import criu_with, image_manifest
from test_restore import refused

# Counts in a file that it has mapped, and holds another one and a FIFO open. Says what both files contain.
COUNTS = """
import mmap, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with open(folder / "inner" / "deep" / "mapped", "r+b") as f:
    shared = mmap.mmap(f.fileno(), 4096)
open_only = open(folder / "open", "rb")
fifo = os.open(folder / "fifo", os.O_RDWR)
count = 0
while not pathlib.Path("finish").exists():
    count += 1
    shared[:8] = count.to_bytes(8, "little")
    print(count, os.pread(open_only.fileno(), 99, 0).decode(), flush=True)
    time.sleep(0.02)
    found = int.from_bytes(shared[:8], "little")
    if found != count:
        sys.exit(f"{found} instead of {count}")
"""


@pytest.fixture
def temporary():
    """A folder in the disk's folder for temporary files, with what an MPI library has there."""
    parent = pathlib.Path("/var/tmp")
    folder = parent / f"ckpt-test-{uuid.uuid4().hex[:12]}"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "inner").chmod(0o750)
    folder.chmod(0o701)
    (folder / "inner" / "deep" / "mapped").write_bytes(bytes(4096))
    (folder / "open").write_text("text")
    os.mkfifo(folder / "fifo", 0o600)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def dumped(ckpt, folder):
    job = ckpt.run("/usr/bin/python3", "-c", COUNTS, folder)
    job.wait_lines(3)
    ckpt.dump(job.pid, "img")
    assert job.wait() == 85


def runs_on(ckpt):
    copy = ckpt.restore("img")
    copy.wait_lines(5)
    ckpt.finish()
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-1].endswith(" text")


def test_a_removed_folder_is_made_again(ckpt, temporary):
    dumped(ckpt, temporary)
    shutil.rmtree(temporary)
    runs_on(ckpt)
    assert [(temporary / p).stat().st_mode & 0o7777 for p in (".", "inner")] == [0o701, 0o750]


def test_a_file_that_exists_is_not_changed(ckpt, temporary):
    dumped(ckpt, temporary)
    shutil.rmtree(temporary / "inner")
    opened = (temporary / "open").stat()
    runs_on(ckpt)
    assert (temporary / "open").stat().st_mtime_ns == opened.st_mtime_ns


def test_files_elsewhere_are_the_users(ckpt, temporary):
    """A log, or a file outside of a folder for temporary files, is not in the image."""
    dumped(ckpt, temporary)
    kept = image_manifest(ckpt.folder / "img")["manifest"]["kept_files"]
    assert sorted(f["path"] for f in kept) == [str(temporary / "inner/deep/mapped"), str(temporary / "open")]


def test_a_folder_that_cannot_be_made_is_named(ckpt, temporary):
    dumped(ckpt, temporary)
    shutil.rmtree(temporary)
    temporary.write_text("a file is in its place")
    error = refused(ckpt, "img")
    temporary.unlink()
    assert str(temporary / "inner") in error and "make that folder" in error, error


def test_a_failed_restore_removes_what_it_made(ckpt, temporary):
    dumped(ckpt, temporary)
    shutil.rmtree(temporary)
    job = ckpt.restore("img", env=criu_with(ckpt, before_restore=f"ls {temporary} >made; false"))
    assert job.wait() == 1
    assert (ckpt.folder / "made").read_text().split() == ["fifo", "inner", "open"]
    assert not temporary.exists()
