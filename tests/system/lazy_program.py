# SPDX-License-Identifier: Apache-2.0
"""A program that fills its private memory with values that depend on their address, and checks them in several ways
after the restore; and its image. `touch(ckpt, "finish")` lets it check, `touch(ckpt, "end")` lets it check again and end."""
import pathlib
import sys

import pytest

from conftest import tree_of, wait_for
from test_kills import state

PAGES = 12288
HOLDS = r"""
import ctypes, faulthandler, hashlib, mmap, os, sys, threading, time
faulthandler.enable()  # zeros in place of the interpreter's own memory make it crash
PAGE, PAGES = 4096, 12288
memory = mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
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
print("filled", hex(address), flush=True)
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
libc.mprotect(ctypes.c_void_p(address + 4096 * 3000), 4096 * 10, 7)
print("wrong", not ok, not zeros, in_child, wrong(range(PAGES - 512)) + wrong(range(PAGES - 384, PAGES)), flush=True)
while not os.path.exists("end"):
    time.sleep(0.02)
for t in others:
    t.join()
print("wrong at the end", wrong(range(PAGES - 512)), flush=True)
"""
# The same, with contents that cannot be compressed: their chunks are stored as they are.
RANDOM = HOLDS.replace('hashlib.sha256(b"%d" % n).digest() * (PAGE // 32)', 'hashlib.shake_128(b"%d" % n).digest(PAGE)')
RIGHT = "wrong False False 0 0"
RIGHT_LINES = [RIGHT, "wrong at the end 0"]


class Image:
    """Its folder, and the address of the memory that the program checks."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address


def start(ckpt, program=HOLDS, **streams):
    return ckpt.start("ckpt-run", ["--", sys.executable, "-c", program], **streams)


def dumped(ckpt, program=HOLDS):
    job = start(ckpt, program)
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    return Image(pathlib.Path(ckpt.folder) / "one", int(job.lines[0].split()[1], 16))


@pytest.fixture
def image(ckpt):
    return dumped(ckpt)


def guards(pid):
    return [p for p in tree_of(pid) if comm(p) == "ckpt-guard"]


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def held(ckpt, step, *options):
    """A restore in which ckpt-restore has stopped itself at this step, or has ended."""
    copy = ckpt.restore("one", "--lazy", *options, env={"CKPT_TEST_HOLD_AT": step})
    wait_for(lambda: copy.process.poll() is not None or state(keeper_of(copy)) == "T", f"the step {step}")
    return copy


def keeper_of(copy):
    """With --detach, the child of the tool."""
    children = [p for p in tree_of(copy.pid) if comm(p) == "ckpt-restore" and state(p) == "T"]
    return children[0] if children else copy.pid


def touch(ckpt, *names):
    for name in names:
        (pathlib.Path(ckpt.folder) / name).touch()
