# SPDX-License-Identifier: Apache-2.0
"""docs/BATCH.md, line by line: each line of its code blocks is carried out here, or named with the test that does."""
import os
import re
import shutil
import signal
import subprocess

import pytest

import slurm
from conftest import PROGRAMS, wait_for
from documents import ROOT, blocks
from nodes import NETWORK, Nodes, wait_members
from test_mpi import ENV, last_value
from test_slurm_nodes import PairJob, cluster_of  # noqa: F401 (a fixture)

PATH = ROOT / "docs" / "BATCH.md"
TEXT = PATH.read_text(encoding="utf-8")
BLOCKS = [b.lines for b in blocks(PATH)]
LINES = [line for lines in BLOCKS for line in lines if line.strip()]
PORT = "7804"

# What runs elsewhere, and where.
ELSEWHERE = {
    "sbatch --ckpt=": "test_slurm.py::test_the_option_of_slurms_commands",
    "optional /usr/local/lib/": "slurm.py, in plugstack.conf",
    "sbatch --comment=ckpt:": "test_schedd.py",
    "ckpt-schedd --classes=": "test_schedd.py",
    "ckpt-node-bench > node.json": "test_sim.py",
    "ckpt-node-bench -- ": "test_node_bench.py",
}


# The scripts by which Slurm starts an MPI job, by words of each.
SLURM_MPI = ("srun --mpi=none", "# /shared/mpi-node", "# /shared/srun-launcher", "--mca ras", "-rmk user")


def block_with(word):
    return next(b for b in BLOCKS if word in "\n".join(b) and b[0].startswith("#!"))


def on_nodes(line):
    """(the node's number, the command) of "node1$ command"."""
    m = re.fullmatch(r"node(\d)[$#] (.*)", line)
    return (int(m[1]), m[2]) if m else None


def test_every_line_is_carried_out():
    left = [line for line in LINES if not any(line.startswith(e) for e in ELSEWHERE)]
    left = [line for line in left if not on_nodes(line)]  # below
    left = [line for line in left if f"\n{line}\n" not in slurm.CONFIGURATION]
    scripts = [block_with(word) for word in ("--image", "# /shared/launcher", "srun ckpt-run", *SLURM_MPI)]
    assert [line for line in left if not any(line in s for s in scripts)] == []


def test_the_job_script(ckpt):
    """Signalled, and started again with the same number."""
    script = ckpt.folder / "job.sh"
    lines = block_with("--image")
    shutil.copy(ckpt.programs / "counter", ckpt.folder / "simulation")
    script.write_text("\n".join(lines).replace("./simulation", "./simulation 100") + "\n")
    ckpt.env.update(PATH=f"{os.path.dirname(ckpt.tool('ckpt-run'))}:{ckpt.env['PATH']}", SLURM_JOB_ID="4711", HOME=str(ckpt.folder))
    job = ckpt.start_shell("exec sh job.sh")
    job.wait_lines(3)
    os.kill(job.pid, signal.SIGUSR1)
    assert job.wait() == 85, job.error_text
    assert list((ckpt.folder / "images" / "4711").glob("*.img"))
    again = ckpt.start_shell("exec sh job.sh")
    ckpt.finish()
    assert again.wait() == 0, again.error_text
    numbers = [int(line) for line in job.lines + again.lines if line.isdigit()]
    assert numbers == sorted(set(numbers)) and again.lines[0] != job.lines[0]


class Document:
    """Its lines on nodes, as a user types them; each is a command that is started in the background."""

    def __init__(self, ckpt, nodes):
        self.ckpt, self.nodes = ckpt, nodes
        self.left = [on_nodes(line) for line in LINES if on_nodes(line)]

    def next(self, *words):
        """Starts the next line, which must have these words."""
        number, command = self.left.pop(0)
        assert all(w in command for w in words), command
        pair = self.ckpt.programs / "pair"
        for said, here in (("./server 10.0.0.1", f"{pair} serve {NETWORK}1 {PORT}"), ("./client 10.0.0.1", f"{pair} talk {NETWORK}1 {PORT}"),
                           ("10.0.0.", NETWORK), ("/shared/job", "job"), ("/shared/", f"{self.ckpt.folder}/")):
            command = command.replace(said, here)
        tool, *arguments = command.split()
        node = self.nodes[number - 1]
        if tool == "ip":
            subprocess.run(node.inside(tool, *arguments), check=True)
            return None
        return node.start(tool, *arguments, env=ENV)

    def skip_to(self, word):
        while word not in self.left[0][1]:
            self.left.pop(0)


@pytest.fixture
def nodes(ckpt):
    made = Nodes(ckpt, 3)
    yield made
    made.close()


@pytest.mark.full
def test_jobs_on_several_nodes(ckpt, nodes):
    nodes[2].drop_address(3)
    document = Document(ckpt, nodes)
    server = document.next("ckpt-run", "server")
    server.wait_text("listening")
    client = document.next("ckpt-run", "client")
    client.wait_lines(2)
    wait_members(ckpt.folder / "job", ["node1", "node2"])
    assert document.next("ckpt-dump").wait() == 0
    assert [server.wait(), client.wait()] == [85, 85]
    again = document.left[0]
    server, client = document.next("ckpt-restore"), document.next("ckpt-restore")
    client.wait_lines(2)
    assert nodes[0].call("ckpt-dump", "--job=job").returncode == 0
    assert [server.wait(), client.wait()] == [85, 85]
    nodes[1].drop_address(2)
    document.next("ip address add")
    client = document.next("--member=node2")
    document.left.insert(0, again)
    server = document.next("ckpt-restore")
    client.wait_lines(2)
    ckpt.finish()
    assert [client.wait(), server.wait()] == [0, 0]
    server = document.next("--every=10m", "--on-signal=USR1,USR2")
    server.wait_text("listening")
    server.kill()
    nodes[2].drop_address(2)
    nodes[1].take_address(2)
    (ckpt.folder / "finish").unlink()
    again = document.left[:2]
    server = document.next("--continue", "server")
    server.wait_text("listening")
    client = document.next("--continue", "client")
    client.wait_lines(2)
    assert nodes[0].call("ckpt-dump", "--job=other").returncode == 0
    assert [server.wait(), client.wait()] == [85, 85]
    document.left[:0] = again
    server, client = document.next("--continue", "server"), document.next("--continue", "client")
    client.wait_lines(2)
    ckpt.finish()
    assert [client.wait(), server.wait()] == [0, 0]


def write_script(path, lines, shared):
    """A script of the document, with its folder /shared."""
    path.write_text("\n".join(lines).replace("/shared/", f"{shared}/") + "\n")
    path.chmod(0o755)


def mpi_of(kind, folder):
    """A folder with the `mpirun` of this kind, and a `simulation` for it. mpirun is called by a name without a
    folder, beside which MPICH would look for its own programs."""
    tools = folder / "bin"
    tools.mkdir()
    write_script(tools / "mpirun", ["#!/bin/sh", f'exec mpirun.{kind} "$@"'], folder)
    subprocess.run([shutil.which(f"mpicc.{kind}"), PROGRAMS / "mpi" / "ranks.c", "-o", folder / "simulation"], check=True)
    return tools


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_mpi(ckpt, nodes, kind):
    """With the launcher of the document. In place of ssh, a command enters the node, and leaves the process tree."""
    if not shutil.which(f"mpirun.{kind}"):
        pytest.skip(f"{kind} is not installed (scripts/setup --full installs it)")
    tools = mpi_of(kind, ckpt.folder)
    write_script(tools / "ssh", ["#!/bin/sh", '[ "$1" = -n ] && shift', "host=$1; shift",
                                 f'echo "export PATH={tools}:$PATH; $*" >{ckpt.folder}/$host.commands'], ckpt.folder)
    (tools / "ckpt-run").symlink_to(ckpt.tool("ckpt-run"))
    write_script(ckpt.folder / "launcher", block_with("# /shared/launcher"), ckpt.folder)
    nodes.name()
    for n in nodes.all:
        n.env["PATH"] = f"{tools}:{ckpt.env['PATH']}"
    document = Document(ckpt, nodes)
    document.skip_to("plm_rsh_agent" if kind == "openmpi" else "-launcher-exec")
    number, command = document.left.pop(0)
    document.left.insert(0, (number, command.replace("./simulation", "./simulation 150").replace("--leave", "--oversubscribe --leave")))
    job = document.next("mpirun")
    job.wait_lines(3)
    wait_members(ckpt.folder / "job", ["node1", "node2"])
    assert nodes[0].call("ckpt-dump", "--job=job").returncode == 0
    assert job.wait() == 85
    wait_for(lambda: not os.listdir(ckpt.folder / "job" / "members"), "the end of the daemon on node2")
    nodes[1].start("ckpt-restore", "--job=job")
    job = nodes[0].start("ckpt-restore", "--job=job")
    assert job.wait() == 0, job.error_text
    assert job.lines[-1] == f"end {last_value(150, 4)}", job.text


needs_slurm = pytest.mark.skipif(slurm.WHY_NOT is not None, reason=slurm.WHY_NOT or "")


@needs_slurm
@pytest.mark.full
def test_the_job_script_of_several_nodes(cluster_of):  # noqa: F811
    """Slurm's signals, and the step that checkpoints it by hand."""
    cluster = cluster_of()
    cluster.env["HOME"] = str(cluster.jobs)
    job = PairJob(cluster, "\n".join(block_with("srun ckpt-run")), ["--output=out"])
    job.exchanges()
    wait_members(job.folder, ["node1", "node2"])
    cluster.control("requeue", job.number)
    job.is_back(1)
    by_hand = re.search(r"`(srun --jobid=.*?)`", TEXT, re.S)[1].replace("JOB", str(job.number))
    assert cluster.run("sh", "-c", by_hand).returncode == 0
    job.is_back(2)
    job.ends_right()
    assert len(job.checkpoints()) == 2


@needs_slurm
@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_mpi_in_slurm(ckpt, cluster_of, kind):  # noqa: F811
    """Checkpointed by a signal of Slurm to the batch script, and by ckpt-dump. At last MPICH's mpirun gets TERM,
    and the job continues from a checkpoint of --every."""
    if not shutil.which(f"mpirun.{kind}"):
        pytest.skip(f"{kind} is not installed (scripts/setup --full installs it)")
    cluster, steps = cluster_of(), 2400
    shared = cluster.jobs
    cluster.nodes_of.name()
    (shared / "simulation").unlink()
    cluster.env.update(ENV, PATH=f"{mpi_of(kind, shared)}:{cluster.env['PATH']}")
    batch, node, launcher, openmpi, mpich = (block_with(word) for word in SLURM_MPI)
    start = "\n".join(openmpi if kind == "openmpi" else mpich).replace("./simulation", f"./simulation {steps}")
    write_script(shared / "mpi-start", [start.replace("--leave", "--oversubscribe --leave")], shared)
    write_script(shared / "mpi-node", ["\n".join(node).replace("--every=10m", "--every=3s --keep=5")], shared)
    write_script(shared / "srun-launcher", launcher, shared)
    job = slurm.BatchJob(cluster, "\n".join(batch).replace("/shared/", f"{shared}/"), "--output=out")
    folder = shared / "jobs" / str(job.number)

    def computes():
        lines = len(job.output.splitlines())
        wait_for(lambda: len(job.output.splitlines()) >= lines + 3 or job.has_ended(), f"steps: {job.described()}")
        assert job.state == "RUNNING", job.described()

    by_hand = ckpt.tool("ckpt-dump"), f"--job={folder}"
    # Open MPI removes its files in /tmp when mpirun gets TERM (docs/BATCH.md).
    by_term = [["scontrol", "requeue", job.number]] if kind == "mpich" else []
    for n, command in enumerate((["scancel", "--batch", "--signal=USR1", job.number], by_hand, *by_term)):
        wait_for(lambda: job.restarts == n and job.state == "RUNNING" or job.has_ended(), f"start {n}: {job.described()}", 120)
        computes()
        wait_members(folder, ["node1", "node2"])
        wait_for(lambda: cluster.run(*command).returncode == 0, f"{command}: {job.described()}")  # it may be busy
        wait_for(lambda: job.restarts == n + 1 or job.has_ended(), f"restart {n + 1}: {job.described()}", 120)
    wait_for(job.has_ended, f"the job's end: {job.described()}", 120)
    assert job.state == "COMPLETED", job.described()
    assert f"end {last_value(steps, 4)}" in job.output.splitlines(), job.described()
    assert len(re.findall(r"^0 \d", job.output, re.M)) == 1, "it began anew"
