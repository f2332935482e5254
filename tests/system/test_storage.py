# SPDX-License-Identifier: Apache-2.0
"""Images in the hands of the tools: increments and pruning, pipes, encryption, and damage."""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, DEADLINE, image_manifest, wait_for


def counter(ckpt, steps=100000, mib=8):
    job = ckpt.run("counter", steps, 7, mib)
    job.wait_lines(3)
    return job


def image_tool(*args, **more):
    return subprocess.run([BUILD / "tools/ckpt-image", *map(str, args)], capture_output=True,
                          timeout=DEADLINE, **more)


def counts_on(job, beyond):
    """A restored counter continues, at `beyond` or later."""
    job.wait_lines(5)
    first = int(job.lines[0])
    assert first >= beyond and job.lines[:5] == [str(first + i) for i in range(5)]


def test_increments_are_small_and_restore(ckpt):
    job = counter(ckpt)
    one = ckpt.dump(job.pid, "one", "--leave-running")
    job.wait_lines(len(job.lines) + 3)
    two = ckpt.dump(job.pid, "two", "--leave-running", "--parent", "one")
    job.wait_lines(len(job.lines) + 3)
    three = ckpt.dump(job.pid, "three", "--parent", "two")
    assert one["stored_bytes"] > 8 << 20
    for report in (two, three):
        assert report["stored_bytes"] < 2 << 20
        assert report["parent_bytes"] > 6 << 20
    assert image_manifest(ckpt.folder / "three")["generation"] == 2
    assert job.wait() == 85
    counts_on(ckpt.restore("three"), int(job.lines[-1]))

    (ckpt.folder / "one").rename(ckpt.folder / "away")
    lost = ckpt.restore("three")
    assert lost.wait() == 1
    assert "is an increment on the image 'one'" in lost.error_text
    assert "put that image back" in lost.error_text


def test_keep_prunes_after_each_dump(ckpt):
    job = counter(ckpt)
    for i in range(4):
        parent = ("--parent", f"i{i - 1}") if i else ()
        ckpt.dump(job.pid, f"i{i}", "--leave-running", "--keep", "2", *parent)
    assert sorted(p.name for p in ckpt.folder.glob("i*")) == ["i2", "i3"]
    for name in ("i2", "i3"):
        assert image_tool("verify", ckpt.folder / name).returncode == 0
    counts_on(ckpt.restore("i3"), 3)
    job.wait_lines(len(job.lines) + 3)


def test_a_list_names_no_parent_that_an_image_needs_no_more(ckpt):
    job = counter(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running")
    ckpt.dump(job.pid, "two", "--leave-running", "--parent", "one")

    def parents():
        images = json.loads(image_tool("list", "--json", ckpt.folder).stdout)
        table = image_tool("list", ckpt.folder, text=True).stdout.split("\n\n")[0].splitlines()
        column = table[0].index("PARENT")
        return ({i["image"].rsplit("/")[-1]: i["parent"] for i in images},
                {line.split()[0]: line[column:].split()[0] for line in table[1:]})

    listed, shown = parents()
    assert listed == {"one": "", "two": "one"} and shown["two"] == "one"
    assert image_tool("prune", "--keep", "1", ckpt.folder / "two").returncode == 0
    listed, shown = parents()
    assert listed == {"two": ""} and shown["two"] != "one", shown


def test_wrong_parents_are_refused_and_the_program_keeps_running(ckpt):
    job = counter(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running")
    (ckpt.folder / "sub").mkdir()
    assert "absent" in ckpt.dump_refused(job.pid, "two", "--parent", "absent")
    assert "is not in the folder" in ckpt.dump_refused(job.pid, "sub/two", "--parent", "one")
    job.wait_lines(len(job.lines) + 5)
    assert ckpt.partials() == []


def test_through_a_pipe(ckpt):
    """ckpt-dump -o - | ckpt-restore -: the program continues at the other end, and only there."""
    job = counter(ckpt)
    restored = ckpt.start_shell(
        f"set -o pipefail; {ckpt.tool('ckpt-dump')} -o - {job.pid} 2>report | {ckpt.tool('ckpt-restore')} -")
    assert job.wait() == 85
    assert "checkpointed into a pipe" in job.error_text
    counts_on(restored, int(job.lines[-1]))
    assert "pause" in (ckpt.folder / "report").read_text()
    ckpt.finish()


def test_a_pipe_into_a_file_and_back(ckpt):
    job = counter(ckpt)
    with open(ckpt.folder / "sent", "wb") as f:
        sent = subprocess.run([ckpt.tool("ckpt-dump"), "-o", "-", "--leave-running", str(job.pid)],
                              env=ckpt.env, stdout=f, stderr=subprocess.PIPE, timeout=DEADLINE, cwd=ckpt.folder)
    assert sent.returncode == 0, sent.stderr
    with open(ckpt.folder / "sent", "rb") as f:
        assert image_tool("receive", ckpt.folder / "image", stdin=f).returncode == 0
    assert image_tool("verify", ckpt.folder / "image").returncode == 0
    with open(ckpt.folder / "sent", "rb") as f:
        counts_on(ckpt.restore("-", stdin=f), 0)
    cut = (ckpt.folder / "sent").read_bytes()[:-100]
    (ckpt.folder / "sent").write_bytes(cut)
    with open(ckpt.folder / "sent", "rb") as f:
        failed = ckpt.restore("-", stdin=f)
        assert failed.wait() == 1
    assert "ends too early" in failed.error_text


@pytest.mark.parametrize("stop", ["true", "head -c 1000000 >/dev/null", "sleep 1000"])
def test_a_pipe_whose_reader_fails_leaves_the_program_running(ckpt, stop):
    job = counter(ckpt)
    shell = ckpt.start_shell(f"{ckpt.tool('ckpt-dump')} -o - {job.pid} | {stop}; echo ${{PIPESTATUS[0]}}")
    if stop.startswith("sleep"):  # a reader that reads nothing: a signal cancels the dump
        dump = wait_for(lambda: [p for p in pathlib.Path("/proc").glob("[0-9]*")
                                 if is_dump_of(p, job.pid)], "ckpt-dump")
        stopped = wait_for(lambda: is_stopped(job.program()), "the program to be stopped")
        assert stopped
        os.kill(int(dump[0].name), signal.SIGTERM)
        job.wait_lines(len(job.lines) + 5)
        return
    assert shell.wait() == 0 and shell.lines == ["1"], shell.text
    assert "reader of the pipe" in shell.error_text
    job.wait_lines(len(job.lines) + 5)


def is_dump_of(process, pid):
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"ckpt-dump") and str(pid).encode() in words


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "tT"


def test_encrypted(ckpt):
    for name in ("key", "other"):
        (ckpt.folder / name).touch(0o600)
        (ckpt.folder / name).write_bytes(os.urandom(32))
    job = counter(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running", "--key-file", "key")
    two = ckpt.dump(job.pid, "two", "--key-file", "key", "--parent", "one")
    assert two["stored_bytes"] < 2 << 20
    for options, words in (((), "is encrypted"), (("--key-file", "other"), "wrong key"),
                           (("--key-file", "absent"), "No such file")):
        refused = ckpt.restore("two", *options)
        assert refused.wait() == 1
        assert words in refused.error_text
    counts_on(ckpt.restore("two", "--key-file", "key"), int(job.lines[-1]))


def test_a_flipped_bit_is_reported_before_anything_is_started(ckpt):
    job = counter(ckpt, mib=1)
    ckpt.dump(job.pid, "one")
    with open(ckpt.folder / "one/chunks.ckpt", "r+b") as f:
        f.seek(500000)
        byte = f.read(1)[0]
        f.seek(500000)
        f.write(bytes([byte ^ 1]))
    for text in (image_tool("verify", ckpt.folder / "one").stdout.decode(), refusal(ckpt, "one")):
        assert "one/chunks.ckpt" in text and "'criu/pages-1.img'" in text


def refusal(ckpt, image):
    refused = ckpt.restore(image)
    assert refused.wait() == 1 and refused.lines == []
    return refused.error_text


def test_background_writing_with_a_bound(ckpt):
    """--memory 1: the program waits for the disk and then continues, and the image is complete."""
    job = counter(ckpt, mib=32)
    for name, bound in (("small", ("--memory", "1")), ("large", ("--memory", "256")), ("default", ())):
        report = ckpt.dump(job.pid, name, "--leave-running", *bound)
        assert 0 < report["pause_seconds"] <= report["durable_seconds"]
        assert image_tool("verify", ckpt.folder / name).returncode == 0
        job.wait_lines(len(job.lines) + 3)
