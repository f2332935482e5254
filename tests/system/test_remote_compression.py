# SPDX-License-Identifier: Apache-2.0
"""Transfers to remote devices are compressed if the link is slow, unless CKPT_REMOTE_COMPRESSION=no."""
import subprocess

import pytest

from test_opencl import OPENCL, devices, finished, ocl  # noqa: F401 (fixtures)
from test_remote import Server, two_nodes  # noqa: F401 (a fixture)

MIB = 1 << 20
HARD, ALL = 8 * MIB, 32 * MIB  # what ocl-transfers cannot have compressed; what it moves each way


def slow_down(nodes, rate):
    for node in nodes:
        subprocess.run(node.inside("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "256k",
                                   "latency", "50ms"), check=True)


def on_the_wire(node):
    """Bytes that the program's node has sent and received."""
    r = subprocess.run(node.inside("cat", "/proc/net/dev"), check=True, capture_output=True, text=True)
    fields = next(line for line in r.stdout.splitlines() if "eth0:" in line).split(":")[1].split()
    return int(fields[8]), int(fields[0])


def transfer(ocl, server, node, compress=True):
    before = on_the_wire(node)
    env = dict(ocl.ckpt.env, **({} if compress else {"CKPT_REMOTE_COMPRESSION": "no"}))
    job = node.start("ckpt-run", "--device", server.device(), OPENCL / "ocl-transfers", env=env)
    finished(job)
    return tuple(a - b for a, b in zip(on_the_wire(node), before))


@pytest.mark.full
def test_a_slow_link_carries_compressed_data(ocl, two_nodes):
    far, near = two_nodes
    # So slow that compression is faster even where other tests take both cores.
    slow_down(two_nodes.all, "100mbit")
    server = Server(ocl, names=far.address, node=far)
    sent, received = transfer(ocl, server, near)
    assert HARD < sent < ALL * 3 // 4 and HARD < received < ALL * 3 // 4
    sent, received = transfer(ocl, server, near, compress=False)
    # Each side decides for what it sends.
    assert sent > ALL and received < ALL * 3 // 4
