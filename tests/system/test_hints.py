# SPDX-License-Identifier: Apache-2.0
"""The advice of an error fits its cause."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from conftest import ROOT, wait_for

SOURCE = (ROOT / "tools" / "criu" / "criu.cc").read_text()
TABLE = re.search(r"kAdvice\[\] = \{(.*?)\n\};", SOURCE, re.S).group(1)
MESSAGES = [m.encode().decode("unicode_escape") for m in re.findall(r'\{"((?:[^"\\]|\\.)*)",', TABLE)]
CRIU = "/opt/ckpt/criu/usr/sbin/criu"

# CRIU that fails with one error in its log, as CRIU writes it.
FAILS = """#!/bin/sh
case $1 in --version) echo 'Version: 4.2.1'; exit 0 ;; esac
printf '%s\\n' "(00.017984) 12: Error (criu/x.c:1): $MESSAGE" >dump.log
exit 1
"""


@pytest.mark.no_criu
@pytest.mark.skipif(not os.path.exists(CRIU), reason="no CRIU of ckpt's own is installed")
def test_criu_knows_every_message_that_has_a_hint():
    criu = pathlib.Path(CRIU).read_bytes()
    unknown = [m for m in MESSAGES if m.encode() not in criu and m != os.strerror(28)]
    assert len(MESSAGES) >= 8 and unknown == []


def test_every_message_of_criu_leads_to_its_hint(ckpt):
    fake = ckpt.folder / "criu"
    fake.write_text(FAILS)
    fake.chmod(0o755)
    job = ckpt.run("counter", 100000)
    job.wait_lines(2)
    hints = {}
    for message in [*MESSAGES, "Can't do it: Operation not permitted"]:
        r = ckpt.dump_process(job.pid, "one", env={"CKPT_CRIU": str(fake), "MESSAGE": message})
        assert r.returncode == 1 and message in r.stderr, message
        hints[message] = json.loads(r.stdout)["error"]["hint"]
    assert all(hints.values()) and len(set(hints.values())) >= len(hints) - 1, hints
    assert "root lacks a capability" in hints["Can't do it: Operation not permitted"]
    assert "CAP_SYS_RESOURCE" in hints["Can't get rlimit"]
    lines = len(job.lines)
    job.wait_lines(lines + 2)


def test_a_folder_that_is_not_an_image_is_named(ckpt):
    r = subprocess.run([ckpt.tool("ckpt-restore"), "/etc"], env=ckpt.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "/etc is not an image: it contains no index.ckpt" in r.stderr
    assert "ckpt-image list" in r.stderr


def test_two_dumps_at_once(ckpt):
    """The second waits for the first, and then says that the program has ended; with --leave-running both succeed."""
    job = ckpt.run("counter", 100000, 0, 64)
    job.wait_lines(2)

    def both(*options):
        dumps = [subprocess.Popen([ckpt.tool("ckpt-dump"), str(job.pid), "-o", name, *options], env=ckpt.env, cwd=ckpt.folder,
                                  stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL) for name in ("one", "two")]
        said = [d.communicate(timeout=100)[1] for d in dumps]
        return [d.returncode for d in dumps], "".join(said)

    codes, said = both("--leave-running", "--overwrite")
    assert codes == [0, 0], said
    codes, said = both("--overwrite")
    assert sorted(codes) == [0, 1] and "hung up" not in said and "closed the connection" not in said, said
    assert "has ended" in said or "there is no process" in said, said


def test_a_program_that_ends_during_a_dump_is_said_to_have_ended(ckpt):
    """Whatever of it has ended first: the program, its ckpt-run, or that one's executable (in exit(2), before 'Z')."""
    said = []
    for i in range(25):
        job = ckpt.run("sleep", f"{0.05 + i / 250}")
        while job.process.poll() is None:
            r = ckpt.dump_process(job.pid, "one", "--leave-running", "--overwrite")
            said.append(r.stderr)
            assert r.returncode == 0 or "ended" in r.stderr or "there is no process" in r.stderr, r.stderr
    assert any("has ended" in s for s in said), said


def test_why_a_process_has_no_keeper(ckpt):
    """It is another user's, or its ckpt-run was killed, or it never had one."""
    def said(pid, *before):
        r = subprocess.run([*before, ckpt.tool("ckpt-dump"), str(pid), "-o", "image"], env=ckpt.env, cwd=ckpt.folder,
                           capture_output=True, text=True)
        assert r.returncode == 1
        return r.stderr

    job = ckpt.run("sleep", "1000")
    program = job.program()
    other = said(program, "setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups")
    assert f"process {program} belongs to root" in other and "as that user, or as root" in other, other
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    assert f"process {program} was started under ckpt-run or ckpt-restore, which has ended" in said(program)
    os.kill(program, signal.SIGKILL)
    assert "process 1 does not run under ckpt-run or ckpt-restore" in said(1)


def test_a_program_that_dumps_itself_by_the_tool_reads_about_the_function(ckpt):
    script = f"{ckpt.tool('ckpt-dump')} $PPID -o image; exit 3"
    job = ckpt.run("sh", "-c", script)
    assert job.wait() == 3
    assert "is a ckpt tool inside of the program" in job.error_text, job.error_text
    assert "ckpt_checkpoint(), see ckpt(3)" in job.error_text


def test_the_reasons_of_a_refusal_by_dump_all_are_lines(ckpt):
    """Each on a line of its own, as ckpt-dump PID prints them."""
    outside = socket.socket(socket.AF_UNIX)
    outside.bind(str(ckpt.runtime / "outside"))
    outside.listen()
    script = f'import socket, time; s = socket.socket(socket.AF_UNIX); s.connect("{ckpt.runtime}/outside"); time.sleep(1000)'
    job = ckpt.run("/usr/bin/python3", "-c", script)
    peer, _ = outside.accept()
    pid = job.program()
    (ckpt.folder / "all").mkdir()
    r = subprocess.run([ckpt.tool("ckpt-dump"), "--all", "--output", "all"], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True)
    assert r.returncode == 1 and f"\n  - process {pid} (" in r.stdout and "\\x0a" not in r.stdout, r.stdout
    peer.close()
    outside.close()
