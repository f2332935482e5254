# SPDX-License-Identifier: Apache-2.0
"""Memory files: files of a tmpfs that a program has mapped shared. Their contents are part of the image."""
import os
import pathlib
import re
import subprocess
import threading
import uuid

import pytest

from conftest import criu_with, image_manifest, wait_for
from test_restore import refused

# Counts in shared memory, and in its own memory: the two must agree at any time.
COUNTS = """
import mmap, os, pathlib, sys, time
path, size = sys.argv[1], int(sys.argv[2])
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
os.ftruncate(fd, size)
shared = mmap.mmap(fd, size)
os.close(fd)
count = 0
while not pathlib.Path("finish").exists():
    count += 1
    for at in (0, size - 8):
        shared[at:at + 8] = count.to_bytes(8, "little")
    print(count, flush=True)
    time.sleep(0.02)
    for at in (0, size - 8):
        found = int.from_bytes(shared[at:at + 8], "little")
        if found != count:
            sys.exit(f"{found} instead of {count}")
"""


@pytest.fixture
def shm():
    path = pathlib.Path("/dev/shm") / f"ckpt-test-{uuid.uuid4().hex[:12]}"
    yield path
    for p in path.parent.glob(path.name + "*"):
        p.unlink()


def counting(ckpt, path, size=1 << 20):
    job = ckpt.run("/usr/bin/python3", "-c", COUNTS, path, str(size))
    job.wait_lines(3)
    return job


def runs_on(job):
    """It prints, and has found the right contents each time."""
    job.wait_lines(len(job.lines) + 5)


def dumped_and_run_on(ckpt, shm, *options, size=1 << 20):
    """An image of a program that ran on and was killed."""
    job = counting(ckpt, shm, size)
    ckpt.dump(job.pid, "one", "--leave-running", *options)
    runs_on(job)
    os.kill(job.program(), 9)
    job.wait()


def test_an_image_has_the_contents_of_its_moment(ckpt, shm):
    dumped_and_run_on(ckpt, shm)
    for _ in range(2):
        copy = ckpt.restore("one")
        runs_on(copy)
        os.kill(copy.program(), 9)
        copy.wait()


def test_shared_memory_is_created_again_after_a_restart_of_the_machine(ckpt, shm):
    dumped_and_run_on(ckpt, shm)
    shm.unlink()
    copy = ckpt.restore("one")
    runs_on(copy)
    assert shm.stat().st_mode & 0o777 == 0o640
    ckpt.finish()
    assert copy.wait() == 0, copy.error_text


def test_an_increment_has_the_contents_too(ckpt, shm):
    job = counting(ckpt, shm)
    ckpt.dump(job.pid, "one", "--leave-running")
    ckpt.dump(job.pid, "two", "--parent", "one")
    job.wait()
    shm.write_bytes(b"otherwise")
    runs_on(ckpt.restore("two"))


def test_holes_take_no_room(ckpt, shm):
    size = 64 << 30
    dumped_and_run_on(ckpt, shm, size=size)
    assert image_manifest(ckpt.folder / "one")["manifest"]["memory_files"][0]["size"] == size
    shm.write_bytes(b"x" * (8 << 20))
    copy = ckpt.restore("one")
    runs_on(copy)
    st = shm.stat()
    assert st.st_size == size and st.st_blocks * 512 <= 4 << 20


def test_a_copy_beside_its_original_is_refused(ckpt, shm):
    job = counting(ckpt, shm)
    ckpt.dump(job.pid, "one", "--leave-running")
    error = refused(ckpt, "one")
    assert str(shm) in error and f"process {job.program()} " in error
    runs_on(job)


def test_memory_that_another_program_can_change_is_refused(ckpt, shm):
    job = counting(ckpt, shm)
    other = subprocess.Popen(["sleep", "1000"], stdout=open(shm, "r+b"))
    try:
        error = ckpt.dump_refused(job.pid, "one")
        assert str(shm) in error and f"process {other.pid} (sleep)" in error
    finally:
        other.kill()
        other.wait()
    with open(shm, "rb"):  # a reader does not matter
        ckpt.dump(job.pid, "one")


def test_a_failed_restore_removes_what_it_made(ckpt, shm):
    dumped_and_run_on(ckpt, shm)
    shm.unlink()
    job = ckpt.restore("one", env=criu_with(ckpt, before_restore=f"stat -c %s {shm} >size; false"))
    assert job.wait() == 1
    assert (ckpt.folder / "size").read_text().strip() == str(1 << 20) and not shm.exists()


def test_memory_of_another_user_is_refused(ckpt, shm):
    dumped_and_run_on(ckpt, shm)
    os.chown(shm, 12345, 12345)
    assert f"{shm}, the program's shared memory, belongs to user 12345" in refused(ckpt, "one")


SEMAPHORE = """
import ctypes, pathlib, sys, time
c = ctypes.CDLL(None, use_errno=True)
c.sem_open.restype = ctypes.c_void_p
semaphore = ctypes.c_void_p(c.sem_open(sys.argv[1].encode(), 0o100, 0o600, 0))
own = 0
value = ctypes.c_int()
while not pathlib.Path("finish").exists():
    own += 1
    c.sem_post(semaphore)
    c.sem_getvalue(semaphore, ctypes.byref(value))
    if value.value != own:
        sys.exit(f"{value.value} instead of {own}")
    print(own, flush=True)
    time.sleep(0.02)
again = ctypes.c_void_p(c.sem_open(sys.argv[1].encode(), 0))
c.sem_getvalue(again, ctypes.byref(value))
sys.exit(value.value != own)
"""


@pytest.mark.parametrize("restarted", [False, True])
def test_a_named_semaphore_has_the_value_of_the_image(ckpt, shm, restarted):
    name = pathlib.Path("/dev/shm") / f"sem.{shm.name}"
    job = ckpt.run("/usr/bin/python3", "-c", SEMAPHORE, "/" + shm.name)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", "--leave-running")
    runs_on(job)
    os.kill(job.program(), 9)
    job.wait()
    kept = pathlib.Path(image_manifest(ckpt.folder / "one")["manifest"]["memory_files"][0]["path"])
    try:
        if restarted:
            name.unlink()
            kept.unlink()
        copy = ckpt.restore("one")
        runs_on(copy)
        ckpt.finish()
        assert copy.wait() == 0, copy.error_text
    finally:
        kept.unlink()
        name.unlink()


def test_names_that_another_dump_uses_are_waited_for(ckpt, shm):
    """CRIU numbers the names of unlinked files. Two dumps or restores in one folder use the same ones."""
    job = ckpt.run("/usr/bin/python3", "-c", SEMAPHORE, "/" + shm.name)
    job.wait_lines(3)
    names = [pathlib.Path(f"/dev/shm/link_remap.{n}") for n in range(1, 200)]

    def make_while(function):
        for name in names:
            name.write_text("another program's")
        timer = threading.Timer(1.5, lambda: [name.unlink() for name in names])
        timer.start()
        try:
            return function()
        finally:
            timer.join()
    make_while(lambda: ckpt.dump(job.pid, "one"))
    kept = pathlib.Path(image_manifest(ckpt.folder / "one")["manifest"]["memory_files"][0]["path"])
    try:
        runs_on(make_while(lambda: ckpt.restore("one")))
    finally:
        kept.unlink()


def test_later_contents_of_a_shared_mapping_of_a_disk_file_are_named(ckpt):
    """Files on disks are not part of an image."""
    path = ckpt.folder / "mapped"
    job = counting(ckpt, path)
    ckpt.dump(job.pid, "one", "--leave-running")
    runs_on(job)
    os.kill(job.program(), 9)
    job.wait()
    copy = ckpt.restore("one")
    wait_for(lambda: re.search(f"{path} was modified since the dump", copy.error_text), "the warning")
