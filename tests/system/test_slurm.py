# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm that are preempted, drained and moved, with OpenCL programs that check their results."""
import os

import pytest

import slurm
from conftest import wait_for
from test_opencl import HEAT, devices, Programs  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.full, pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")]

STEPS = 3000
OPTIONS = ["--requeue", "--open-mode=append", "--output=out", "--cpus-per-task=2", "--mem=200"]


@pytest.fixture
def cluster(ckpt):
    s = slurm.Slurm(ckpt.env)
    yield s
    s.close()


@pytest.fixture
def heat(ckpt, devices):  # noqa: F811
    """A job script that runs heat, and the checksum that it prints without ckpt."""
    device = Programs(ckpt, *devices).device("pocl")
    program = f"{HEAT} --n 128 --steps {STEPS} --report 10"
    script = f"exec {ckpt.tool('ckpt-run')} --image {ckpt.folder}/images/%j --device {device} -- {program}"
    expected = os.popen(program).read().splitlines()[-1]
    return script, expected


def output(ckpt):
    path = ckpt.folder / "out"
    return path.read_text() if path.exists() else ""


def runs(ckpt, cluster, job, steps=3):
    begin = output(ckpt).count("step ")
    wait_for(lambda: output(ckpt).count("step ") >= begin + steps or cluster.state(job) == "COMPLETED",
             f"job {job} to compute: {cluster.state(job)} {output(ckpt)[-500:]}")


def ends_right(ckpt, cluster, job, expected):
    wait_for(lambda: cluster.state(job) == "COMPLETED", f"the end of job {job}: {cluster.state(job)} {output(ckpt)[-500:]}", 200)
    assert expected in output(ckpt)


def test_a_preempted_job_goes_on(ckpt, cluster, heat):
    """A high job takes both nodes. The low one is checkpointed, queued again, and goes on from its image."""
    script, expected = heat
    job = cluster.submit(ckpt.folder, script, *OPTIONS, "--signal=USR1@5")
    runs(ckpt, cluster, job)
    high = cluster.submit(ckpt.folder, "sleep 1", "--partition=high", "--nodes=2", "--cpus-per-task=2", "--mem=200")
    wait_for(lambda: cluster.state(high) == "COMPLETED", "the high job", 120)
    assert (ckpt.folder / "images" / str(job) / "0001.img").is_dir(), output(ckpt)
    ends_right(ckpt, cluster, job, expected)
    assert int(cluster.field(job, "Restarts")) >= 1


@pytest.mark.full
def test_a_job_is_moved_to_another_node(ckpt, cluster, heat):
    script, expected = heat
    job = cluster.submit(ckpt.folder, script, *OPTIONS, "--nodelist=n1")
    runs(ckpt, cluster, job)
    cluster.signal(job, "USR2")
    wait_for(lambda: cluster.state(job) == "PENDING", "the job to be held")
    cluster.control("update", f"JobId={job}", "ReqNodeList=n2")
    cluster.control("release", job)
    ends_right(ckpt, cluster, job, expected)
    assert cluster.field(job, "NodeList") == "n2"


@pytest.mark.full
def test_a_job_of_a_node_that_goes_down(ckpt, cluster, heat):
    script, expected = heat
    job = cluster.submit(ckpt.folder, script, *OPTIONS, "--nodelist=n1")
    runs(ckpt, cluster, job)
    cluster.control("update", "NodeName=n1", "State=DOWN", "Reason=test")
    wait_for(lambda: cluster.state(job) == "PENDING", "the job to be queued again")
    cluster.control("update", f"JobId={job}", "ReqNodeList=n2")
    ends_right(ckpt, cluster, job, expected)


@pytest.mark.full
def test_a_job_that_an_operator_queues_again(ckpt, cluster, heat):
    script, expected = heat
    job = cluster.submit(ckpt.folder, script, *OPTIONS)
    runs(ckpt, cluster, job)
    cluster.control("requeue", job)
    ends_right(ckpt, cluster, job, expected)


@pytest.mark.full
def test_a_hundred_preemptions(ckpt, cluster, heat):
    """No exit code is lost: each signal leads to an image, 85 and a job that is queued again."""
    script, expected = heat
    script = script.replace(f"--steps {STEPS}", f"--steps {STEPS * 1000}").replace("--report 10", "--report 1")
    job = cluster.submit(ckpt.folder, script, *OPTIONS)
    for n in range(1, 101):
        runs(ckpt, cluster, job, 1)
        cluster.signal(job, "USR1")
        wait_for(lambda: int(cluster.field(job, "Restarts") or 0) >= n, f"restart {n}: {cluster.state(job)} {output(ckpt)[-500:]}", 200)
    cluster.signal(job, "KILL")
