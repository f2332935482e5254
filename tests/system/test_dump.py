# SPDX-License-Identifier: Apache-2.0
"""ckpt-dump: which programs it accepts and refuses, and that a failed or killed dump leaves the program
running."""
import mmap
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

from conftest import PROGRAMS, tree_of, wait_for

CLOCK_NANOSLEEP = "230"  # its number (asm/unistd_64.h)
PHASES = ["resolve", "preflight", "begin", "prepare", "quiesce", "save", "detach", "criu", "record", "check", "write", "end"]


def counter(ckpt, steps=100000, mib=1):
    """A running counter, past its third line."""
    job = ckpt.run("counter", steps, 7, mib)
    job.wait_lines(3)
    return job


def keeps_running(job):
    job.wait_lines(len(job.lines) + 5)


def test_leave_running_and_restore_several_copies(ckpt):
    job = counter(ckpt)
    report = ckpt.dump(job.pid, "one", "--leave-running")
    assert report["bytes"] > 1 << 20 and report["stored_bytes"] > 0 and report["processes"] == 1
    assert 0 < report["pause_seconds"] and 0 < report["durable_seconds"]
    assert [p["name"] for p in report["phases"]] == PHASES
    keeps_running(job)
    copies = [ckpt.restore("one") for _ in range(3)]
    for copy in copies:
        copy.wait_lines(5)
    assert len({c.lines[0] for c in copies}) == 1
    keeps_running(job)
    for copy in copies:
        os.kill(copy.pid, signal.SIGTERM)
        assert copy.wait() == -signal.SIGTERM
    keeps_running(job)


def first_code(pid):
    """The address of the first executable bytes of a process, where CRIU makes its system calls, and these bytes."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    address = next(line.split("-")[0] for line in maps if "x" in line.split()[1])
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(address, 16))
        return address, memory.read(8)


def sleeper_of(job):
    """The PID of the sleep(1) that the job runs; None as long as it does not sleep."""
    def sleeps(pid):
        try:
            call = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0]
            return pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n" and call == CLOCK_NANOSLEEP
        except OSError:  # it has ended
            return False
    return next(filter(sleeps, tree_of(job.pid)), None)


def test_the_code_of_criu_is_not_restored(ckpt):
    library = ckpt.folder / "late_reader.so"
    subprocess.run(["cc", "-shared", "-fPIC", PROGRAMS / "late_reader.c", "-o", library, "-ldl"], check=True)
    job = ckpt.run("sleep", 8)  # so small that CRIU need not wait for the reader of its pages
    sleeper = wait_for(lambda: sleeper_of(job), "sleep")
    address, bytes_before = first_code(sleeper)
    late = {"LD_PRELOAD": str(library), "CKPT_TEST_PROCESS": str(sleeper), "CKPT_TEST_CODE": address}
    dumped = ckpt.dump_process(job.pid, "one", env=late)
    assert dumped.returncode == 0 and job.wait() == 85, dumped.stderr
    ckpt.env["CKPT_LOG"] = "debug"
    copy = ckpt.restore("one")
    wait_for(lambda: "CRIU's code" in copy.error_text, "code of CRIU's in the image")
    assert first_code(wait_for(lambda: sleeper_of(copy), "sleep")) == (address, bytes_before)
    assert copy.wait() == 0


def test_restored_several_times(ckpt):
    job = ckpt.run("counter", 500, 7)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    assert "restart it with: ckpt-restore" in job.error_text
    ckpt.finish()
    ends = [ckpt.restore("one") for _ in range(2)]
    assert [e.wait() for e in ends] == [7, 7]
    assert ends[0].lines == ends[1].lines
    assert [line for line in job.lines + ends[0].lines if line[0] != "s"] == [str(i) for i in range(500)]


@pytest.mark.parametrize("which", ["keeper", "root", "child", "grandchild"])
def test_any_process_of_the_program(ckpt, which):
    job = ckpt.run("sh", "-c", f"{ckpt.programs}/family 400; exit 9")
    job.wait_lines(3)
    family = wait_for(lambda: len(t := tree_of(job.pid)) >= 6 and t, "the family")
    pid = {"keeper": job.pid, "root": job.program(), "child": family[1], "grandchild": family[-1]}[which]
    report = ckpt.dump(pid, "one")
    assert report["processes"] == 6
    assert job.wait() == 85
    assert not any(os.path.exists(f"/proc/{p}") for p in family)


@pytest.mark.parametrize("blocked", [False, True])
def test_trees_and_threads(ckpt, blocker, blocked):
    job = ckpt.run("sh", "-c", f"{ckpt.programs}/family 60 && {ckpt.programs}/threads 60; exit 9")
    job.wait_lines(3)
    root = job.program()
    ckpt.dump(job.pid, "one")
    if blocked:
        blocker.take(root)
    copy = ckpt.restore("one")
    copy.wait_text("right\n")
    ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    last = ckpt.restore("two")
    assert last.wait() == 9
    everything = job.text + copy.text + last.text
    assert everything.count("right") == 2 and "wrong" not in everything


@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_each_step(ckpt, phase):
    job = counter(ckpt, mib=8)
    r = ckpt.dump_process(job.pid, "one", env={"CKPT_TEST_STOP_AT": phase})
    assert r.returncode == -signal.SIGKILL
    keeps_running(job)
    complete = (ckpt.folder / "one").exists()
    assert complete == (phase == "end")
    ckpt.dump(job.pid, "one", "--overwrite")
    assert job.wait() == 85
    assert ckpt.partials() == []


@pytest.mark.parametrize("phase", ["record", pytest.param("write", marks=pytest.mark.full)])
@pytest.mark.parametrize("options", [[], ["--leave-running"]], ids=["ends", "goes on"])
def test_a_sigcont_in_the_middle_of_a_dump_waits_for_its_end(ckpt, phase, options):
    """Slurm sends one before it ends a job. What the program did between its image and its end would be done twice."""
    job = ckpt.run("threads", 100000)
    job.wait_lines(3)
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one", *options], env={"CKPT_TEST_HOLD_AT": phase})
    wait_for(lambda: pathlib.Path(f"/proc/{dump.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "the step")
    for pid in tree_of(job.pid):
        os.kill(pid, signal.SIGCONT)
    before = job.text
    time.sleep(0.3)
    assert job.text == before or options and phase == "write"
    os.kill(dump.pid, signal.SIGCONT)
    assert dump.wait() == 0, dump.error_text
    if options:
        return keeps_running(job)
    assert job.wait() == 85 and job.text == before
    copy = ckpt.restore("one")
    copy.wait_lines(3)
    assert not set(copy.lines[:3]) & set(job.lines)


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.08, 0.12, 0.2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_at_any_moment(ckpt, number, delay):
    job = counter(ckpt, mib=64)
    dump = subprocess.Popen([ckpt.tool("ckpt-dump"), str(job.pid), "-o", "one", "--leave-running"], env=ckpt.env,
                            cwd=ckpt.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(delay)
    dump.send_signal(number)
    dump.communicate(timeout=60)
    keeps_running(job)
    if number == signal.SIGTERM:
        assert (ckpt.folder / "one").exists() == (dump.returncode == 0)
        assert ckpt.partials() == []
    assert ckpt.dump(job.pid, "two")["processes"] == 1
    assert job.wait() == 85


def test_disk_full(ckpt):
    small = ckpt.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        job = counter(ckpt, mib=32)
        error = ckpt.dump_refused(job.pid, "small/one")
        assert "No space left" in error
        keeps_running(job)
        assert list(small.glob("*.partial*")) == []
        assert ckpt.dump(job.pid, "two")["stored_bytes"] > 1 << 20
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_an_existing_image_is_kept(ckpt):
    job = counter(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running")
    before = (ckpt.folder / "one" / "index.ckpt").read_bytes()
    r = ckpt.dump_process(job.pid, "one")
    assert r.returncode == 1 and "exists already" in r.stderr and "--overwrite" in r.stderr
    assert (ckpt.folder / "one" / "index.ckpt").read_bytes() == before
    keeps_running(job)
    ckpt.dump(job.pid, "one", "--overwrite")
    assert (ckpt.folder / "one" / "index.ckpt").read_bytes() != before


def test_a_process_without_ckpt_run_is_refused(ckpt):
    assert "ckpt-run" in ckpt.dump_refused(os.getpid(), "one")
    assert "no process" in ckpt.dump_refused(2**22 - 1, "one")


def test_all_reasons_are_reported_at_once(ckpt):
    """A daemon that left the process tree, connections to the outside, and a missing folder."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(ckpt.folder / "outside.sock"))
    local.listen()
    script = (f"import os, socket, time\n"
              f"s = socket.create_connection(('127.0.0.1', {port}))\n"
              "u = socket.socket(socket.AF_UNIX); u.connect('outside.sock'); inside = socket.socketpair()\n"
              "if os.fork() == 0:\n"
              "    if os.fork() == 0:\n"
              "        os.setsid(); s.close(); time.sleep(1000)\n"
              "    os._exit(0)\n"
              "os.wait(); print('ready', flush=True)\n"
              "while True: print('x', flush=True); time.sleep(0.02)\n")
    job = ckpt.run("/usr/bin/python3", "-c", script)
    job.wait_text("ready")
    connection = local.accept()
    error = ckpt.dump_refused(job.pid, "no/such/folder/one")
    connection[0].close()
    assert "left its process tree" in error
    assert "TCP connection" in error
    assert error.count("UNIX socket") == 1 and "outside.sock" in error
    assert "there is no folder" in error
    keeps_running(job)


def test_large_unlinked_file_survives(ckpt):
    script = ("import os, time\n"
              "f = open('gone', 'w+b'); f.write(os.urandom(1 << 20) * 100); f.flush(); os.unlink('gone')\n"
              "f.seek(0); print(hash(f.read()) != 0, flush=True); f.seek(5); a = f.read(100)\n"
              "while not os.path.exists('finish'): print('x', flush=True); time.sleep(0.02)\n"
              "f.seek(5); raise SystemExit(5 if f.read(100) == a and f.seek(0, 2) == 100 << 20 else 1)\n")
    job = ckpt.run("/usr/bin/python3", "-c", script)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one")
    ckpt.finish()
    assert ckpt.restore("one").wait() == 5


def test_a_driver_used_without_ckpt_is_refused(ckpt, tmp_path):
    """The refusal names the driver's device, which the program has opened without ckpt's libraries."""
    device = "/dev/dri/ckpt-test"
    made = not os.path.isdir("/dev/dri")
    os.makedirs("/dev/dri", exist_ok=True)
    subprocess.run(["mknod", device, "c", "1", "5"], check=True)
    try:
        job = ckpt.run("sh", "-c", f"exec 5<{device}; echo open; while :; do echo x; sleep 0.05; done")
        job.wait_text("open")
        assert device in ckpt.dump_refused(job.pid, "one")
        keeps_running(job)
    finally:
        os.unlink(device)
        if made:
            os.rmdir("/dev/dri")


def test_dev_null_that_is_a_file_is_refused(ckpt):
    """CRIU's helpers write to /dev/null, and programs that read it would get that output."""
    job = counter(ckpt)
    (ckpt.folder / "null").touch()
    command = f"mount --bind {ckpt.folder}/null /dev/null && exec {ckpt.tool('ckpt-dump')} {job.pid} -o one"
    refused = subprocess.run(["unshare", "--mount", "sh", "-c", command], env=ckpt.env, cwd=ckpt.folder,
                             capture_output=True, text=True)
    assert refused.returncode == 1
    assert "/dev/null is not a device" in refused.stderr and "mknod" in refused.stderr
    keeps_running(job)


def test_a_stopped_program_is_refused(ckpt):
    job = counter(ckpt)
    root = job.program()
    os.kill(root, signal.SIGSTOP)
    state = lambda pid: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]  # noqa: E731
    wait_for(lambda: state(job.pid) == "T", "ckpt-run to stop with it")
    error = ckpt.dump_refused(root, "one")
    assert "stopped" in error
    os.kill(job.pid, signal.SIGCONT)
    keeps_running(job)


def test_a_dump_killed_once_its_image_is_complete_ends_the_program(ckpt):
    """The program must not go on beside its image. Only the requests to the keeper are made here."""
    job = counter(ckpt)
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.connect(str(next(ckpt.runtime.glob("*/session.sock"))))
        for request in (42, 43):  # DumpBegin, DumpDone of agent/protocol.h
            body = struct.pack("<I", 5) + b"image"
            keeper.sendall(struct.pack("<IHH", len(body), request, 0) + body)
            assert struct.unpack("<IHH", keeper.recv(8)) == (0, 1, 0)  # Ok
    assert job.wait() == 85
