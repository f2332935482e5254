# SPDX-License-Identifier: Apache-2.0
"""ckpt-idled: what it says of a machine, and three machines of a Slurm whose owners come and go."""
import json
import os
import pwd
import subprocess
import sys

import pytest

import slurm
from conftest import BUILD, ROOT, let_users_in, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_opencl import devices  # noqa: F401 (a fixture)
from test_slurm import OPTIONS, HeatJob, cluster_of  # noqa: F401 (a fixture)
from toolkit import WHY_NOT

TOOL = BUILD / "tools" / "ckpt-idled"
NVML = BUILD / "softcuda" / "nvml" / "libnvidia-ml.so.1"
NEEDS_SLURM = pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")
# Neither root, nor the guests' account, nor one that Slurm trusts.
ACCOUNT = "daemon"
BURN = "while True: pass"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="ckpt-idled is not built")


class Machine:
    """A ckpt-idled with a folder of its own, and the file from which it takes its samples.

    sees(line)   what it sees from now on
    status()     its status
    said()       what it has logged"""

    def __init__(self, folder, *options, env=None, user=None, scripted=True):
        self.folder = folder
        self.folder.mkdir(mode=0o755)
        account = pwd.getpwnam(user) if user else None
        if account:
            os.chown(folder, account.pw_uid, account.pw_gid)
            os.chmod(folder.parent, 0o755)
        self.env = env or dict(os.environ)
        self.samples = folder / "samples"
        if scripted:
            options = [f"--samples={self.samples}", *options]
        self.log = open(folder / "log", "w")
        more = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        self.process = subprocess.Popen([TOOL, f"--folder={folder}", "--interval=0.1", *options], env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, **more)
        wait_for(lambda: self.status_file().exists() or self.process.poll() is not None, "ckpt-idled")
        assert self.process.poll() is None, self.said()

    def sees(self, words):
        new = self.folder.with_suffix(".next")
        new.write_text(f"0 {words}\n")
        new.rename(self.samples)

    def status(self):
        return json.loads(self.status_file().read_text())

    def status_file(self):
        return self.folder / "status.json"

    def said(self):
        return (self.folder / "log").read_text()

    def waits_for(self, idle, reason=None):
        wait_for(lambda: self.status()["idle"] == idle and reason in (None, self.status()["reason"]),
                 f"idle={idle} {reason}: {self.status()}")

    def command(self, *options, user=None):
        more = {"user": pwd.getpwnam(user).pw_uid, "extra_groups": []} if user else {}
        return subprocess.run([TOOL, f"--folder={self.folder}", *options], env=self.env, capture_output=True, text=True, timeout=60,
                              **more)

    def ends(self):
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture
def machine(tmp_path):
    """machine(options…)  a Machine, which ends with the test"""
    started = []

    def start(*options, **more):
        started.append(Machine(tmp_path / f"m{len(started) + 1}", *options, **more))
        return started[-1]

    yield start
    for m in started:
        if m.process.poll() is None:
            m.ends()
        m.log.close()


@pytest.mark.no_criu
def test_each_change_is_logged_with_its_reason(machine):
    m = machine("--quiet=0.2", "--battery")
    assert not m.status()["idle"]  # there is no sample
    m.sees("cpu=5")
    m.waits_for(True, "quiet")
    m.sees("cpu=45")
    m.waits_for(False, "cpu")
    m.sees("cpu=0 device=3000000")
    m.waits_for(False, "device memory")
    m.sees("cpu=0 battery")
    m.waits_for(False, "battery")
    m.sees("cpu=29.9 device=1000000")
    m.waits_for(True)
    assert m.said().splitlines()[-3:] == ["idle: quiet for 0.2 s",
                                          "busy: the owner's programs use 45 % of the processors (limit: 30 %)",
                                          "idle: quiet for 0.2 s"]
    assert m.command("--status").stdout.startswith("idle for 0m0")
    assert json.loads(m.command("--json").stdout)["transitions"] == m.status()["transitions"]
    again = m.command(f"--samples={m.samples}")
    assert again.returncode == 1 and "another ckpt-idled uses" in again.stderr
    assert m.ends() == 0
    gone = m.command("--status")
    assert gone.returncode == 1 and "no ckpt-idled runs" in gone.stderr


@pytest.mark.no_criu
def test_an_owner_without_rights_switches_guests_off_and_on(machine, tmp_path):
    let_users_in(tmp_path)
    m = machine("--quiet=0.1")
    m.sees("cpu=0")
    m.waits_for(True)
    r = m.command("--off", user="nobody")
    assert r.returncode == 0, r.stderr
    m.waits_for(False, "off")
    assert m.status()["off_by"] == ["nobody"] and "(by nobody)" in m.command("--status").stdout
    # Another user cannot take it back.
    assert "still switched off by nobody" in m.command("--on", user=ACCOUNT).stdout
    assert not m.status()["idle"]
    assert "guests may use" in m.command("--on", user="nobody").stdout
    m.waits_for(True)


@pytest.mark.no_criu
def test_guests_are_not_the_owner(machine):
    """On this machine, whatever else it does: a guest's use of the processors is told from the rest."""
    m = machine("--guests=nobody", "--device-memory=none", "--cpu=0.1", scripted=False)
    assert m.status()["guest_cpu"] < 0.01
    guest = subprocess.Popen([sys.executable, "-c", BURN], user="nobody", extra_groups=[])
    try:
        wait_for(lambda: m.status()["guest_cpu"] > 0.1, f"the guest: {m.status()}")
    finally:
        guest.kill()
        guest.wait()
    owner = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        m.waits_for(False, "cpu")
        wait_for(lambda: m.status()["owner_cpu"] > 0.1 and m.status()["guest_cpu"] < 0.01, f"the owner: {m.status()}")
    finally:
        owner.kill()
        owner.wait()


@pytest.mark.no_criu
@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
@pytest.mark.skipif(not RUN.exists() or not NVML.exists(), reason="the software device is not built")
def test_device_memory_of_the_owner(machine, make, tmp_path):  # noqa: F811
    """By the software device's NVML. With --guests the same program is a guest, and does not count."""
    env = dict(os.environ, CKPT_SOFTCUDA="1x256M", CKPT_RUNTIME_DIR=str(tmp_path),
               CKPT_SOFTCUDA_BROKER=str(BUILD / "softcuda" / "ckpt-softcuda-broker"))
    options = [f"--nvml={NVML}"]
    owner = machine(*options, env=env, scripted=False)
    by_account = machine(*options, f"--guests={os.geteuid()}", env=env, scripted=False)
    hold = tmp_path / "a-end"
    hold.touch()
    program = subprocess.Popen([RUN, make("tenant.cu"), "a", "20"], env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    while program.stdout.readline() not in ("have 20\n", ""):
        pass
    wait_for(lambda: owner.status()["owner_device_bytes"] >= 20 << 20, f"the memory: {owner.status()}")
    seen = by_account.status_file().stat().st_mtime_ns
    wait_for(lambda: by_account.status_file().stat().st_mtime_ns > seen, "another look")
    assert by_account.status()["owner_device_bytes"] == 0
    hold.unlink()
    assert program.wait(60) == 0
    wait_for(lambda: owner.status()["owner_device_bytes"] == 0, f"the end: {owner.status()}")
    assert by_account.status()["owner_device_bytes"] == 0


@pytest.mark.no_criu
def test_what_a_log_would_have_led_to(tmp_path):
    log = tmp_path / "log"
    log.write_text("# a day\n0\n100 cpu=50\n105\n200 input\n300\n")
    run = lambda *o: subprocess.run([TOOL, f"--replay={log}", *o], capture_output=True, text=True, timeout=60)  # noqa: E731
    r = json.loads(run("--json").stdout)
    assert [(t["at"], t["idle"]) for t in r["transitions"]] == [(1, True), (100, False), (106, True)]
    assert r["idle_seconds"] == 99 + 194 and r["end"] == 300
    assert run("--input=60").stdout.splitlines()[-1] == "idle for 172.000 s of 300.000"
    log.write_text("0\n5 cpu=x\n")
    assert run().returncode == 1 and "line 2" in run().stderr
    assert run("--hours=5").returncode == 125 and "--hours cannot be" in run("--hours=5").stderr


@pytest.mark.no_criu
def test_the_evaluation_of_a_log(tmp_path):
    """bench/grid, on a log that can be checked by hand: idle for 100 s and 300 s, and a restore of 0.1 GB takes 0.6 s."""
    log = tmp_path / "log"
    log.write_text("0\n101 cpu=90\n110\n411 cpu=90\n420 cpu=90\n")
    r = subprocess.run([sys.executable, ROOT / "bench" / "grid" / "run", f"--build={BUILD}", f"--log={log}"], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    cells = [c.strip() for c in r.stdout.splitlines()[-1].strip("|").split("|")]
    idle, kept = 400, (100 - 0.6 + 300 - 0.6) / (400 + 2 * 0.6)
    assert cells[1:7] == [f"{100 * idle / 420:.1f}", "3.3 min", "100.0", "0.0", "0.0", f"{100 * kept:.1f}"]
    assert cells[-1] == "0.0"  # 64 GB do not leave within the grace time


# ---- three machines of a Slurm

GUEST = ["--signal=B:USR1@30", "--requeue", "--open-mode=append", "--output=out", "--cpus-per-task=1", "--mem=100"]
# Tries what a guest must not do, and goes on elsewhere when it is told to leave.
INTRUDER = """#!/bin/sh
trap 'echo told to leave $SLURMD_NODENAME; exit 85' USR1
echo on $SLURMD_NODENAME
cat {home}/letter {home}/open && echo has read
echo x >{home}/letter && echo has written
ls {home} && echo has listed
kill -0 {pid} && echo may signal
cat /proc/{pid}/environ && echo has read the environment
while :; do sleep 0.1; done
"""


@pytest.fixture
def grid(cluster_of, machine, tmp_path):  # noqa: F811
    """A cluster with a ckpt-idled for each of three nodes; all owners are busy."""
    cluster = cluster_of(nodes=("n1", "n2", "n3"))
    let_users_in(tmp_path)
    cluster.machines = {}
    for node in cluster.nodes:
        m = machine(f"--slurm={node}", "--partition=high", "--quiet=0.2", env=cluster.env, user=ACCOUNT)
        m.sees("cpu=100")
        cluster.machines[node] = m
    wait_for(lambda: holders(cluster) == ["n1", "n2", "n3"], f"owners on all nodes: {cluster.logs()}")
    yield cluster
    for m in cluster.machines.values():
        m.ends()
    subprocess.run(["scancel", f"--user={ACCOUNT}"], env=cluster.env)


def holders(cluster):
    """The nodes on which an owner's job runs."""
    r = subprocess.run(["squeue", "-h", f"--user={ACCOUNT}", "--states=RUNNING", "-o", "%N %j"], env=cluster.env,
                       capture_output=True, text=True)
    lines = [line.split() for line in r.stdout.splitlines()]
    assert all(name == f"ckpt-owner-{node}" for node, name in lines), lines
    return sorted(node for node, _ in lines)


def number_of_holder(cluster, node):
    return subprocess.run(["squeue", "-h", f"--name=ckpt-owner-{node}", "--states=RUNNING", "-o", "%i"], env=cluster.env,
                          capture_output=True, text=True).stdout.strip()


@NEEDS_SLURM
@pytest.mark.full
def test_a_guest_goes_to_the_idle_machine_and_sees_nothing_of_the_owner(grid):
    """The guest is a script. Slurm tells it to leave when the owner is back, and starts it on the next idle
    machine. ckpt-idled runs as an ordinary account throughout."""
    home = grid.folder / "home"
    home.mkdir(mode=0o700)
    (home / "letter").write_text("secret\n")
    (home / "open").write_text("secret\n")
    (home / "open").chmod(0o644)
    owner = subprocess.Popen(["sleep", "1000"], env={"SECRET": "secret"})
    try:
        job = grid.submit(INTRUDER.format(home=home, pid=owner.pid), *GUEST)
        out = grid.jobs / "out"
        said = lambda: out.read_text() if out.exists() else ""  # noqa: E731
        grid.machines["n2"].sees("cpu=3")
        wait_for(lambda: "on n2" in said(), f"the guest on n2: {grid.logs()}")
        assert grid.state(job) == "RUNNING" and holders(grid) == ["n1", "n3"]
        wait_for(lambda: "Permission denied" in said() and said().count("denied") + said().count("permitted") >= 5,
                 f"the guest's attempts: {said()}")
        grid.machines["n3"].sees("cpu=3")
        wait_for(lambda: holders(grid) == ["n1"], "n3 to be free")
        grid.machines["n2"].sees("cpu=80")
        wait_for(lambda: "on n3" in said(), f"the guest on n3: {said()} {grid.logs()}")
        wait_for(lambda: holders(grid) == ["n1", "n2"], "the owner on n2")
    finally:
        owner.kill()
        owner.wait()
    text = said()
    assert text.index("on n2") < text.index("told to leave n2") < text.index("on n3")
    assert "secret" not in text and "has " not in text and "may " not in text, text
    assert (home / "letter").read_text() == "secret\n"
    assert "busy: the owner's programs use 80 % of the processors" in grid.machines["n2"].said()
    # ckpt-idled's account has no rights over the node.
    r = subprocess.run(["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=x"], env=grid.env, user=ACCOUNT,
                       extra_groups=[], capture_output=True, text=True)
    assert r.returncode != 0 and grid.node_state("n1") != "drng", r.stderr
    # Where nothing watches, there is no guest.
    assert grid.machines["n3"].ends() == 0
    wait_for(lambda: holders(grid) == ["n1", "n2", "n3"], "n3 to be taken away from guests")


@NEEDS_SLURM
@pytest.mark.full
def test_a_guests_work_is_kept_when_owners_come_back(grid):
    """An OpenCL program under ckpt-run follows the idle machine, twice, and computes no step twice."""
    job = HeatJob(grid, "--signal=B:USR1@30", steps=20000)
    for n, (idle, busy) in enumerate((("n1", None), ("n3", "n1"), ("n2", "n3"))):
        grid.machines[idle].sees("cpu=3")
        if busy:
            grid.machines[busy].sees("device=4000000")
        wait_for(lambda: job.state == "RUNNING" and job.node == idle and job.restarts >= n or job.has_ended(),
                 f"the guest on {idle}")
        assert job.restarts == n, f"{job.described()} {grid.logs()}"
        job.computes()
    # An owner's job that is lost is submitted again.
    first = number_of_holder(grid, "n1")
    subprocess.run(["scancel", first], env=grid.env, check=True)
    wait_for(lambda: number_of_holder(grid, "n1") not in ("", first), "the job to be submitted again")
    job.ends_right()
    steps = [line.split()[1] for line in job.output.splitlines() if line.startswith("step ")]
    assert steps == sorted(set(steps), key=lambda s: int(s.split("/")[0]))
