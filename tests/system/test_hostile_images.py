# SPDX-License-Identifier: Apache-2.0
"""Crafted images with right checksums (crafted.py): each is refused with a
sentence, or read in memory and time that follow from the size of its files, never from what they declare."""
import os
import resource
import shutil
import struct

import pytest

import crafted
from conftest import BUILD

GIB = 1 << 30
READER = [("verify", "-q"), ("show", "--streams"), ("show", "--json")]


class Outcome:
    def __init__(self, status, usage, text):
        self.code = os.waitstatus_to_exitcode(status)
        self.seconds = usage.ru_utime + usage.ru_stime  # of the processor: other load does not count
        self.mib = usage.ru_maxrss >> 10
        self.text = text


def run(folder, tool, *arguments, address_space=None):
    """A tool, what it printed, and what it needed."""
    out = folder / "output"
    with open(out, "wb") as file:
        pid = os.fork()
        if pid == 0:
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.execv(BUILD / "tools" / tool, [tool, *map(str, arguments)])
            os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    return Outcome(status, usage, out.read_text(errors="replace"))


def image(folder, *arguments, **options):
    return run(folder, "ckpt-image", *arguments, **options)


RAW_A = crafted.entry(b"a")
DEEP = b'{"a":' + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}"

# Name: (what write() is given, a part of the message)
REFUSED = {
    "name-leads-out": ({"streams": [crafted.stream("../../etc/passwd", 0, [])]}, "name"),
    "absolute-name": ({"streams": [crafted.stream("/etc/passwd", 0, [])]}, "name"),
    "name-of-control-characters": ({"streams": [crafted.stream("a\x1b[2Jb", 0, [])]}, "name"),
    "name-too-long": ({"streams": [crafted.stream("a" * 256, 0, [])]}, "name"),
    "same-name-twice": ({"streams": [crafted.stream("a", 0, [])] * 2}, "two streams are named"),
    "stream-beyond-its-chunks": ({"chunks": [RAW_A], "stored": b"a", "streams": [crafted.stream("a", GIB, [0])]},
                                 "longer than its chunks"),
    "stream-of-2^63-bytes": ({"streams": [crafted.stream("a", 1 << 63, [])]}, "claims"),
    "chunk-that-does-not-exist": ({"streams": [crafted.stream("a", 1, [7])]}, "does not exist"),
    "streams-that-are-not-there": ({"stream_table": struct.pack("<Q", 1 << 20)}, "truncated"),
    "too-many-streams": ({"stream_table": struct.pack("<Q", 1 << 40)}, "the limit is"),
    "chunks-that-are-not-there": ({"chunk_table": crafted.table([RAW_A], count=1 << 60)}, "wrong size"),
    "overlapping-chunks": ({"chunks": [RAW_A, RAW_A], "stored": b"aa"}, "instead of"),
    "gap-between-chunks": ({"chunks": [RAW_A, crafted.entry(b"a", offset=40)], "stored": b"a" * 9}, "instead of"),
    "chunk-beyond-the-chunk-size": ({"chunks": [crafted.entry(b"a", crafted.ZERO, raw_size=1 << 31)]}, "raw bytes"),
    "compressed-chunk-of-4-GiB": ({"chunks": [crafted.entry(b"a", crafted.ZSTD, raw_size=2**32 - 1)], "stored": b"a"},
                                  "raw bytes"),
    "chunk-size-of-1-GiB": ({"chunk_size": GIB}, "outside"),
    "delta-of-itself": ({"chunks": [crafted.entry(b"ab", crafted.DELTA, b"a")], "stored": b"a"}, "base"),
    "delta-of-a-delta": ({"chunks": [crafted.entry(b"ab", crafted.DELTA, b"a", base=1),
                                     crafted.entry(b"cd", crafted.DELTA, b"a", offset=33)], "stored": b"aa"}, "base"),
    "base-outside-of-the-table": ({"chunks": [crafted.entry(b"ab", crafted.DELTA, b"a", base=9)], "stored": b"a"},
                                  "does not exist"),
    "itself-as-parent": ({"parents": [crafted.parent("image", crafted.UUID)]}, "twice"),
    "parent-outside-of-the-folder": ({"parents": [crafted.parent("../x")]}, "not a valid name"),
    "same-parent-twice": ({"parents": [crafted.parent("x"), crafted.parent("y")]}, "twice"),
    "too-many-parents": ({"parents": [crafted.parent("x", struct.pack("<QQ", i, 1)) for i in range(257)]}, "the limit"),
    "json-5-million-deep": ({"manifest": DEEP}, "nested deeper"),
    "json-65-deep": ({"manifest": b'{"a":' + b"[" * 64 + b"]" * 64 + b"}"}, "nested deeper"),
    "json-that-ends-early": ({"manifest": b'{"a":["'}, "not a JSON object"),
    "manifest-beyond-its-limit": ({"manifest": b'{"a":"' + b"b" * (16 << 20) + b'"}'}, "the limit is"),
    "unknown-version": ({"version": 4}, "format version 4"),
    "size-of-the-header": ({"file_size": 1 << 50}, "truncated or damaged"),
}


@pytest.mark.no_criu
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(tmp_path, name):
    fields, message = REFUSED[name]
    path = crafted.write(tmp_path / "image", **fields)
    done = image(tmp_path, "verify", "-q", path, address_space=GIB)
    assert done.code == 1 and message in done.text, done.text
    assert done.mib < 128


@pytest.mark.no_criu
def test_brackets_in_strings_are_not_depth(tmp_path):
    path = crafted.write(tmp_path / "image", manifest={"a": "[{\"\\" * 1000, "b\\\"[": [["]"]]})
    done = image(tmp_path, "verify", "-q", path)
    assert done.code == 0, done.text


MANIFESTS = {
    "objects-in-a-list": lambda n: {"files": [{"path": "x"}] * n},
    "objects-in-an-object": lambda n: {str(i): {} for i in range(n)},
    "lists-in-a-list": lambda n: {"processes": [[]] * n},
    "numbers": lambda n: {"processes": [1] * n},
    "long-argv": lambda n: {"argv": ["a"] * n},
}


@pytest.mark.no_criu
@pytest.mark.parametrize("name", MANIFESTS)
def test_time_grows_as_the_manifest(tmp_path, name):
    """Eight times as many values may take 24 times as long; what is quadratic takes 64 times as long."""
    few, many = 25_000, 200_000
    paths = [crafted.write(tmp_path / str(n), manifest=MANIFESTS[name](n)) for n in (few, many)]
    for command in READER + [("diff",)]:
        arguments = [(*command, p, *([p] if command[0] == "diff" else [])) for p in paths]
        first, second = (image(tmp_path, *a) for a in arguments)
        assert first.code == second.code == 0, second.text[:500]
        # 0.05: starting the tool, which would hide a small ratio but not a large one.
        assert second.seconds < 24 * max(first.seconds, 0.02) + 0.05, (command, first.seconds, second.seconds)
        size = (paths[1] / "index.ckpt").stat().st_size
        assert second.mib < 64 + 100 * size / 2**20, (command, second.mib)


@pytest.mark.no_criu
def test_zeros_cost_by_their_number_and_not_by_their_size(tmp_path):
    """100,000 chunks of 1 MiB of zeros, as many of 16 bytes, and as many of different sizes."""
    n = 100_000
    numbers = struct.pack(f"<{n}I", *range(n))

    def zeros(name, chunk, size, sizes=None):
        entries = chunk * n if sizes is None else b"".join(
            chunk[:36] + struct.pack("<I", s) + chunk[40:] for s in sizes)
        return crafted.write(tmp_path / name, chunk_table=struct.pack("<Q", n) + entries,
                             streams=[crafted.stream("device/0/x", size, numbers)])

    small = image(tmp_path, "verify", "-q", zeros("small", crafted.zeros(16), 16 * n))
    large = image(tmp_path, "verify", "-q", zeros("large", crafted.zeros(), n << 20))
    assert small.code == large.code == 0, large.text
    assert large.seconds < 4 * small.seconds + 0.1, (small.seconds, large.seconds)
    # Nearly all of these have a wrong address, and naming them does not search all streams for each.
    sizes = range(1 << 19, (1 << 19) + n)
    wrong = image(tmp_path, "verify", "-q", zeros("wrong", crafted.zeros(1 << 19), sum(sizes), sizes))
    assert wrong.code == 1 and f"{n - 1} of {n} stored chunks are affected" in wrong.text
    assert wrong.seconds < 20 * small.seconds + 0.5, (small.seconds, wrong.seconds)


@pytest.mark.no_criu
def test_many_damaged_chunks_in_many_streams(tmp_path):
    """Naming a damaged chunk searches the streams, so only the named ones may be searched for."""
    def damaged(n):
        stored = b"a" * n
        entries = [crafted.entry(b"a", offset=32 + i, checksum=1) for i in range(n)]
        return crafted.write(tmp_path / str(n), chunks=entries, stored=stored,
                             streams=[crafted.stream(f"device/0/{i}", 1, [i]) for i in range(n)])

    few, many = (image(tmp_path, "verify", "-q", damaged(n)) for n in (10_000, 80_000))
    assert few.code == many.code == 1 and "80000 of 80000" in many.text
    assert many.seconds < 24 * max(few.seconds, 0.02) + 0.05, (few.seconds, many.seconds)


def test_unread_input_of_64_gib_is_not_allocated(ckpt, tmp_path):
    """ckpt-restore feeds a pipe piece by piece. CRIU then finds nothing to restore, and the error is its."""
    chunks, chunk = 1 << 14, crafted.zeros(4 << 20)
    manifest = dict(crafted.MANIFEST, pipes=[{"inode": 7, "fd": 0, "program_reads": True}])
    path = crafted.write(tmp_path / "image", manifest=manifest, chunks=[chunk], chunk_size=4 << 20,
                         streams=[crafted.stream("pipe/7", 64 * GIB, bytes(4 * chunks))])
    os.environ["CKPT_RUNTIME_DIR"] = str(ckpt.runtime)
    try:
        done = run(tmp_path, "ckpt-restore", "--as-root", path, address_space=6 * GIB)
    finally:
        del os.environ["CKPT_RUNTIME_DIR"]
    assert done.code == 1 and "CRIU cannot restore" in done.text, (done.code, done.text)
    assert done.mib < 200


@pytest.mark.no_criu
@pytest.mark.parametrize("command", ["verify", "show", "diff", "flatten"])
def test_too_little_memory_is_an_error(tmp_path, command):
    """An image that needs more memory than there is: a sentence, never a signal, and nothing half done."""
    path = crafted.write(tmp_path / "image", manifest={"a": [[]] * 1_000_000})
    flat = tmp_path / "flat"
    arguments = {"diff": [path, path], "flatten": ["-o", flat, path]}.get(command, [path])
    codes = set()
    for limit in [24 << 20, 40 << 20, 64 << 20, 80 << 20, 256 << 20]:
        done = image(tmp_path, command, *arguments, address_space=limit)
        assert done.code in (0, 1, 2, 127), done.text  # 127: too little for the dynamic linker
        if done.code in (1, 2):
            assert "memory" in done.text or "start a thread" in done.text, done.text
        assert flat.exists() == (command == "flatten" and done.code == 0)
        assert not [p for p in tmp_path.iterdir() if ".partial-" in p.name]
        shutil.rmtree(flat, ignore_errors=True)
        codes.add(done.code)
    assert codes & {1, 2}
