# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm that are preempted, drained and moved, with an OpenCL program that checks its result."""
import functools
import os
import re
import shlex
import subprocess

import pytest

import accounting
import slurm
from conftest import BUILD, ROOT, wait_for
from test_opencl import HEAT, devices  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.full, pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")]

CELLS = 512
# Numbers of steps are chosen for a machine that takes so much processor time for a step. On a faster one, jobs make more of
# them, so that they do not end before Slurm has acted.
STEP_SECONDS = 2.5e-3
# A job takes a whole node.
OPTIONS = ["--requeue", "--open-mode=append", "--output=out", "--cpus-per-task=2", "--mem=200"]


@pytest.fixture
def cluster_of(ckpt, devices):  # noqa: F811
    """cluster_of(user=…, nodes=…)  a cluster, which ends with the test"""
    started = []
    env, here = devices

    def start(user=slurm.ORDINARY, **more):
        if user != "root" and not (BUILD / "helper" / "ckpt-helper").exists():
            pytest.skip("ckpt-helper is not built")
        s = slurm.Slurm({**env, **ckpt.env}, user=user, **more)
        started.append(s)
        for variable in ("POCL_CACHE_DIR", "CKPT_RUNTIME_DIR", "HOME"):
            s.env[variable] = str(s.jobs)
        s.device = here["pocl"]
        s.env["PATH"] = f"{BUILD}/tools:{s.env['PATH']}"
        return s

    yield start
    for s in started:
        s.close()


@functools.cache
def pace():
    """How many times faster this machine is; at least 1."""
    env = dict(os.environ, OCL_ICD_VENDORS="/etc/OpenCL/vendors/pocl.icd")

    def processor_seconds(steps):
        job = subprocess.Popen([HEAT, "--n", str(CELLS), "--steps", str(steps)], env=env, stdout=subprocess.DEVNULL)
        used = os.wait4(job.pid, 0)[2]
        return used.ru_utime + used.ru_stime

    return max(1, STEP_SECONDS / max((processor_seconds(2200) - processor_seconds(200)) / 2000, 1e-6))


class HeatJob(slurm.BatchJob):
    """A job that runs heat under ckpt-run, with the checksum that heat prints without ckpt.

    computes(n)   waits until it has printed n more steps
    ends_right()  waits until the job is completed; its result is the right one"""

    def __init__(self, cluster, *options, steps=6000, more=""):
        steps = round(steps * pace() / 10) * 10
        program = [HEAT, "--n", CELLS, "--steps", str(steps), "--report", "10", "--checksum"]
        pocl = dict(cluster.env, OCL_ICD_VENDORS="/etc/OpenCL/vendors/pocl.icd")
        self.reference = subprocess.Popen([str(c) for c in program], env=pocl, stdout=subprocess.PIPE, text=True)
        command = shlex.join(map(str, ["--device", cluster.device, "--", *program]))
        super().__init__(cluster, f"exec ckpt-run --image images/%j {more} {command}", *OPTIONS, *options)

    def images(self):
        return list((self.cluster.jobs / "images" / str(self.number)).glob("*.img"))

    def computes(self, n=3):
        begin = self.output.count("step ")
        wait_for(lambda: self.output.count("step ") >= begin + n or self.has_ended(),
                 f"job {self.number} to compute: {self.described()}")
        assert self.state == "RUNNING", self.described()

    def ends_right(self, repeats=False):
        wait_for(lambda: self.has_ended(), f"the job's end: {self.described()}", 300)
        assert self.state == "COMPLETED", self.described()
        expected = self.reference.communicate()[0].splitlines()[-1]
        assert re.match("checksum", expected) and self.output.splitlines()[-1] == expected
        assert repeats or self.output.count(expected) == 1


@pytest.mark.parametrize("user", [slurm.ORDINARY, pytest.param("root", marks=pytest.mark.full)])
def test_a_preempted_job_continues(cluster_of, user):
    """A high job needs the low one's node. The low one is checkpointed, queued again, and continues on the
    other node. Then it is moved back by its owner."""
    cluster = cluster_of(user)
    job = HeatJob(cluster, "--signal=B:USR1@30")
    job.computes()
    node = job.node
    high = cluster.submit("sleep 1000", "--partition=high", f"--nodelist={node}", "--cpus-per-task=2", "--mem=200")
    wait_for(lambda: job.restarts == 1 and job.state == "RUNNING" or job.has_ended(), f"the restart: {job.described()}")
    assert cluster.state(high) == "RUNNING" and job.images(), job.output
    assert job.node != node
    job.computes()
    cluster.run("scancel", high)
    cluster.signal(job.number, "USR2")
    job.stops()
    cluster.control("update", f"JobId={job.number}", f"ReqNodeList={node}")
    cluster.control("release", job.number)
    job.ends_right()
    assert job.node == node and job.restarts == 2
    # It went on from its images: no step was computed twice.
    steps = re.findall(r"step (\d+)/", job.output)
    assert steps == sorted(set(steps), key=int)


def goes_on_elsewhere(job, node, repeats=False):
    wait_for(lambda: job.state == "RUNNING" and job.node != node or job.has_ended(), f"the restart: {job.described()}", 120)
    job.ends_right(repeats)
    assert job.node != node and job.restarts >= 1


THREE = ("n1", "n2", "n3")


@pytest.mark.full
def test_a_drained_node_is_emptied(cluster_of):
    """Draining signals no job: its owner or the administrator queues it again."""
    cluster = cluster_of(nodes=THREE)
    job = HeatJob(cluster)
    job.computes()
    node = job.node
    cluster.control("update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    job.computes()
    cluster.control("requeue", job.number)
    goes_on_elsewhere(job, node)


@pytest.mark.full
def test_a_job_that_its_owner_queues_again(cluster_of):
    cluster = cluster_of(nodes=THREE)
    job = HeatJob(cluster)
    job.computes()
    assert cluster.run("scontrol", "requeue", job.number).returncode == 0
    wait_for(lambda: job.state == "RUNNING" and job.restarts == 1 or job.has_ended(), f"the restart: {job.described()}", 120)
    job.ends_right()
    assert job.images()


@pytest.mark.full
def test_a_node_that_is_set_down(cluster_of):
    cluster = cluster_of(nodes=THREE)
    job = HeatJob(cluster)
    job.computes()
    node = job.node
    cluster.control("update", f"NodeName={node}", "State=DOWN", "Reason=test")
    goes_on_elsewhere(job, node)


@pytest.mark.full
def test_the_time_limit(cluster_of):
    """A minute, the shortest limit. Slurm warns within the minute before the 20 seconds."""
    cluster = cluster_of(nodes=THREE)
    job = HeatJob(cluster, "--time=1", "--signal=B:USR1@20", steps=40000)
    job.computes()
    wait_for(lambda: job.restarts >= 1 or job.has_ended(), f"the restart: {job.described()}", 200)
    job.ends_right()


@pytest.mark.full
def test_a_node_that_fails(cluster_of):
    """Without a signal. The job continues from its last image, and repeats the work after it."""
    cluster = cluster_of(nodes=THREE, node_timeout=10)
    job = HeatJob(cluster, more="--every 2s")
    wait_for(lambda: len(job.images()) >= 2 or job.has_ended(), f"two images: {job.described()}")
    node = job.node
    cluster.kill_node(node)
    wait_for(lambda: cluster.node_state(node).startswith("down"), "Slurm to notice it")
    goes_on_elsewhere(job, node, repeats=True)  # on a loaded machine even the end, printed before Slurm was told
    assert job.output.count(f"{CELLS} x {CELLS} cells") == 1  # it did not begin anew


@pytest.mark.full
def test_preemptions(cluster_of):
    """No exit code is lost: each preemption by a job of higher priority leads to an image, 85 and a job that is queued
    again. CKPT_TEST_ROUNDS=100 takes about a quarter of an hour, as Slurm waits for 6 s each time."""
    rounds = int(os.environ.get("CKPT_TEST_ROUNDS", "5"))
    cluster = cluster_of()
    job = HeatJob(cluster, "--signal=B:USR1@30", steps=2000 * rounds)
    for n in range(1, rounds + 1):
        job.computes(1)
        cluster.submit("sleep 1", "--partition=high", f"--nodelist={job.node}", "--cpus-per-task=2", "--mem=200")
        wait_for(lambda: job.restarts >= n or job.has_ended(), f"restart {n}: {job.described()}", 200)
        assert job.restarts == n, job.described()
    job.ends_right()
    steps = re.findall(r"step (\d+)/", job.output)
    assert steps == sorted(set(steps), key=int)


# ---- the plugin

needs_plugin = pytest.mark.skipif(not slurm.PLUGIN.exists(), reason="spank_ckpt.so is not built (libslurm-dev is missing)")

# Says what it was started with, and returns 0 as soon as it has two images.
PROGRAM = """
import os, sys, time
print("task", os.environ["SLURM_PROCID"], "image" if "CKPT_IMAGE" in os.environ else "no image", flush=True)
while len([f for f in os.listdir(sys.argv[1]) if f.endswith(".img")]) < 2: time.sleep(0.1)
"""


@needs_plugin
def test_the_option_of_slurms_commands(cluster_of):
    cluster = cluster_of("root", grace_time=0)
    (cluster.jobs / "program.py").write_text(PROGRAM)
    program = "ckpt-run /usr/bin/python3 program.py"
    assert "--ckpt=every=TIME,dir=FOLDER" in cluster.run("srun", "--help").stdout
    for wrong in ("every", "dir=", "often=1s", "every=1s,,dir=x", "dir=" + "x" * 2000):
        refused = cluster.run("sbatch", f"--ckpt={wrong}", input="#!/bin/sh\n")
        assert refused.returncode != 0 and "--ckpt=" in refused.stderr, wrong
    # sbatch: the batch script; srun: a series for each task; salloc: its shell.
    path = f"export PATH={BUILD}/tools:$PATH CKPT_RUNTIME_DIR={cluster.jobs}; exec "
    batch = cluster.submit(path + program + " a/$SLURM_JOB_ID", "--ckpt=every=1s,dir=a", "--output=a.out")
    r = cluster.run("srun", "--ckpt=every=1s", "-n2", "sh", "-c", program + " images/$SLURM_JOB_ID/$SLURM_PROCID", timeout=120)
    assert r.returncode == 0 and sorted(r.stdout.splitlines()) == ["task 0 no image", "task 1 no image"], r.stderr
    assert sorted(p.name for p in next((cluster.jobs / "images").iterdir()).iterdir()) == ["0", "1"]
    r = cluster.run("salloc", "--ckpt=dir=b", "sh", "-c", "echo $CKPT_IMAGE; srun sh -c 'echo $CKPT_IMAGE $CKPT_EVERY'", timeout=120)
    assert r.stdout.splitlines() == ["b/%j", "b/%j"], r.stdout + r.stderr
    wait_for(lambda: cluster.state(batch) in ("COMPLETED", "FAILED"), "the batch job")
    said = (cluster.jobs / "a.out").read_text()
    assert said.startswith("task 0 no image\n") and said.count("GraceTime") == 1, said
    assert cluster.state(batch) == "COMPLETED"
    assert list((cluster.jobs / "a" / str(batch)).glob("*.img"))


# ---- a signal in a job's first moments

# Ends when "go" is there.
COUNT = "i=0; until [ -e go ]; do i=$((i+1)); sleep 0.1; done; echo counted $((i > 0))"


def early_job(cluster, shell, *options):
    """It is signalled before it has called ckpt-run."""
    script = f"#!{shell}\n: >begun; sleep 3\nexec ckpt-run /bin/sh -c {shlex.quote(COUNT)}\n"
    job = slurm.BatchJob(cluster, script, "--ckpt=dir=images", *OPTIONS, *options)
    wait_for(lambda: (cluster.jobs / "begun").exists() or job.has_ended(), f"the script: {job.described()}")
    cluster.signal(job.number, "USR1")
    return job


@needs_plugin
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_signal_before_the_script_has_called_ckpt_run(cluster_of, shell):
    """It is kept, and checkpoints the program. sacct and the job's comment say so."""
    cluster = cluster_of("root", accounting=accounting.WHY_NOT is None, more_lines=["AccountingStoreFlags=job_comment"])
    job = early_job(cluster, shell, "--comment=mine")
    wait_for(lambda: job.restarts == 1 or job.has_ended(), f"the restart: {job.described()}", 120)
    assert job.restarts == 1, job.described()
    comment = cluster.run("squeue", "-h", "-j", job.number, "-o", "%k").stdout.strip()
    image = cluster.jobs / "images" / str(job.number) / "0001.img"
    assert comment.startswith(f"mine [ckpt: exit code 85: checkpointed to {image}, ") and image.exists(), comment
    if accounting.WHY_NOT is None:
        rows = ("sacct", "--duplicates", "-X", "-P", "-n", "-j", job.number, "-o", "state,exitcode,comment")
        wait_for(lambda: cluster.run(*rows).stdout.startswith(f"REQUEUED|85:0|{comment}\n"), "the first start's row")
    wait_for(lambda: job.state == "RUNNING" or job.has_ended(), "the second start", 120)
    (cluster.jobs / "go").touch()
    wait_for(job.has_ended, f"the end: {job.described()}", 120)
    assert job.state == "COMPLETED" and "counted 1" in job.output, job.described()


# In place of ckpt-run.
SAYS_WHAT_IS_BLOCKED = """#!/usr/bin/python3
import os
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("SigBlk")), os.environ.get("CKPT_HELD_SIGNALS"))
"""


@needs_plugin
def test_signals_are_kept_only_for_ckpt_run(cluster_of):
    """A script with a trap, one that calls another program, and a step of another program get their signals as always."""
    cluster = cluster_of("root")
    ckpt_run = cluster.jobs / "ckpt-run"
    ckpt_run.write_text(SAYS_WHAT_IS_BLOCKED)
    ckpt_run.chmod(0o755)

    def signalled(script):
        (cluster.jobs / "begun").unlink(missing_ok=True)
        job = slurm.BatchJob(cluster, script, "--ckpt", *OPTIONS)
        wait_for(lambda: (cluster.jobs / "begun").exists() or job.has_ended(), "the script")
        cluster.signal(job.number, "USR1")
        wait_for(job.has_ended, f"the script's end: {job.described()}")
        return job.state, cluster.field(job.number, "ExitCode")

    assert signalled("trap 'exit 7' USR1; : >begun; sleep 20 & wait; exec ./ckpt-run") == ("FAILED", "7:0")
    assert signalled(": >begun; sleep 20; exec ./other ckpt-run") == ("FAILED", "0:10")
    for program, expected in [("/usr/bin/grep SigBlk /proc/self/status", "SigBlk:\t0000000000000000"),
                              ("./ckpt-run", "0000000000000a00 USR1,USR2")]:
        r = cluster.run("srun", "--ckpt", *program.split(), timeout=120)
        assert r.stdout.strip() == expected, r.stdout + r.stderr


@needs_plugin
def test_a_script_ends_and_is_ended_as_without_the_process_before_it(cluster_of):
    cluster = cluster_of("root")
    rest = "exec ckpt-run true"
    for script, expected in [("exit 7", ("FAILED", "7:0")), ("kill -TERM $$", ("FAILED", "0:15")), ("kill -KILL $$", ("FAILED", "0:9"))]:
        job = slurm.BatchJob(cluster, f"{script}; {rest}", "--ckpt", *OPTIONS)
        wait_for(job.has_ended, "the end")
        assert (job.state, cluster.field(job.number, "ExitCode")) == expected, script
    job = slurm.BatchJob(cluster, f": >begun; sleep 1000; {rest}", "--ckpt", *OPTIONS)
    wait_for(lambda: (cluster.jobs / "begun").exists(), "the script")
    assert cluster.run("scancel", job.number).returncode == 0
    wait_for(lambda: job.state == "CANCELLED" and cluster.node_state(job.node) == "idle", "the end of all its processes")
