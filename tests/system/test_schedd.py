# SPDX-License-Identifier: Apache-2.0
"""ckpt-schedd, which steers a real Slurm: jobs are placed, moved to faster nodes, and left to Slurm if it dies."""
import re
import subprocess

import pytest

import slurm
from conftest import BUILD, ROOT, wait_for
from test_opencl import devices  # noqa: F401 (a fixture)
from test_slurm import OPTIONS, HeatJob, cluster_of  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")

FEATURES = {"n1": "slow", "n2": "fast"}
LUA = (ROOT / "slurm" / "job_submit.lua").read_text()


@pytest.fixture
def steered(cluster_of):  # noqa: F811
    """steered(grace=…)  a cluster with a fast node and a slow one, and the function that starts a daemon"""
    daemons = []

    def start(grace=60, features=FEATURES):
        assert "local GRACE = 120" in LUA
        cluster = cluster_of(nodes=tuple(features), features=features, lua=LUA.replace("GRACE = 120", f"GRACE = {grace}"))
        log = cluster.folder / "schedd.out"

        def daemon(*options):
            command = [BUILD / "tools" / "ckpt-schedd", "--classes=fast:1,slow:0.1", "--interval=1", f"--grace={grace}",
                       "--requeue-delay=6", "--megabytes=10", *options]
            p = subprocess.Popen([str(c) for c in command], env=cluster.env, stdin=subprocess.DEVNULL,
                                 stdout=log.open("a"), stderr=subprocess.STDOUT)
            daemons.append(p)
            return p
        cluster.said = lambda: log.read_text() if log.exists() else ""
        return cluster, daemon

    yield start
    for p in daemons:
        p.terminate()
        p.wait(30)


def test_a_job_is_moved_when_a_faster_node_becomes_free(steered):
    """The fast node is taken when the job comes, so it begins on the slow one. Nobody but the daemon moves it."""
    cluster, daemon = steered()
    other = cluster.submit("sleep 1000", "--nodelist=n2", "--cpus-per-task=2", "--mem=200", "--time=20")
    wait_for(lambda: cluster.state(other) == "RUNNING", "the other job")
    p = daemon()
    job = HeatJob(cluster, "--comment=ckpt:seconds=60,mb=10", steps=2500)
    assert "held" in cluster.field(job.number, "Comment")
    job.computes()
    assert job.node == "n1"
    cluster.run("scancel", other)
    wait_for(lambda: job.node == "n2" and job.state == "RUNNING" or job.has_ended(),
             f"the move: {job.described()} {cluster.said()}")
    assert p.poll() is None and job.restarts == 1, cluster.said()
    job.ends_right()
    assert f"job {job.number} is moved" in cluster.said()
    steps = re.findall(r"step (\d+)/", job.output)
    assert steps == sorted(set(steps), key=int)  # none was computed twice
