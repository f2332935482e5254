# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore --lazy as an ordinary user, by ckpt-helper: the tests of root's lazy restores, and requests by which a user
would get more than the memory of its own restored program. Everything runs as a real other user."""
import json
import os
import pathlib
import shutil
import signal
import socket
import threading

import pytest

from conftest import Job, wait_for
from lazy_program import RIGHT_LINES, dumped, held, image, touch  # noqa: F401
from lazy_users import Connection, descriptors, holds_nothing, lazy_helper, stopped, users_tools  # noqa: F401
from rootless import OTHER, UID, as_user, frame, helper, needs_helper, status, user  # noqa: F401
# The same tests, with the fixture `ckpt` of this file.
from test_lazy import (test_a_damaged_image_ends_the_program, test_a_page_was_written_before_its_contents_arrived,  # noqa: F401
                       test_a_program_reads_what_it_had_and_is_dumped_again, test_other_images,
                       test_pages_come_when_they_are_needed)
from test_lazy_kills import QUICK, STEPS, check_kills, stem_of

pytestmark = needs_helper

ONLY_ROOT_S = ["lazy-made"]  # steps


@pytest.fixture
def ckpt(users_tools):  # noqa: F811
    return users_tools


@pytest.mark.parametrize("victim", ["keeper", "guard", "stem", "tool"])
def test_a_kill_at_each_step(ckpt, image, victim, request):  # noqa: F811
    """The kernel ends a PID namespace with its stem: the keeper sees a killed program then, and says no more."""
    steps = [s for s in (STEPS if request.config.getoption("--full") else ["lazy-taken", *QUICK]) if s not in ONLY_ROOT_S]
    if victim in ("keeper", "stem"):  # with them any program ends that ckpt-helper has restored, lazily or not
        steps = [s for s in steps if s != "guard-released"]
    check_kills(ckpt, victim, steps, told=victim != "stem")


def test_nothing_of_it_is_left_in_the_program(ckpt, image):  # noqa: F811
    """Not while memory is owed, nor afterwards: no descriptor, no process of the helper's but worker and stem."""
    touch(ckpt, "finish")
    copy = held(ckpt, "memory-owed")
    program = copy.program()
    assert holds_nothing(program), descriptors(program)
    os.kill(copy.pid, signal.SIGCONT)
    copy.wait_text("\n")
    assert copy.lines == RIGHT_LINES[:1], copy.error_text
    wait_for(lambda: holds_nothing(copy.pid), "the end of the keeper's userfaultfds")
    assert holds_nothing(program) and holds_nothing(stem_of(program)) and os.stat(f"/proc/{program}/fd").st_uid == UID
    assert len(ckpt.helper.workers()) == 3 and all(holds_nothing(p) for p in ckpt.helper.workers())
    touch(ckpt, "end")
    assert copy.wait() == 0 and copy.lines == RIGHT_LINES, copy.error_text


# ---- refused before anything is touched


def refused_lazily(ckpt):
    touch(ckpt, "finish", "end")  # a program that is started nevertheless ends
    copy = ckpt.restore("one", "--lazy")
    assert copy.wait() == 1 and copy.text == "" and "nothing was started" in copy.error_text, copy.error_text
    return copy.error_text


def test_an_administrator_must_allow_it(ckpt, image, helper):  # noqa: F811
    ckpt.env["CKPT_HELPER"] = helper.socket
    said = refused_lazily(ckpt)
    assert "users may not restore lazily (--lazy) here" in said and "ckpt-helper(8)" in said, said
    copy = ckpt.restore("one")
    assert copy.wait() == 0 and copy.lines == RIGHT_LINES, copy.error_text


def test_without_a_helper(ckpt, image):  # noqa: F811
    ckpt.env["CKPT_HELPER"] = "/nonexistent"
    said = refused_lazily(ckpt)
    assert "ckpt-helper does not listen on /nonexistent" in said and "unless root or ckpt-helper restores it" in said, said


def answer_as_before(listener):
    """What a helper says that does not know the request."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            header = connection.recv(8)
            if len(header) < 8:
                continue
            what = f"this version of ckpt-helper does not know request {int.from_bytes(header[4:6], 'little')}".encode()
            connection.sendall(frame(65, len(what).to_bytes(4, "little") + what + bytes(4)))


def test_a_helper_that_is_too_old(ckpt, image):  # noqa: F811
    path = str(ckpt.runtime / "old.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen()
        threading.Thread(target=answer_as_before, args=[listener], daemon=True).start()
        ckpt.env["CKPT_HELPER"] = path
        said = refused_lazily(ckpt)
        listener.shutdown(socket.SHUT_RDWR)
    assert "this version of ckpt-helper does not know request 4" in said and "leave --lazy out" in said, said


def test_with_capabilities_of_the_user_s_own(ckpt, image):  # noqa: F811
    """CRIU works without the helper then, and nothing else may make the userfaultfds."""
    ckpt.prefix = as_user(UID, ["checkpoint_restore"])
    assert "unless root or ckpt-helper restores it" in refused_lazily(ckpt)


def test_root_restores_a_user_s_program_lazily(ckpt, image):  # noqa: F811
    touch(ckpt, "finish", "end")
    out = pathlib.Path(ckpt.folder) / "out"
    ckpt.prefix = []
    ckpt.restore_detached("one", "--lazy", "--trust-image", "--json-report", "report.json", "--output", out)
    wait_for(lambda: out.exists() and out.read_text().splitlines() == RIGHT_LINES, lambda: out.read_text())
    assert json.loads((pathlib.Path(ckpt.folder) / "report.json").read_text())["lazy"]["owed_bytes"] > 1 << 20


# ---- hostile requests


def setuid_sleep(folder):
    """A setuid program that the user may execute."""
    path = pathlib.Path(folder) / "privileged"
    shutil.copy("/bin/sleep", path)
    os.chown(path, 0, 0)
    path.chmod(0o4755)
    return str(path)


def test_only_a_process_of_the_restore_gets_a_userfaultfd(ckpt, image, stopped):  # noqa: F811
    copy = held(ckpt, "lazy-restored")
    connection, program = Connection(copy.pid, ckpt.helper), copy.program()
    stem = stem_of(program)
    for pid, why in [(stopped.start(UID, "sleep", "1000"), "is none of this restore"),
                     (stopped.start(OTHER, "sleep", "1000"), "cannot be traced by its user"),
                     (stopped.start(0, "sleep", "1000"), "cannot be traced by its user"),
                     (stopped.start(UID, setuid_sleep(ckpt.folder), "1000"), "cannot be traced by its user"),
                     (stem, "is not stopped"), (copy.pid, "is none of this restore"), (1, "is none of this restore"),
                     (0, "is none of this restore"), (-1, "is none of this restore"), (1 << 30, "there is no process")]:
        said = connection.ask(pid)
        assert isinstance(said, str) and why in said, f"{pid}: {said}"
    fd = connection.ask(program)
    assert os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[userfaultfd]"
    os.close(fd)
    assert holds_nothing(program) and status(program)["State"][0] == "T"
    assert "was asked for before" in connection.ask(program)
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 1 and "was asked for before" in copy.error_text, copy.error_text


def test_a_program_that_its_user_has_continued_gets_none(ckpt, image):  # noqa: F811
    copy = held(ckpt, "lazy-restored")
    connection, program = Connection(copy.pid, ckpt.helper), copy.program()
    os.kill(program, signal.SIGCONT)
    assert "is not stopped" in connection.ask(program)


def test_after_it_has_gone_on_nothing_more_is_given(ckpt, image):  # noqa: F811
    touch(ckpt, "finish", "end")
    copy = held(ckpt, "memory-owed")
    connection, program = Connection(copy.pid, ckpt.helper), copy.program()
    assert connection.ask(program, seconds=2) is None
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 0 and copy.lines == RIGHT_LINES, copy.error_text


# Looks for the device in another process of its user, as fast as it can.
SNATCHES = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
process = os.pidfd_open(int(sys.argv[1]))
print("looks", flush=True)
while True:
    for n in range(3, 24):
        fd = libc.syscall(438, process, n, 0)
        if fd < 0:
            continue
        if os.readlink(f"/proc/self/fd/{fd}") == "/dev/userfaultfd":
            print("has it", flush=True)
        os.close(fd)
"""


def test_no_other_process_of_the_user_takes_the_device_from_the_program(ckpt, image):  # noqa: F811
    touch(ckpt, "finish", "end")
    for _ in range(3):
        copy = held(ckpt, "lazy-restored")
        thief = Job([*as_user(), "/usr/bin/python3", "-c", SNATCHES, str(copy.program())])
        ckpt.jobs.append(thief)
        thief.wait_lines(1)
        os.kill(copy.pid, signal.SIGCONT)
        assert copy.wait() == 0 and copy.lines == RIGHT_LINES, copy.error_text
        thief.kill()
        assert thief.lines == ["looks"]
