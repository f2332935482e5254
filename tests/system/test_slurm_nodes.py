# SPDX-License-Identifier: Apache-2.0
"""Jobs of several nodes in a real Slurm (docs/BATCH.md): each slurmd is in a namespace with a network and a host name
of its own (nodes.py). The programs are connected by TCP, so that root owns the jobs."""
import json
import re
import shlex

import pytest

import slurm
from conftest import BUILD, wait_for
from nodes import NETWORK, Nodes, wait_members

pytestmark = pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")

OPTIONS = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", "--requeue", "--open-mode=append", "--output=out",
           "--signal=USR1@60"]
START = "exec srun ckpt-run --job=jobs/%j --continue"

# The first task serves the second one.
SIMULATION = """#!/bin/sh
[ $SLURM_PROCID = 0 ] && exec {pair} serve {address} 7800
until grep -qs listening out; do sleep 0.1; done
exec {pair} talk {address} 7800
"""


@pytest.fixture
def cluster_of(ckpt):
    made = []

    def start(count=2, **more):
        nodes = Nodes(ckpt, count)
        made.append(nodes)
        cluster = slurm.Slurm(ckpt.env, hosts=nodes, **more)
        made.append(cluster)
        cluster.env["PATH"] = f"{BUILD}/tools:{cluster.env['PATH']}"
        simulation = cluster.jobs / "simulation"
        simulation.write_text(SIMULATION.format(pair=ckpt.programs / "pair", address=NETWORK + "1"))
        simulation.chmod(0o755)
        return cluster

    yield start
    for m in reversed(made):
        m.close()


class PairJob(slurm.BatchJob):
    """tests/system/programs/pair.cc, one program on each of two nodes.

    exchanges()       waits until it has printed more numbers
    is_back(n)        waits until it runs for the n-th time after the first, and exchanges messages
    ends_right(…)     lets it finish; both programs have counted the same messages"""

    def __init__(self, cluster, script=f"{START} ./simulation", options=OPTIONS):
        super().__init__(cluster, script, *options)
        self.folder = cluster.jobs / "jobs" / str(self.number)

    def numbers(self):
        return [int(line) for line in self.output.splitlines() if line.isdigit()]

    def exchanges(self):
        begin = len(self.numbers())
        wait_for(lambda: len(self.numbers()) >= begin + 2 or self.has_ended(), f"messages of the job: {self.described()}")
        assert self.state == "RUNNING", self.described()

    def is_back(self, n):
        wait_for(lambda: self.restarts == n and self.state == "RUNNING" or self.has_ended(), f"restart {n}: {self.described()}", 120)
        self.exchanges()

    def ends_right(self, repeats=False):
        (self.cluster.jobs / "finish").touch()
        wait_for(self.has_ended, f"the job's end: {self.described()}", 120)
        assert self.state == "COMPLETED", self.described()
        sent, served = (re.findall(rf"^{word} (\d+)$", self.output, re.M) for word in ("sent", "served"))
        assert sent == served and len(sent) == 1, self.described()
        numbers = self.numbers()
        assert self.output.count("listening") == 1  # it never began anew
        assert repeats or numbers == sorted(set(numbers))

    def checkpoints(self):
        """Of the complete ones, the members."""
        decisions = [json.loads(d.read_text()) for d in sorted(self.folder.glob("*/decision"))]
        return [d["members"] for d in decisions if d["result"] == "complete"]


def test_a_job_of_two_nodes_continues(cluster_of):
    """Checkpointed by ckpt-dump on one of the nodes, it leaves them with 85, and Slurm queues it again."""
    cluster = cluster_of()
    job = PairJob(cluster)
    job.exchanges()
    wait_members(job.folder, ["node1", "node2"])
    dumped = cluster.run("srun", f"--jobid={job.number}", "--overlap", "-N1", "-n1", "-w", "node2", "ckpt-dump", f"--job={job.folder}")
    assert dumped.returncode == 0, dumped.stdout + dumped.stderr
    assert job.checkpoints() == [["node1", "node2"]]
    job.is_back(1)
    job.ends_right()
    assert f"ckpt-restore --job {job.folder}" in job.output


@pytest.mark.full
def test_signals_of_slurm(cluster_of):
    """Preempted, queued again by its owner, and held by USR2: each leaves a checkpoint from which the job continues."""
    cluster = cluster_of()
    job = PairJob(cluster)
    job.exchanges()
    wait_members(job.folder, ["node1", "node2"])
    high = cluster.submit("sleep 1000", "--partition=high", "--nodelist=node2", "--cpus-per-task=2")
    job.stops()
    wait_for(lambda: cluster.state(high) == "RUNNING", "the high job")
    cluster.run("scancel", high)
    job.is_back(1)
    cluster.control("requeue", job.number)
    job.is_back(2)
    assert cluster.run("scancel", "--signal=USR2", job.number).returncode == 0
    wait_for(lambda: job.state == "SPECIAL_EXIT", f"a held job: {job.described()}")
    cluster.control("release", job.number)
    job.is_back(3)
    job.ends_right()
    assert len(job.checkpoints()) == 2  # of three, as --keep says


@pytest.mark.full
def test_a_node_that_fails(cluster_of):
    """Its node is repaired. The job continues on both from the last checkpoint, and repeats the work after it."""
    cluster = cluster_of(node_timeout=10)
    job = PairJob(cluster, f"{START} --every=1s ./simulation")
    job.exchanges()
    wait_for(lambda: len(job.checkpoints()) >= 2, "two checkpoints")
    cluster.kill_node("node2")
    wait_for(lambda: cluster.node_state("node2").startswith("down"), "Slurm to notice it", 120)
    assert all(members == ["node1", "node2"] for members in job.checkpoints())
    job.stops()  # on node1: with its connections, which node2 would close when it is reached again
    cluster.start_node("node2")
    cluster.control("update", "NodeName=node2", "State=RESUME")
    job.is_back(1)
    job.ends_right(repeats=True)


@pytest.mark.full
def test_a_job_that_is_started_on_other_nodes(cluster_of):
    """Its programs have connections with the addresses of the nodes. The job ends, and says what to do."""
    cluster = cluster_of(3)
    job = PairJob(cluster, options=[*OPTIONS, "--nodelist=node1,node2"])
    job.exchanges()
    assert cluster.run("scancel", "--signal=USR2", job.number).returncode == 0
    wait_for(lambda: job.state == "SPECIAL_EXIT", f"a held job: {job.described()}")
    other = cluster.run("srun", "--nodelist=node3", "ckpt-run", f"--job={job.folder}", "--continue", "./simulation")
    assert other.returncode == 125
    assert f"the checkpoint {job.folder}/0001 has no member node3, only node1, node2" in other.stderr, other.stderr
    assert "start the job on the same nodes (in Slurm: --nodelist)" in other.stderr
    cluster.control("release", job.number)
    job.is_back(1)
    job.ends_right()


@pytest.mark.full
def test_several_programs_on_each_node(cluster_of):
    """They need names of their own, for which --member=%t serves."""
    cluster = cluster_of()
    step = ["srun", "--nodes=2", "--ntasks-per-node=2", "--overcommit", "ckpt-run", "--job=two"]
    same = cluster.run(*step, "sleep", "2")
    assert "the job has a member node1 that runs" in same.stderr and "--member=%t" in same.stderr, same.stderr
    job = slurm.BatchJob(cluster, "exec srun --overcommit ckpt-run --job=four --member=%t --continue sh -c "
                         "'echo begin $SLURM_PROCID; until [ -e finish ]; do sleep 0.1; done; echo end $SLURM_PROCID'",
                         *OPTIONS, "--ntasks-per-node=2", "--cpus-per-task=1")
    wait_for(lambda: job.output.count("begin") == 4, f"four programs: {job.described()}")
    wait_members(cluster.jobs / "four", ["0", "1", "2", "3"])
    assert cluster.run("scancel", "--signal=USR1", job.number).returncode == 0
    wait_for(lambda: job.restarts == 1 and job.state == "RUNNING" or job.has_ended(), f"the restart: {job.described()}", 120)
    (cluster.jobs / "finish").touch()
    wait_for(job.has_ended, "the job's end")
    assert job.state == "COMPLETED", job.described()
    assert job.output.count("begin") == 4 and sorted(re.findall(r"end \d", job.output)) == [f"end {n}" for n in range(4)]


@pytest.mark.full
def test_connections_to_slurm_are_refused(cluster_of):
    """An srun below ckpt-run, as of mpirun with its own launcher for Slurm, and a task that srun --mpi has started."""
    cluster = cluster_of()
    for words, refused in ((["sh", "-c", "srun --overlap -N1 -n1 -w node2 sleep 1000"], "(srun): descriptor"),
                           (["sleep", "1000"], "(sleep): descriptor")):
        job = slurm.BatchJob(cluster, f"exec srun --mpi=pmi2 ckpt-run --job=%j --member=%t {shlex.join(words)}", *OPTIONS)
        folder = cluster.jobs / str(job.number)
        wait_members(folder, ["0", "1"])

        def error():
            r = cluster.run("ckpt-dump", f"--job={folder}")
            assert r.returncode == 1, r.stdout
            return r.stderr

        wait_for(lambda: refused in error(), error())
        cluster.run("scancel", "--signal=KILL", job.number)
        cluster.run("scancel", job.number)
