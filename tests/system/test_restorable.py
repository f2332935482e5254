# SPDX-License-Identifier: Apache-2.0
"""A program is ended only for an image that can be restored; what cannot be restored is refused by name."""
import os
import select
import signal
import socket
import subprocess
import time

import pytest

from conftest import commands_of, tree_of, wait_for
from test_kills import held, kill, state, tool
from test_restore import dumped, refused

WITH_CHILD = "sleep 1000 & while ! test -e finish; do echo x; sleep 0.05; done"


def continued(process):
    """The exit code and the error of a dump that is held, perhaps several times: it may begin again."""
    while held(process):
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    return process.returncode, process.communicate()[1]


def test_a_program_that_is_killed_after_it_was_recorded_leaves_no_image(ckpt):
    """What was read of it may be incomplete."""
    job = ckpt.run("sh", "-c", WITH_CHILD)
    job.wait_lines(3)
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "one", hold="check")
    assert held(process)
    program = job.program()
    kill([program])
    wait_for(lambda: state(program) in ("Z", None), "the program's end")
    code, error = continued(process)
    assert code == 1, error
    assert not (ckpt.folder / "one").exists() and ckpt.partials() == []


def test_a_child_that_is_killed_after_criu_has_saved_it_makes_the_dump_fail(ckpt):
    """Its descriptors can no longer be recorded."""
    job = ckpt.run("sh", "-c", WITH_CHILD)
    job.wait_lines(3)
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "one", hold="record")
    assert held(process)
    [child] = [p for p in tree_of(job.program()) if commands_of([p]) == ["sleep 1000 "]]
    kill([child])
    wait_for(lambda: state(child) in ("Z", None), "the child's end")
    code, error = continued(process)
    assert code == 1 and "was killed while it was recorded" in error and "keeps running" in error, error
    assert not (ckpt.folder / "one").exists()
    job.wait_lines(len(job.lines) + 3)
    ckpt.dump(job.pid, "two")
    ckpt.restore("two").wait_lines(3)


# Not by Python's own mmap, which keeps the file open.
READS_TABLE = """
import ctypes, os, time
mmap = ctypes.CDLL(None).mmap
mmap.restype, mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
fd = os.open("table", os.O_RDONLY)
table = mmap(None, 4096, 1, 1, fd, 0)  # PROT_READ, MAP_SHARED
os.close(fd)
while True:
    print(ctypes.string_at(table, 3).decode(), flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("change", ["contents", "size"])
def test_a_table_that_another_program_changes_is_accepted_with_a_warning(ckpt, change):
    """As nscd's, which the C library maps in every program."""
    table = ckpt.folder / "table"
    table.write_bytes(b"old" + bytes(4093))
    dumped(ckpt, "/usr/bin/python3", "-c", READS_TABLE)
    with open(table, "r+b") as f:
        f.write(b"new")
        if change == "size":
            f.truncate(8192)
    copy = ckpt.restore("one")
    copy.wait_lines(3)
    assert "new" in copy.lines
    assert f"the file {table} was modified since the dump" in copy.error_text
    table.write_bytes(b"new")
    copy.kill()
    assert f"{table}, which the program has mapped, has changed" in refused(ckpt, "one")


def test_all_files_with_other_rights_are_refused_at_once(ckpt):
    for name in "ab":
        (ckpt.folder / name).write_text("text")
        (ckpt.folder / name).chmod(0o644)
    dumped(ckpt, "sh", "-c", "exec 5<a 6<b; while :; do echo x; sleep 0.05; done")
    (ckpt.folder / "a").chmod(0o600)
    (ckpt.folder / "b").chmod(0o640)
    error = refused(ckpt, "one")
    assert "a has the mode 600 instead of 644: change it (chmod 644)" in error, error
    assert "b has the mode 640 instead of 644: change it (chmod 644)" in error, error
    (ckpt.folder / "a").chmod(0o644)
    (ckpt.folder / "b").chmod(0o644)
    ckpt.restore("one").wait_lines(3)


def test_an_epoll_descriptor_of_another_process_is_refused_by_its_number(ckpt):
    """A program in the terminal of an editor has inherited the editor's descriptor."""
    ends = socket.socketpair()
    inherited = select.epoll()
    inherited.register(ends[0].fileno(), select.EPOLLIN)
    os.set_inheritable(inherited.fileno(), True)
    process = subprocess.Popen([ckpt.tool("ckpt-run"), "--", "sh", "-c", WITH_CHILD], env=ckpt.env, cwd=ckpt.folder, close_fds=False,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline() == "x\n"
        error = ckpt.dump_refused(process.pid, "one")
        assert f"descriptor {inherited.fileno()} is an epoll descriptor that watches a file" in error, error
        assert "was not touched" in error and process.stdout.readline() == "x\n"
    finally:
        kill(tree_of(process.pid) + [process.pid])
        process.wait()
        process.stdout.close()


def test_an_undamaged_image_is_verified_as_complete(ckpt):
    dumped(ckpt, "sh", "-c", WITH_CHILD)
    verified = subprocess.run([ckpt.tool("ckpt-image"), "verify", "--json", "one"], cwd=ckpt.folder, env=ckpt.env,
                              capture_output=True, text=True)
    assert verified.returncode == 0 and '"reasons": []' in verified.stdout, verified.stdout
