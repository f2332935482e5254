# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore --lazy: the program goes on before its memory is there, reads nothing wrong, and waits or ends where its
memory cannot come."""
import json
import os
import pathlib
import signal
import sys

import pytest

from conftest import tree_of, wait_for

# Fills private memory with bytes that depend on their place, and checks them in several ways when it may go on.
HOLDS = r"""
import ctypes, faulthandler, hashlib, mmap, os, sys, threading, time
faulthandler.enable()  # zeros in place of the interpreter's own memory make it crash
PAGE, PAGES = 4096, 12288
memory = mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def expected(n):
    return hashlib.sha256(b"%d" % n).digest() * (PAGE // 32)
for n in range(PAGES):
    memory[n * PAGE:(n + 1) * PAGE] = expected(n)
def wrong(pages):
    return sum(memory[n * PAGE:(n + 1) * PAGE] != expected(n) for n in pages)
def child(pages):
    pid = os.fork()
    if pid == 0:
        os._exit(min(wrong(pages), 99))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
others = [threading.Thread(target=lambda: wrong(range(0, PAGES, 7)), daemon=True) for _ in range(2)]
print("filled", flush=True)
while not os.path.exists("finish"):
    time.sleep(0.02)
for t in others:
    t.start()
with open("written", "wb") as f:  # missing pages in a system call, from the end
    f.write(memoryview(memory)[(PAGES - 256) * PAGE:])
ok = open("written", "rb").read() == b"".join(expected(n) for n in range(PAGES - 256, PAGES))
memory.madvise(mmap.MADV_DONTNEED, (PAGES - 512) * PAGE, 128 * PAGE)
zeros = not any(memory[(PAGES - 512) * PAGE:(PAGES - 384) * PAGE])
in_child = child(range(PAGES - 1024, PAGES - 512))
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 4096 * 3000), 4096 * 10, 7)
print("wrong", not ok, not zeros, in_child, wrong(range(PAGES - 512)) + wrong(range(PAGES - 384, PAGES)), flush=True)
while not os.path.exists("end"):
    time.sleep(0.02)
for t in others:
    t.join()
print("wrong at the end", wrong(range(PAGES - 512)), flush=True)
"""
RIGHT = "wrong False False 0 0"


@pytest.fixture
def image(ckpt):
    job = ckpt.start("ckpt-run", ["--", sys.executable, "-c", HOLDS])
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    return pathlib.Path(ckpt.folder) / "one"


def touch(ckpt, name):
    (pathlib.Path(ckpt.folder) / name).touch()


def stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def guards(pid):
    return [p for p in tree_of(pid) if pathlib.Path(f"/proc/{p}/comm").read_text() == "ckpt-guard\n"]


def owed(ckpt):
    """A restored program that has its devices and misses its memory; its keeper is stopped."""
    copy = ckpt.restore("one", "--lazy", env={"CKPT_TEST_HOLD_AT": "memory-owed"})
    wait_for(lambda: stopped(copy.pid), "the keeper")
    return copy


def test_a_program_reads_what_it_had_and_is_dumped_again(ckpt, image):
    touch(ckpt, "finish")
    copy = ckpt.restore("one", "--lazy", "--json-report", "report.json")
    copy.wait_lines(1)
    assert copy.lines == [RIGHT], copy.error_text
    report = pathlib.Path(ckpt.folder) / "report.json"
    lazy = wait_for(lambda: json.loads(report.read_text())["lazy"].get("arrived_seconds") and
                    json.loads(report.read_text())["lazy"], "the last page")
    assert lazy["owed_bytes"] >= 12288 * 4096
    wait_for(lambda: not guards(copy.pid), "the end of the guard")
    ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    touch(ckpt, "end")
    again = ckpt.restore("two", "--lazy", "--verify-first")
    assert again.wait() == 0, again.error_text
    assert again.lines == ["wrong at the end 0"]


@pytest.mark.parametrize("kind", ["with a parent", "encrypted", "from a pipe"])
def test_other_images(ckpt, kind):
    job = ckpt.start("ckpt-run", ["--", sys.executable, "-c", HOLDS])
    job.wait_lines(1)
    options, streams = [], {}
    if kind == "with a parent":
        ckpt.dump(job.pid, "one", "--leave-running")
        ckpt.dump(job.pid, "two", "--parent", "one")
    elif kind == "encrypted":
        (pathlib.Path(ckpt.folder) / "key").write_bytes(os.urandom(32))
        (pathlib.Path(ckpt.folder) / "key").chmod(0o600)
        options = ["--key-file", "key"]
        ckpt.dump(job.pid, "two", *options)
    else:
        with open(pathlib.Path(ckpt.folder) / "piped", "wb") as f:
            assert ckpt.start("ckpt-dump", [str(job.pid), "-o", "-"], stdout=f).wait() == 0
        streams = {"stdin": open(pathlib.Path(ckpt.folder) / "piped", "rb")}
    assert job.wait() == 85
    touch(ckpt, "finish")
    touch(ckpt, "end")
    copy = ckpt.restore("-" if streams else "two", "--lazy", *options, **streams)
    assert copy.wait() == 0, copy.error_text
    assert copy.lines == [RIGHT, "wrong at the end 0"]


def test_pages_come_when_they_are_needed(ckpt, image):
    """The rest is not even begun: the keeper's other threads stand still only until it is continued."""
    touch(ckpt, "finish")
    touch(ckpt, "end")
    copy = owed(ckpt)
    assert copy.text == ""
    os.kill(copy.pid, signal.SIGCONT)
    assert copy.wait() == 0, copy.error_text
    assert copy.lines == [RIGHT, "wrong at the end 0"]


@pytest.mark.parametrize("victim", ["keeper", "guard", "stem"])
def test_after_a_kill_of_its_keepers_the_program_reads_no_zeros(ckpt, image, victim):
    copy = owed(ckpt)
    program, [guard] = copy.program(), guards(copy.pid)
    stem = int(pathlib.Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
    touch(ckpt, "finish")
    touch(ckpt, "end")
    os.kill({"keeper": copy.pid, "guard": guard, "stem": stem}[victim], signal.SIGKILL)
    if victim != "keeper":
        os.kill(copy.pid, signal.SIGCONT)
    code = copy.wait()
    wait_for(lambda: not pathlib.Path(f"/proc/{guard}").exists() or
             pathlib.Path(f"/proc/{guard}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "the guard")
    if victim == "stem":
        assert copy.lines == [RIGHT, "wrong at the end 0"] or copy.text == ""
        return
    wait_for(lambda: not pathlib.Path(f"/proc/{program}").exists(), "the end of the program")
    assert copy.text == "" and "the program was ended" in copy.error_text
    assert "Fatal Python error" not in copy.error_text
    assert code == (1 if victim == "guard" else -signal.SIGKILL)


def test_a_damaged_image_ends_the_program(ckpt, image):
    chunks = image / "chunks.ckpt"
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
