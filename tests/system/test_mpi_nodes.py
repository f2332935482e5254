# SPDX-License-Identifier: Apache-2.0
"""MPI jobs on several nodes (docs/BATCH.md). The nodes are namespaces of this machine (nodes.py). Where Open MPI or
MPICH is missing, its tests are skipped (scripts/setup --full installs both)."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import PROGRAMS
from nodes import NETWORK, Nodes, wait_members
from test_mpi import ENV, last_value
from tiers import parametrize

# Ranks that wait for a message spin, and there are more of them than cores.
pytestmark = pytest.mark.alone

STEPS = 150


def command_of(kind, launcher, ranks, hosts):
    each = -(-ranks // hosts)
    places = ",".join(f"{NETWORK}{i}:{each}" for i in range(1, hosts + 1))
    if kind == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--leave-session-attached", "--mca", "plm_rsh_agent", launcher,
                "--mca", "plm_rsh_no_tree_spawn", "1", "--host", places, "-n", ranks]
    return ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", launcher, "-genvlist", "PATH", "-hosts", places, "-n", ranks]


class MpiJob:
    """mpirun under ckpt-run on the first node; it starts its daemons on the others by an rsh agent."""

    def __init__(self, ckpt, nodes, kind, ranks=4, hosts=2, steps=STEPS):
        self.ckpt, self.nodes, self.folder = ckpt, nodes, ckpt.folder / "job"
        self.ranks, self.steps = ranks, steps
        self.names = [f"node{i}" for i in range(1, hosts + 1)]
        compiler = shutil.which(f"mpicc.{kind}")
        if not compiler or not shutil.which(f"mpirun.{kind}"):
            pytest.skip(f"{kind} is not installed (scripts/setup --full installs it)")
        program = ckpt.folder / f"ranks.{kind}"
        subprocess.run([compiler, PROGRAMS / "mpi" / "ranks.c", "-o", program], check=True)
        launcher = nodes.launcher(f"{ckpt.tool('ckpt-run')} --job={self.folder} --")
        mpirun = command_of(kind, launcher, ranks, hosts)
        self.job = nodes[0].start("ckpt-run", "--job=job", "--", *mpirun, program, steps, env=ENV)
        self.job.wait_lines(3)
        wait_members(self.folder, self.names)

    def dump(self, *options):
        r = self.nodes[0].call("ckpt-dump", "--job=job", "--json", *options)
        assert r.returncode == 0, r.stdout + r.stderr

    def stop(self, *options):
        self.dump(*options)
        assert self.job.wait() == 85
        wait_members(self.folder, [])

    def restore(self, at):
        for node, name in zip(at[1:], self.names[1:]):
            node.start("ckpt-restore", "--job=job", f"--member={name}")
        self.job = at[0].start("ckpt-restore", "--job=job", f"--member={self.names[0]}")

    def check_end(self):
        # A step takes at least 20 ms.
        assert self.job.wait(60 + self.steps / 25) == 0, self.job.error_text
        assert self.job.lines[-1] == f"end {last_value(self.steps, self.ranks)}", self.job.text
        wait_members(self.folder, [])


@pytest.fixture
def nodes(ckpt):
    made = []

    def make(count):
        made.append(Nodes(ckpt, count, ENV))
        return made[-1]

    yield make
    for n in made:
        n.close()


@parametrize("kind", ["openmpi", "mpich"], quick=1)
def test_job_of_two_nodes(ckpt, nodes, kind):
    n = nodes(2)
    job = MpiJob(ckpt, n, kind)
    job.dump("--leave-running")
    job.stop()
    job.restore(n)
    job.check_end()


def test_job_whose_mpirun_removed_its_files(ckpt, nodes):
    """As when a node fails and Slurm ends the others with TERM: Open MPI's mpirun then removes the job's folder."""
    n = nodes(2)
    job = MpiJob(ckpt, n, "openmpi")
    job.dump("--leave-running")
    folders = [pathlib.Path(node.env["TMPDIR"]) for node in n]
    assert all(list(f.glob("ompi.*")) for f in folders)
    os.kill(job.job.program(), signal.SIGTERM)
    assert job.job.wait() != 0
    wait_members(job.folder, [])
    assert not any(list(f.glob("ompi.*/*")) for f in folders)
    job.restore(n)
    job.check_end()


@pytest.mark.full
@pytest.mark.parametrize("ranks, hosts", [(2, 2), (8, 2), (4, 4), (8, 4)])
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_jobs_of_several_sizes(ckpt, nodes, kind, ranks, hosts):
    n = nodes(hosts)
    job = MpiJob(ckpt, n, kind, ranks, hosts)
    job.stop()
    job.restore(n)
    job.check_end()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_job_moves_to_other_nodes(ckpt, nodes, kind):
    n = nodes(4)
    for i in (2, 3):
        n[i].drop_address(i + 1)
    job = MpiJob(ckpt, n, kind)
    job.stop()
    for i in (0, 1):
        n[i].drop_address(i + 1)
        n[i + 2].take_address(i + 1)
    job.restore(n[2:])
    job.check_end()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_fifty_rounds(ckpt, nodes, kind):
    """One job, which is stopped and restored 50 times. The kernel has few ports to choose from, so that one which the
    tools took from the program would soon be noticed."""
    n = nodes(2)
    for node in n[:2]:
        node.choose_ports(40000, 40255)
    job = MpiJob(ckpt, n, kind, steps=5000)
    for _ in range(50):
        job.stop("--keep", "1")
        job.restore(n)
        job.job.wait_lines(1)
    job.check_end()
