# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore --lazy: the program goes on before its memory is there, reads nothing wrong, and waits or ends where its
memory cannot come."""
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import sys
import time

import pytest

from conftest import wait_for
from lazy_program import HOLDS, PAGES, RIGHT, RIGHT_LINES, guards, held, image, start, touch  # noqa: F401
from test_kills import state


def test_a_program_reads_what_it_had_and_is_dumped_again(ckpt, image):
    touch(ckpt, "finish")
    copy = ckpt.restore("one", "--lazy", "--json-report", "report.json")
    copy.wait_text("\n")
    assert copy.lines == [RIGHT], copy.error_text
    report = pathlib.Path(ckpt.folder) / "report.json"
    lazy = wait_for(lambda: json.loads(report.read_text())["lazy"].get("arrived_seconds") and
                    json.loads(report.read_text())["lazy"], "the last page")
    assert lazy["owed_bytes"] >= PAGES * 4096
    assert lazy["arrived_bytes"] >= (PAGES - 128) * 4096  # it has given back 128 pages
    assert 0 < lazy["went_on_seconds"] < lazy["arrived_seconds"]
    wait_for(lambda: not guards(copy.pid), "the end of the guard")
    ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    touch(ckpt, "end")
    again = ckpt.restore("two", "--lazy", "--verify-first")
    assert again.wait() == 0, again.error_text
    assert again.lines == ["wrong at the end 0"]


@pytest.mark.parametrize("kind", ["with a parent", "encrypted", "from a pipe"])
def test_other_images(ckpt, kind):
    job = start(ckpt)
    job.wait_lines(1)
    options, streams = [], {}
    if kind == "with a parent":
        ckpt.dump(job.pid, "one", "--leave-running")
        ckpt.dump(job.pid, "two", "--parent", "one")
    elif kind == "encrypted":
        (pathlib.Path(ckpt.folder) / "key").write_bytes(os.urandom(32))
        (pathlib.Path(ckpt.folder) / "key").chmod(0o600)
        shutil.chown(pathlib.Path(ckpt.folder) / "key", pathlib.Path(ckpt.folder).stat().st_uid)
        options = ["--key-file", "key"]
        ckpt.dump(job.pid, "two", *options)
    else:
        with open(pathlib.Path(ckpt.folder) / "piped", "wb") as f:
            assert ckpt.start("ckpt-dump", [str(job.pid), "-o", "-"], stdout=f).wait() == 0
        streams = {"stdin": open(pathlib.Path(ckpt.folder) / "piped", "rb")}
    assert job.wait() == 85
    touch(ckpt, "finish", "end")
    copy = ckpt.restore("-" if streams else "two", "--lazy", *options, **streams)
    assert copy.wait() == 0, copy.error_text
    assert copy.lines == RIGHT_LINES


def test_pages_come_when_they_are_needed(ckpt, image):
    """The rest is not even begun: the keeper's other threads stand still only until it is continued."""
    touch(ckpt, "finish", "end")
    copy = held(ckpt, "memory-owed")
    assert copy.text == ""
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 0, copy.error_text
    assert copy.lines == RIGHT_LINES


def test_a_damaged_image_ends_the_program(ckpt, image):
    chunks = image.folder / "chunks.ckpt"
    data = bytearray(chunks.read_bytes())
    for at in range(len(data) // 2, len(data), 1 << 20):
        data[at] ^= 1
    chunks.write_bytes(data)
    first = ckpt.restore("one", "--lazy", "--verify-first")
    assert first.wait() == 1
    assert "cannot be restored here" in first.error_text and first.text == ""
    touch(ckpt, "finish")
    copy = ckpt.restore("one", "--lazy")
    assert copy.wait() == 1
    assert copy.text == ""
    assert "damaged" in copy.error_text or "checksum" in copy.error_text
    assert not guards(copy.pid)


@pytest.mark.parametrize("byte", [0, 1])
def test_a_page_was_written_before_its_contents_arrived(ckpt, image, byte):
    """A page that exists already gets its contents at once, but what stands in it may not be lost."""
    touch(ckpt, "finish", "end")
    copy = held(ckpt, "lazy-restored")
    with open(f"/proc/{copy.program()}/mem", "r+b", buffering=0) as memory:
        memory.seek(image.address + 5000 * 4096)
        assert memory.write(bytes([byte])) == 1
    os.kill(copy.pid, signal.SIGCONT)
    code = copy.wait()
    if byte == 0:
        assert code == 0 and copy.lines == RIGHT_LINES, copy.error_text
        return
    assert code == 1 and copy.text == ""
    assert f"the page at {image.address + 5000 * 4096:#x} was written before its contents arrived" in copy.error_text
    assert "restore the image without --lazy" in copy.error_text


def may_lower_scores():
    """CAP_SYS_RESOURCE, which root lacks in some containers."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("CapEff:")[2].split()[0], 16) >> 24 & 1


def test_the_kernel_never_chooses_the_guard_for_lack_of_memory(ckpt, image):
    touch(ckpt, "finish", "end")
    copy = held(ckpt, "memory-owed")
    scores = {pid: pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in [copy.pid, copy.program(), *guards(copy.pid)]}
    own = pathlib.Path("/proc/self/oom_score_adj").read_text().strip()
    assert list(scores.values()) == [own, own, "-1000" if may_lower_scores() else own]
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 0 and copy.lines == RIGHT_LINES, copy.error_text


@pytest.mark.parametrize("shares", [False, True])
def test_progress_is_shown_on_a_terminal_that_the_program_does_not_use(ckpt, shares):
    """Output to a pipe goes to the terminal after the restore, output to a file does not."""
    out = pathlib.Path(ckpt.folder) / "out"
    job = start(ckpt, **({} if shares else {"stdout": out.open("w")}))
    wait_for(lambda: job.text or out.exists() and out.read_text(), "the program")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    touch(ckpt, "finish", "end")
    master, slave = pty.openpty()
    restore = f"CKPT_TEST_HOLD_AT=memory-arrives exec {ckpt.tool('ckpt-restore')} --lazy one"
    copy = ckpt.start_shell(f"{restore} >{os.ttyname(slave)} 2>&1")
    wait_for(lambda: state(copy.pid) == "T", "the first pages")
    time.sleep(0.3)  # the bar is drawn ten times a second
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 0
    os.set_blocking(master, False)
    shown = os.read(master, 65536).decode() if select.select([master], [], [], 0)[0] else ""
    assert RIGHT in (shown if shares else out.read_text())
    assert ("memory: " in shown and shown.endswith("\r\x1b[K")) is not shares, shown


def test_what_cannot_be_lazy_is_refused(ckpt):
    several = ckpt.start("ckpt-restore", ["--lazy", "--all", "."])
    assert several.wait() == 125 and "--lazy cannot be combined with --all" in several.error_text
    without = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    job = ckpt.start("ckpt-run", ["--", *without, sys.executable, "-c", HOLDS])
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    copy = ckpt.restore("one", "--lazy")
    assert copy.wait() == 1
    assert "no CAP_SYS_PTRACE" in copy.error_text and "leave --lazy out" in copy.error_text
