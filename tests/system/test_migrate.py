# SPDX-License-Identifier: Apache-2.0
"""ckpt-migrate between two machines: PID, network, mount and UTS namespaces of their own on this one. Whatever is killed, and
whenever the connection ends, the program never runs on both; on none only after it was given away, and this is said.

The program appends a line to a file for each step, and each line names the machine: what ran where, and in which order, is there.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from conftest import BUILD, commands_of, let_users_in, process_exists, tree_of, wait_for
from rootless import helper, needs_helper, user  # noqa: F401
from test_opencl import HEAT, Programs, devices, finished  # noqa: F401

# Instead of ssh: HOST COMMAND…, through a process that a test can kill or stop, as a network can be cut or hang.
RSH = """
import os, subprocess, sys, threading
folder = "@FOLDER@"
open(folder + "/rsh.pid", "w").write(str(os.getpid()))
shell = open(folder + "/machine.pid").read().strip()
command = ["nsenter", "--target=" + shell, "--pid", "--net", "--uts", "--mount", "--", "sh", "-c", 'cd "$0" && exec "$@"', folder]
env = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_TEST_STOP") and name != "CKPT_TEST_HOLD_AT"}
env |= {"XDG_STATE_HOME": folder + "/there", **eval(open(folder + "/there.env").read())}
child = subprocess.Popen(command + sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
def pump(source, target):
    while piece := os.read(source, 65536):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view):]
    os.close(target)
threading.Thread(target=pump, args=(0, child.stdin.fileno()), daemon=True).start()
try:
    pump(child.stdout.fileno(), 1)
except OSError:
    pass
"""

COUNTER = """
import os, socket, time
ballast = bytearray(os.urandom(4 << 20))
for i in range(100000):
    if os.path.exists("finish"):
        break
    ballast[i % len(ballast)] ^= 1
    with open("steps", "a") as out:
        out.write(f"{i} {socket.gethostname()}\\n")
    time.sleep(0.02)
print("ended", flush=True)
"""


class Machines:
    """This one, and `there`. Each has its own processes, session folders, /dev/shm and state folder, and the same files."""

    def __init__(self, ckpt):
        self.ckpt, self.folder = ckpt, ckpt.folder
        (self.folder / "there.env").write_text("{}")
        script = (f"hostname there; ip link set lo up; mount -t tmpfs shm /dev/shm; mount -t tmpfs run {ckpt.runtime}; "
                  "echo ready; sleep infinity; :")
        self.shell = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--net", "--uts",
                                       "sh", "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ckpt.env)
        assert self.shell.stdout.readline() == b"ready\n"
        self.init = tree_of(self.shell.pid)[0]
        (self.folder / "machine.pid").write_text(str(self.init))
        self.rsh = self.folder / "rsh"
        self.rsh.write_text(f"#!{sys.executable}" + RSH.replace("@FOLDER@", str(self.folder)))
        self.rsh.chmod(0o755)
        ckpt.env["XDG_STATE_HOME"] = str(self.folder / "here")

    def close(self):
        self.shell.kill()
        self.shell.wait()
        wait_for(lambda: not process_exists(self.init), "the end of the other machine")

    def set_there(self, **env):
        (self.folder / "there.env").write_text(repr(env))

    def command(self, arguments):
        words = [str(a) for a in arguments]
        for option, value in (("--rsh", self.rsh), ("--tool-there", self.ckpt.tool("ckpt-migrate"))):
            if option not in words:
                words = [option, str(value), *words]
        return words

    def migrate(self, *arguments, env=None):
        return subprocess.run([self.ckpt.tool("ckpt-migrate"), *self.command(arguments)],
                              env=dict(self.ckpt.env, **(env or {})), cwd=self.folder, capture_output=True, text=True, timeout=120)

    def start(self, *arguments, env=None):
        return self.ckpt.start("ckpt-migrate", self.command(arguments), env=env or {})

    def rsh_pid(self):
        return int((self.folder / "rsh.pid").read_text())

    def counter(self):
        job = self.ckpt.start("ckpt-run", ["--", sys.executable, "-c", COUNTER])
        wait_for(lambda: len(self.steps()) > 3, "steps")
        return job

    def steps(self):
        try:
            return (self.folder / "steps").read_text().splitlines()
        except FileNotFoundError:
            return []

    def hosts(self):
        return [line.split()[1] for line in self.steps()]

    def left_there(self):
        """Programs and tools of the other machine."""
        return [c for c in commands_of(tree_of(self.init)) if not c.startswith("sleep ")]

    def records(self, where):
        folder = self.folder / where / "ckpt" / "migrations"
        return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def machines(ckpt):
    m = Machines(ckpt)
    yield m
    m.close()


def in_order(steps):
    """Each step was made once, on one machine after the other."""
    assert [int(s.split()[0]) for s in steps] == list(range(len(steps))), steps


def runs_there(m):
    before = len(m.steps())
    wait_for(lambda: len(m.steps()) > before + 3, "steps there")
    assert m.hosts()[-1] == "there"


def runs_here(m, job):
    before = len(m.steps())
    wait_for(lambda: len(m.steps()) > before + 3, "steps here")
    assert m.hosts()[-1] != "there" and job.process.poll() is None, (m.steps()[-8:], job.text, job.error_text)


def test_a_program_goes_on_on_the_other_machine(machines):
    m = machines
    job = m.counter()
    r = m.migrate(job.pid, "there", "--json", "--svg", "picture.svg")
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    drawn(m.folder / "picture.svg", report)
    assert report["downtime_seconds"] > 0 and report["predicted_downtime_seconds"] > 0
    assert len(report["rounds"]) >= 3 and report["rounds"][-1]["stopped"]
    assert report["rounds"][1]["sent_bytes"] < report["rounds"][0]["sent_bytes"] / 2
    assert job.wait() == 87 and "moved to there" in job.error_text
    runs_there(m)
    m.ckpt.finish()
    wait_for(lambda: not m.left_there(), "the end of the program there")
    in_order(m.steps())
    assert not m.records("here") and not m.records("there")


def drawn(picture, report):
    """The parts of the stop are all of it, and the picture has them and each round."""
    steps = report["stop_seconds"]
    assert list(sorted(steps)) == ["dump", "end", "load", "send", "start"] and all(s >= 0 for s in steps.values())
    assert abs(sum(steps.values()) - report["downtime_seconds"]) < 1e-6
    assert 0 < report["stopped_at_seconds"] < report["seconds"] - report["downtime_seconds"]
    titles = [t.text for t in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert all(any(t.startswith(f"{r['round']}: ") for t in titles) for r in report["rounds"])
    assert f"devices there {steps['start']:.3f} s" in titles and titles.count("here") == 1


def test_a_program_whose_file_grows_meanwhile(machines):
    m = machines
    script = COUNTER.replace("    ballast[", "    log.write(f'{i}\\n')\n    ballast[").replace("import os,", "log = open('log', 'w', 1)\nimport os,")
    job = m.ckpt.start("ckpt-run", ["--", sys.executable, "-c", script])
    wait_for(lambda: len(m.steps()) > 3, "steps")
    r = m.migrate(job.pid, "there")
    assert r.returncode == 0, r.stderr
    runs_there(m)
    ends(m, None)
    lines = (m.folder / "log").read_text().split()
    assert lines == [str(i) for i in range(len(m.steps()))]


@pytest.fixture
def ocl(ckpt, devices):  # noqa: F811 (a fixture)
    return Programs(ckpt, *devices)


@pytest.mark.full
def test_an_opencl_program_computes_what_it_computes_uninterrupted(ocl, machines):
    arguments = ["--n", 1024, "--steps", 10000, "--report", 100]
    native = subprocess.run([HEAT, *map(str, arguments)], capture_output=True, text=True, timeout=240, env=dict(
        ocl.ckpt.env, OCL_ICD_VENDORS=str(BUILD / "testbed" / "vendors" / "pocl.icd"), POCL_DEVICES="pthread"))
    assert native.returncode == 0, native.stderr
    job = ocl.ckpt.run(HEAT, *arguments, options=["--device", ocl.device("pocl")])
    job.wait_text("step 200/")
    r = machines.migrate(job.pid, "there", "--device", ocl.device("pocl"), "--output", "output", "--key-file", key_of(machines))
    assert r.returncode == 0, r.stderr
    assert job.wait() == 87
    wait_for(lambda: not machines.left_there(), "the end of the program there")
    assert (job.text + (machines.folder / "output").read_text()).splitlines()[-1] == native.stdout.splitlines()[-1]


def key_of(m):
    key = m.folder / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    return key


@pytest.mark.full
def test_an_opencl_program_goes_on_with_another_driver(ocl, machines):
    job = ocl.start("owed")
    job.wait_text("step 3")
    r = machines.migrate(job.pid, "there", "--device", ocl.device("rusticl"), "--output", "output", "--key-file", key_of(machines))
    assert r.returncode == 0, r.stderr
    assert job.wait() == 87
    output = machines.folder / "output"
    wait_for(lambda: len(output.read_text().splitlines()) > 3, "steps there")
    ocl.go()
    wait_for(lambda: not machines.left_there(), "the end of the program there")
    assert output.read_text().splitlines()[-1] == "OK"


def test_an_opencl_program_gets_other_devices_where_it_is(ocl):
    job = ocl.start("owed")
    job.wait_text("step 3")
    move = [ocl.ckpt.tool("ckpt-migrate"), "--to-device", ocl.device("rusticl"), str(job.pid)]
    for more in (["there"], ["--max-downtime", "1"], ["--list"]):
        r = subprocess.run(move + more, env=ocl.ckpt.env, capture_output=True, text=True)
        assert r.returncode == 125 and "--to-device" in r.stderr, r.stderr
    r = subprocess.run(move, env=ocl.ckpt.env, capture_output=True, text=True)
    assert r.returncode == 0 and "moved" in r.stdout, r.stderr
    proxies = " ".join(commands_of(tree_of(job.pid)))
    assert "rusticl" in proxies or "ckpt-ocl-proxy" in proxies
    ocl.go()
    finished(job)


@pytest.mark.full
def test_an_opencl_program_whose_devices_do_not_come_back_there(ocl, machines):
    """It has gone on there, and has ended there without its devices: it is taken back."""
    machines.set_there(CKPT_TEST_STOP_AT="devices")
    job = ocl.start("owed")
    job.wait_text("step 3")
    r = machines.migrate(job.pid, "there", "--device", ocl.device("pocl"))
    assert r.returncode == 4 and job.wait() == 87, r.stderr
    machines.set_there()
    wait_for(lambda: not machines.left_there(), "the end of the copy there")
    back = machines.start("--device", ocl.device("pocl"), "--take-back", listed(machines)[0]["number"])
    back.wait_text("step ")
    ocl.go()
    finished(back)


# ---- whatever is killed

def listed(m):
    r = m.migrate("--list", "--json")
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def taken_back(m):
    """The program goes on here from the image of a migration that the other machine never took."""
    number = listed(m)[0]["number"]
    refused = m.ckpt.restore(listed(m)[0]["image"])
    assert refused.wait() == 1 and "was given away" in refused.error_text
    job = m.start("--take-back", number)
    runs_here(m, job)
    assert m.migrate("--finish", number).returncode == 0 and not m.records("here")
    return job


# Steps and messages of ckpt-migrate here, before and after the program is given away.
BEFORE = ["check-here", "check-there", "sent-migrate-1", "got-migrate-2", "sent-migrate-5", "got-migrate-6", "round-0", "sent-migrate-23", "sent-migrate-24", "sent-migrate-7",
          "got-migrate-9", "sent-migrate-11", "got-migrate-12", "sent-migrate-13", "got-migrate-14", "round-1", "stop", "stopped", "sent-migrate-15",
          "got-migrate-16", "ready", "given"]
AFTER = ["ended", "send-migrate-17"]
TOLD = ["sent-migrate-17", "got-migrate-18", "running", "sent-migrate-19"]


def in_tiers(points, *short):
    """Only these points in the short tier."""
    assert set(short) <= set(points)
    return [p if p in short else pytest.param(p, marks=pytest.mark.full) for p in points]


def ends(m, job):
    """The program ends when it is told to, and each of its steps was made once."""
    m.ckpt.finish()
    if job:
        assert job.wait() == 0, job.error_text
    wait_for(lambda: not m.left_there(), "the end of all programs there")
    in_order(m.steps())


@pytest.mark.parametrize("point", in_tiers(BEFORE, "round-1", "stopped", "ready", "given"))
def test_killed_here_before_the_program_is_given_away(machines, point):
    m = machines
    job = m.counter()
    r = m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": point})
    assert r.returncode == -signal.SIGKILL, r.stderr
    runs_here(m, job)
    wait_for(lambda: not m.left_there(), "the end of the copy there")
    ends(m, job)


@pytest.mark.parametrize("point", in_tiers(AFTER, "ended"))
def test_killed_here_after_the_program_is_given_away(machines, point):
    m = machines
    job = m.counter()
    assert m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": point}).returncode == -signal.SIGKILL
    assert job.wait() == 87
    wait_for(lambda: not m.left_there(), "the end of the copy there")
    steps = m.steps()
    r = m.migrate("--finish", listed(m)[0]["number"])
    assert r.returncode == 1 and "does not run there" in r.stderr
    assert m.steps() == steps, "it runs"
    ends(m, taken_back(m))


@pytest.mark.parametrize("point", in_tiers(TOLD, "sent-migrate-17"))
def test_killed_here_after_the_other_machine_was_told(machines, point):
    m = machines
    job = m.counter()
    assert m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": point}).returncode == -signal.SIGKILL
    assert job.wait() == 87
    runs_there(m)
    number = m.records("here")[0].stem
    if point in ("sent-migrate-17", "got-migrate-18", "running"):
        r = m.migrate("--take-back", number)
        assert r.returncode == 1 and "runs there" in r.stderr
    assert m.migrate("--finish", number).returncode == 0
    assert not m.records("here") and not m.records("there")
    runs_there(m)
    ends(m, None)


# Of the other machine: of ckpt-migrate --receive and of its ckpt-restore.
THERE_BEFORE = ["got-migrate-1", "sent-migrate-2", "got-migrate-5", "sent-migrate-6", "got-migrate-23", "got-migrate-24", "got-migrate-7", "sent-migrate-9", "got-migrate-11", "sent-migrate-12",
                "got-migrate-13", "standing-by", "sent-migrate-14", "got-migrate-15", "loaded", "sent-migrate-16"]
THERE_AFTER = ["got-migrate-17", "told-to-go", "taken", "noted"]
THERE_TAKEN = ["devices", "devices-back", "send-migrate-18", "sent-migrate-18"]


@pytest.mark.parametrize("point", in_tiers(THERE_BEFORE, "got-migrate-11", "loaded"))
def test_killed_there_before_the_program_is_given_away(machines, point):
    m = machines
    m.set_there(CKPT_TEST_STOP_AT=point)
    job = m.counter()
    r = m.migrate(job.pid, "there")
    if "sent-migrate-16" == point and r.returncode == 4:
        return  # `ready` has arrived before the connection ended
    assert r.returncode == 1, r.stderr
    runs_here(m, job)
    assert not m.records("here")
    ends(m, job)


@pytest.mark.parametrize("point", in_tiers(THERE_AFTER, "taken", "noted"))
def test_killed_there_before_the_program_is_taken_or_goes_on(machines, point):
    m = machines
    m.set_there(CKPT_TEST_STOP_AT=point)
    job = m.counter()
    r = m.migrate(job.pid, "there")
    assert r.returncode == 4 and "--take-back" in r.stderr, r.stderr
    assert job.wait() == 87
    m.set_there()
    wait_for(lambda: not m.left_there(), "the end of the copy there")
    ends(m, taken_back(m))


@pytest.mark.parametrize("point", in_tiers(THERE_TAKEN, "devices"))
def test_killed_there_after_the_program_is_taken(machines, point):
    """It may or may not go on there, but it is never taken back while it does."""
    m = machines
    m.set_there(CKPT_TEST_STOP_AT=point)
    job = m.counter()
    r = m.migrate(job.pid, "there")
    assert r.returncode in (0, 4), r.stderr
    m.set_there()
    runs_there(m)
    if r.returncode == 4:
        r = m.migrate("--take-back", m.records("here")[0].stem)
        assert r.returncode == 1 and "runs there" in r.stderr
        assert m.migrate("--finish", m.records("here")[0].stem).returncode == 0
    runs_there(m)
    ends(m, None)


def test_the_last_dump_is_killed_before_it_ends_the_program(machines):
    """It was given away, but was never ended: it goes on here, and there it never will."""
    m = machines
    job = m.counter()
    r = m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": "told-to-end"})
    assert r.returncode == 4, r.stderr
    runs_here(m, job)
    number = listed(m)[0]["number"]
    r = m.migrate("--take-back", number)
    assert r.returncode == 0 and "goes on" in r.stdout, r.stderr
    assert m.migrate("--finish", number).returncode == 0
    runs_here(m, job)
    ends(m, job)


def test_the_last_dump_is_killed_after_it_has_ended_the_program(machines):
    m = machines
    job = m.counter()
    r = m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": "killed"})
    assert r.returncode == 4 and job.wait() == 87, r.stderr
    ends(m, taken_back(m))


def test_the_restore_that_stands_by_is_killed(machines):
    m = machines
    job = m.counter()
    move = held(m, job, "round-1", "--rounds", "2")  # each later round is held, too
    waiting = [p for p in tree_of(m.rsh_pid()) if "--stand-by" in pathlib.Path(f"/proc/{p}/cmdline").read_text().split("\0")]
    assert len(waiting) == 2, "a process in the background, and one that waits for it"
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    os.kill(move.pid, signal.SIGCONT)
    assert move.wait() == 1 and "ckpt-restore" in move.error_text, move.error_text
    runs_here(m, job)
    ends(m, job)
    assert not m.records("here") and not m.records("there")


def test_a_program_that_ends_here_during_the_migration(machines):
    m = machines
    job = m.counter()
    move = held(m, job, "round-1")
    m.ckpt.finish()
    assert job.wait() == 0
    os.kill(move.pid, signal.SIGCONT)
    assert move.wait() == 1, move.error_text
    assert not m.records("here")


# ---- the connection

def held(m, job, point, *options):
    """A migration that is stopped at this point."""
    move = m.start(job.pid, "there", "--link-timeout", "3", *options, env={"CKPT_TEST_HOLD_AT": point})
    wait_for(lambda: pathlib.Path(f"/proc/{move.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", point)
    return move


def states_of_threads(pid):
    try:
        return [t.read_text().rsplit(")", 1)[1].split()[0] for t in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return ["Z"]


def stop_link(m, how):
    """Until all its threads are stopped, one may still pass on what comes."""
    os.kill(m.rsh_pid(), how)
    wait_for(lambda: set(states_of_threads(m.rsh_pid())) <= {"T", "Z"}, "the end of the link's threads")


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.full)], ids=["ends", "hangs"])
@pytest.mark.parametrize("point", ["stopped", "ended"])
def test_the_connection_is_lost(machines, point, how):
    m = machines
    job = m.counter()
    move = held(m, job, point)
    stop_link(m, how)
    os.kill(move.pid, signal.SIGCONT)
    if point == "stopped":
        assert move.wait() == 1, move.error_text
        runs_here(m, job)
    else:
        assert move.wait() == 4 and job.wait() == 87
        job = taken_back(m)
    ends(m, job)


def test_a_machine_that_has_lost_its_folder(machines):
    """It cannot say that the program does not run there."""
    m = machines
    job = m.counter()
    assert m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": "sent-migrate-17"}).returncode == -signal.SIGKILL
    assert job.wait() == 87
    runs_there(m)
    shutil.rmtree(m.records("there")[0])
    r = m.migrate("--take-back", m.records("here")[0].stem)
    assert r.returncode == 1 and "knows nothing" in r.stderr and "--force" in r.stderr
    runs_there(m)
    ends(m, None)


def test_a_machine_that_cannot_be_asked(machines):
    m = machines
    job = m.counter()
    assert m.migrate(job.pid, "there", env={"CKPT_TEST_STOP_AT": "ended"}).returncode == -signal.SIGKILL
    assert job.wait() == 87
    number = listed(m)[0]["number"]
    no_link = ["--rsh", "false"]
    for option in ("--take-back", "--finish"):
        r = m.migrate(*no_link, option, number)
        assert r.returncode == 1 and "--force" in r.stderr, r.stderr
    job = m.start(*no_link, "--force", "--take-back", number)
    runs_here(m, job)
    assert "it now runs twice" in job.error_text
    ends(m, job)


# ---- what is found before anything is touched

def refused(m, job, *arguments, said):
    steps = len(m.steps())
    r = m.migrate(job.pid, "there", *arguments)
    assert r.returncode == 1 and said in r.stderr, r.stderr
    runs_here(m, job)
    assert len(m.steps()) > steps and not m.records("here")


def with_input(m):
    """A program with a file that only this machine has. At its end it writes to `seen` what it reads there."""
    for name in ("empty", "data"):
        (m.folder / name).mkdir()
    (m.folder / "data" / "input").write_text("input\n")
    script = f"f = open('data/input')\n{COUNTER}\nopen('seen', 'w').write(f.read())\n"
    job = m.ckpt.start("ckpt-run", ["--", sys.executable, "-c", script])
    wait_for(lambda: len(m.steps()) > 3, "steps")
    subprocess.run(["nsenter", f"--target={m.init}", "--mount", "mount", "--bind", m.folder / "empty", m.folder / "data"], check=True)
    return job


def test_a_file_that_is_missing_there(machines):
    m = machines
    job = with_input(m)
    refused(m, job, said="data/input")
    ends(m, job)


def test_a_file_that_is_missing_there_goes_with_the_program(machines):
    m = machines
    job = with_input(m)
    r = m.migrate(job.pid, "there", "--with-files")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 87
    runs_there(m)
    m.ckpt.finish()
    wait_for(lambda: not m.left_there(), "the end of the program there")
    in_order(m.steps())
    assert (m.folder / "seen").read_text() == "input\n"


def test_another_version_there(machines):
    m = machines
    fake = m.folder / "old"
    fake.write_text("#!/bin/sh\n" "printf '\\017\\0\\0\\0\\2\\0\\0\\0\\11\\0\\0\\0\\3\\0\\0\\0000.9\\0\\0\\0\\0'\ncat >/dev/null\n")
    fake.chmod(0o755)
    job = m.counter()
    refused(m, job, "--tool-there", str(fake), said="version 9 of the protocol")
    fake.write_text("#!/bin/sh\necho Welcome to this machine\ncat >/dev/null\n")
    refused(m, job, "--tool-there", str(fake), said="does not speak the protocol")
    refused(m, job, "--tool-there", "/nonexistent", said="connection")
    ends(m, job)


def test_a_device_that_is_missing_there(machines):
    m = machines
    job = m.counter()
    refused(m, job, "--device", "ocl:77", said="ocl:77")
    ends(m, job)


def test_a_stop_that_has_become_too_long(machines):
    m = machines
    job = m.counter()
    refused(m, job, "--rounds", "0", "--max-downtime", "0.001", said="has been stopped for")
    ends(m, job)


@pytest.mark.parametrize("tie", ["image", "job"])
def test_a_program_that_would_be_started_again_here(machines, tie):
    m = machines
    (m.folder / "series").mkdir()
    job = m.ckpt.start("ckpt-run", [f"--{tie}", "series", "--", sys.executable, "-c", COUNTER])
    wait_for(lambda: len(m.steps()) > 3, "steps")
    refused(m, job, said=f"--{tie}")
    ends(m, job)


def test_a_disk_without_room_there(machines):
    m = machines
    (m.folder / "there").mkdir()
    subprocess.run(["nsenter", f"--target={m.init}", "--mount", "mount", "-t", "tmpfs", "-o", "size=4m", "small", m.folder / "there"], check=True)
    job = m.counter()
    refused(m, job, said="make room there")
    ends(m, job)


def test_root_moves_no_program_of_another_user(machines):
    m = machines
    let_users_in(m.folder)
    m.folder.chmod(0o777)
    m.ckpt.runtime.chmod(0o777)
    job = m.ckpt.start_shell(f"exec setpriv --reuid 12345 --regid 12345 --clear-groups {m.ckpt.tool('ckpt-run')} -- sleep 1000")
    pid = wait_for(lambda: next((p for p in tree_of(job.pid) if commands_of([p]) == ["sleep 1000 "]), None), "sleep")
    r = m.migrate(pid, "there")
    assert r.returncode == 1 and "belongs to another user" in r.stderr, r.stderr


def test_a_stop_that_would_be_too_long(machines):
    m = machines
    job = m.counter()
    refused(m, job, "--max-downtime", "0.001", said="longer than --max-downtime")
    ends(m, job)


# ---- users without root

class Local:
    """The "other machine" of a user without root: other session and state folders. ckpt-helper restores the copy in a PID
    namespace of its own, so that it can be loaded beside the original."""

    def __init__(self, user):
        self.user, self.there = user, user.folder / "there"
        self.there.mkdir()
        os.chown(self.there, user.uid, user.uid)
        user.env["XDG_STATE_HOME"] = str(user.folder / "here")
        self.rsh = user.folder / "rsh"
        self.set_there()

    def set_there(self, setting=""):
        self.rsh.write_text(f"#!/bin/sh\nshift\nexec env -u CKPT_TEST_STOP_AT CKPT_RUNTIME_DIR={self.there} XDG_STATE_HOME={self.there} "
                            f'{setting} "$@"\n')
        self.rsh.chmod(0o755)

    def migrate(self, *arguments, stop_at=""):
        self.user.env["CKPT_TEST_STOP_AT"] = stop_at
        return self.user.tool("ckpt-migrate", "--rsh", self.rsh, "--tool-there", BUILD / "tools" / "ckpt-migrate", *arguments)

    def program(self):
        (self.user.folder / "steps").unlink(missing_ok=True)
        job = self.user.run("/usr/bin/python3", "-c", COUNTER)
        wait_for(lambda: self.steps() > 3, "steps")
        return job

    def steps(self):
        try:
            return len((self.user.folder / "steps").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def goes_on(self):
        before = self.steps()
        wait_for(lambda: self.steps() > before + 3, "steps")

    def ends(self):
        self.goes_on()
        (self.user.folder / "finish").touch()
        last = wait_for(lambda: self.at_rest(), "the end of the program")
        in_order(last)

    def at_rest(self):
        lines = (self.user.folder / "steps").read_text().splitlines()
        return lines if not any("python3 -c" in c for c in commands_of(tree_of(1))) else None


@needs_helper
def test_a_user_without_root_moves_a_program(user, helper):  # noqa: F811
    local = Local(user)
    job = local.program()
    r = local.migrate(job.pid, "there", "--json")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 87
    local.goes_on()
    user.programs.append(json.loads(r.stdout)["pid_there"])
    local.ends()


@needs_helper
@pytest.mark.parametrize("point", ["ready", "loaded"])
def test_killed_before_the_program_of_a_user_is_given_away(user, helper, point):  # noqa: F811
    local = Local(user)
    if point == "loaded":
        local.set_there("CKPT_TEST_STOP_AT=loaded")
    job = local.program()
    r = local.migrate(job.pid, "there", stop_at="ready" if point == "ready" else "")
    assert r.returncode == (-signal.SIGKILL if point == "ready" else 1), r.stderr
    wait_for(lambda: not helper.workers(), "the end of the copy")
    assert job.process.poll() is None
    local.ends()
    assert job.wait() == 0


@needs_helper
@pytest.mark.parametrize("point", ["ended", "taken"])
def test_a_user_takes_a_program_back(user, helper, point):  # noqa: F811
    local = Local(user)
    if point == "taken":
        local.set_there("CKPT_TEST_STOP_AT=taken")
    job = local.program()
    r = local.migrate(job.pid, "there", stop_at="ended" if point == "ended" else "")
    assert r.returncode == (-signal.SIGKILL if point == "ended" else 4), r.stderr
    assert job.wait() == 87
    wait_for(lambda: not helper.workers(), "the end of the copy")
    local.set_there()
    r = local.migrate("--detach", "--take-back", json.loads(local.migrate("--list", "--json").stdout)[0]["number"])
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    local.ends()
