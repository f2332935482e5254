# SPDX-License-Identifier: Apache-2.0
"""ckpt-top beside a ckptd with an OpenCL device: its columns, order, colours and keys."""
import getpass
import os
import re
import signal
import socket
import subprocess
import termios
import urllib.request

import pytest

from conftest import BUILD, wait_for

pytestmark = pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists(), reason="ckptd is not built")

COLOUR = "\x1b[3"


def listed(text):
    """Of each program: (PID, state, user, name)."""
    lines = re.findall(r"^ *(\d+) +\d+ (\w+) .* \d+m\d\ds (\w+) +(.+)$", text, flags=re.M)
    return [(int(pid), state, user, name) for pid, state, user, name in lines]


@pytest.fixture
def node(ckpt):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        ckpt.port = s.getsockname()[1]
    ckpt.env.update(CKPTD_SOCKET=str(ckpt.runtime / "ckptd.sock"), TERM="xterm")
    ckpt.env.pop("NO_COLOR", None)
    daemon = ckpt.start("ckptd", ["--nvml", "none", "--opencl-devices", "ocl:pthread", "--metrics", ckpt.port])
    daemon.wait_text("listening on")

    def top(*options, **environment):
        r = subprocess.run([ckpt.tool("ckpt-top"), *options], env={**ckpt.env, **environment}, capture_output=True,
                           text=True, timeout=30, check=True)
        return r.stdout

    ckpt.top = top
    return ckpt


def restored(job):
    """The terminal is as a shell left it."""
    return termios.tcgetattr(job.master)[3] & termios.ICANON and job.text.endswith("\x1b[?1049l")


def test_columns_order_colours_and_keys(node):
    heat = [BUILD / "examples" / "heat", "--steps", "100000000", "--report", "1000000"]
    small, large = (node.start("ckpt-run", ["--managed", "--", *heat, "--n", n]) for n in ("64", "2048"))
    wait_for(lambda: sorted(n for *_, n in listed(node.top("--sort", "memory"))) == ["heat (OpenCL)"] * 2
             and "used_bytes\": 0," not in node.top("--json"), "two programs with memory")
    pids = [small.program(), large.program()]
    assert [p for p, *_ in listed(node.top("--sort", "memory"))] == pids[::-1]
    assert [p for p, *_ in listed(node.top("--sort", "pid"))] == sorted(pids)
    assert {(state, user) for _, state, user, _ in listed(node.top())} == {("running", getpass.getuser())}
    assert "\x1b" not in node.top() and "+ promised" in node.top()

    live = node.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    live.wait_text("running")
    assert COLOUR in live.text
    live.type("?")
    live.wait_text("promised to a program")
    live.type("xq")
    assert live.wait() == 0 and restored(live)

    node.env["NO_COLOR"] = "1"
    plain = node.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    plain.wait_text("running")
    assert COLOUR not in plain.text
    os.kill(plain.pid, signal.SIGINT)
    assert plain.wait() == -signal.SIGINT and restored(plain)

    with urllib.request.urlopen(f"http://127.0.0.1:{node.port}/metrics", timeout=20) as answer:
        version = subprocess.run([node.tool("ckptd"), "--version"], capture_output=True, text=True, check=True).stdout
        assert f'ckptd_build_info{{version="{version.strip()}"}} 1\n' in answer.read().decode()
