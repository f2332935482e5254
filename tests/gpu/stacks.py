# SPDX-License-Identifier: Apache-2.0
"""Where processes are, without a debugger: from /proc, whose files of other processes root may read (proc(5))."""
import bisect
import pathlib
import re
import struct

WORDS = 512  # of a thread's stack
CALLS = 24  # addresses of code that are shown of it


def text_of(path):
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


class Code:
    """The executable mappings of a process."""

    def __init__(self, process):
        lines = [line.split(maxsplit=5) for line in text_of(process / "maps").splitlines()]
        self.mappings = [(*(int(a, 16) for a in fields[0].split("-")), int(fields[2], 16), fields[5])
                         for fields in lines if "x" in fields[1] and len(fields) > 5]
        self.begins = [m[0] for m in self.mappings]

    def place(self, address):
        """"libcuda.so.1+0x1234"; None: there is no code."""
        i = bisect.bisect_right(self.begins, address) - 1
        if i < 0 or address >= self.mappings[i][1]:
            return None
        begin, _, offset, path = self.mappings[i]
        return f"{path.rsplit('/', 1)[-1]}+{address - begin + offset:#x}"


def words_at(process, address):
    try:
        with (process / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(8 * WORDS)
    except (OSError, ValueError, OverflowError):
        return []
    return [w for w, in struct.iter_unpack("<Q", data[:len(data) // 8 * 8])]


def lines_of_thread(process, task, code):
    state = re.search(r"^State:\s*(\S)", text_of(task / "status"), re.M)
    call = text_of(task / "syscall").split()
    head = f"  thread {task.name} ({text_of(task / 'comm').strip()}), state {state.group(1) if state else '?'}"
    if len(call) < 3:
        return [head + (", runs" if call == ["running"] else "")]
    lines = [f"{head}, system call {call[0]}, wchan {text_of(task / 'wchan') or '?'}"]
    lines += [f"    kernel {line.split()[-1]}" for line in text_of(task / "stack").splitlines()]
    stack, at = (int(n, 16) for n in call[-2:])
    # What looks like a return address. Some are left over from earlier calls.
    places = [code.place(at)] + [code.place(w) for w in words_at(process, stack)]
    return lines + [f"    user   {p}" for p in [p for p in places if p][:CALLS]]


def of_processes(pids):
    lines = []
    for pid in sorted(pids):
        process = pathlib.Path("/proc") / str(pid)
        lines.append(f"process {pid}: {text_of(process / 'cmdline').replace(chr(0), ' ').strip()[:200]}")
        code = Code(process)
        for task in sorted(process.glob("task/*"), key=lambda t: int(t.name)):
            lines += lines_of_thread(process, task, code)
    return lines
