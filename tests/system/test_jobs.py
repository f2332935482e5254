# SPDX-License-Identifier: Apache-2.0
"""Jobs of several programs on several nodes, which are checkpointed as one (docs/rooms/job.md). The nodes are
namespaces of this machine (nodes.py)."""
import json
import shutil

import pytest

from conftest import wait_for
from nodes import NETWORK, Nodes, wait_members

PORT = "7800"


@pytest.fixture
def nodes(ckpt):
    made = []

    def make(count):
        made.append(Nodes(ckpt, count))
        return made[-1]

    yield make
    for n in made:
        n.close()


class Pair:
    """tests/system/programs/pair.cc on the first two nodes, as a job."""

    def __init__(self, ckpt, nodes, env=None):
        self.ckpt, self.nodes, self.folder = ckpt, nodes, ckpt.folder / "job"
        program = str(ckpt.programs / "pair")
        self.server = nodes[0].start("ckpt-run", "--job=job", "--", program, "serve", NETWORK + "1", PORT, env=env)
        self.server.wait_text("listening")
        self.client = nodes[1].start("ckpt-run", "--job=job", "--", program, "talk", NETWORK + "1", PORT, env=env)
        self.client.wait_lines(2)
        wait_members(self.folder, ["node1", "node2"])

    @property
    def jobs(self):
        return [self.server, self.client]

    def dump(self, *options, node=0, env=None):
        return self.nodes[node].call("ckpt-dump", "--job=job", "--json", *options, env=env)

    def check_goes_on(self):
        self.client.wait_lines(len(self.client.lines) + 2)

    def check_end(self):
        self.ckpt.finish()
        assert self.client.wait() == 0, self.client.error_text
        assert self.server.wait() == 0, self.server.error_text
        sent, served = self.client.lines[-1], self.server.lines[-1]
        assert (sent.split()[0], served.split()[0]) == ("sent", "served"), (sent, served)
        assert sent.split()[1] == served.split()[1]

    def checkpoints(self):
        return sorted(p.name for p in self.folder.iterdir() if p.name.isdigit())


def test_job_runs_on_after_a_checkpoint(ckpt, nodes):
    pair = Pair(ckpt, nodes(2))
    r = pair.dump("--leave-running")
    assert r.returncode == 0, r.stdout + r.stderr
    report = json.loads(r.stdout)
    assert set(report["members"]) == {"node1", "node2"}
    assert sorted(p.name for p in (pair.folder / "0001").iterdir()) == ["decision", "node1.img", "node2.img"]
    pair.check_goes_on()
    pair.check_end()


def restore_pair(pair, at, env=None):
    """Restores the pair on the nodes `at`; the first is the server's."""
    pair.server = at[0].start("ckpt-restore", "--job=job", "--member=node1", env=env)
    pair.client = at[1].start("ckpt-restore", "--job=job", "--member=node2", env=env)


def stop_pair(pair):
    r = pair.dump()
    assert r.returncode == 0, r.stdout + r.stderr
    assert [j.wait() for j in pair.jobs] == [85, 85]
    wait_members(pair.folder, [])


def test_job_moves_to_other_nodes(ckpt, nodes):
    """Stopped, restored on the same nodes, checkpointed again there, and restored on two others."""
    n = nodes(4)
    for node, number in ((n[2], 3), (n[3], 4)):
        node.drop_address(number)
    pair = Pair(ckpt, n)
    stop_pair(pair)
    restore_pair(pair, n[:2])
    pair.client.wait_lines(2)
    stop_pair(pair)
    for node, number in ((n[0], 1), (n[1], 2)):
        node.drop_address(number)
    n[2].take_address(1)
    n[3].take_address(2)
    restore_pair(pair, n[2:])
    pair.client.wait_lines(2)
    pair.check_end()
