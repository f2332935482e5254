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
