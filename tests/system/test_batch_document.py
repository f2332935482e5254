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

BLOCKS = [b.lines for b in blocks(ROOT / "docs" / "BATCH.md")]
LINES = [line for lines in BLOCKS for line in lines if line.strip()]
PORT = "7804"

# What runs elsewhere, and where.
ELSEWHERE = {
    "sbatch --ckpt=": "test_slurm.py::test_the_option_of_slurms_commands",
    "optional /usr/local/lib/": "slurm.py, in plugstack.conf",
    "sbatch --comment=ckpt:": "test_schedd.py",
    "ckpt-schedd --classes=": "test_schedd.py",
}


def on_nodes(line):
    """(the node's number, the command) of "node1$ command"."""
    m = re.fullmatch(r"node(\d)[$#] (.*)", line)
    return (int(m[1]), m[2]) if m else None


def test_every_line_is_carried_out():
    left = [line for line in LINES if not any(line.startswith(e) for e in ELSEWHERE)]
    left = [line for line in left if not on_nodes(line)]  # below
    left = [line for line in left if f"\n{line}\n" not in slurm.CONFIGURATION]
    script, launcher = (next(b for b in BLOCKS if word in "\n".join(b)) for word in ("#SBATCH", "# /shared/launcher"))
    assert [line for line in left if line not in script and line not in launcher] == []


def test_the_job_script(ckpt):
    """Signalled, and started again with the same number."""
    script = ckpt.folder / "job.sh"
    lines = next(b for b in BLOCKS if "#SBATCH" in "\n".join(b))
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
    document.next("--every=10m", "--on-signal=USR1,USR2").wait_text("listening")


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_mpi(ckpt, nodes, kind):
    """With the launcher of the document. In place of ssh, a command enters the node, and leaves the process tree."""
    if not shutil.which(f"mpirun.{kind}"):
        pytest.skip(f"{kind} is not installed (scripts/setup --full installs it)")
    tools = ckpt.folder / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\n[ "$1" = -n ] && shift\nhost=$1; shift\n'
                               f'echo "export PATH={tools}:$PATH; $*" >{ckpt.folder}/$host.commands\n')
    # Called by a name without a folder, beside which MPICH would look for its own programs.
    (tools / "mpirun").write_text(f'#!/bin/sh\nexec mpirun.{kind} "$@"\n')
    (tools / "mpirun").chmod(0o755)
    (tools / "ckpt-run").symlink_to(ckpt.tool("ckpt-run"))
    launcher = next(b for b in BLOCKS if "# /shared/launcher" in "\n".join(b))
    for path, text in ((tools / "ssh", None), (ckpt.folder / "launcher", "\n".join(launcher) + "\n")):
        if text:
            path.write_text(text.replace("/shared/", f"{ckpt.folder}/"))
        path.chmod(0o755)
    hosts = ckpt.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{NETWORK}{n} node{n}\n" for n in (1, 2, 3)))
    program = ckpt.folder / "simulation"
    subprocess.run([shutil.which(f"mpicc.{kind}"), PROGRAMS / "mpi" / "ranks.c", "-o", program], check=True)
    for n in nodes.all:
        subprocess.run(n.inside("mount", "--bind", hosts, "/etc/hosts"), check=True)
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
