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

    node.env["LC_ALL"] = "C.UTF-8"
    live = node.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    live.wait_text("running")
    assert COLOUR in live.text
    live.type("g")
    live.wait_text("▁▁▁")
    live.type("?")
    live.wait_text("promised to a program")
    live.type("xq")
    assert live.wait() == 0 and restored(live)

    node.env.update(NO_COLOR="1", LC_ALL="C")
    plain = node.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    plain.wait_text("running")
    plain.type("g")
    plain.wait_text("___")
    assert COLOUR not in plain.text
    os.kill(plain.pid, signal.SIGINT)
    assert plain.wait() == -signal.SIGINT and restored(plain)

    with urllib.request.urlopen(f"http://127.0.0.1:{node.port}/metrics", timeout=20) as answer:
        version = subprocess.run([node.tool("ckptd"), "--version"], capture_output=True, text=True, check=True).stdout
        assert f'ckptd_build_info{{version="{version.split()[1]}"}} 1\n' in answer.read().decode()


def test_a_terminal_that_is_too_short(node):
    """The GPUs, the titles and the first programs are shown; the keys lead to the others and through the help."""
    heat = [BUILD / "examples" / "heat", "--steps", "100000000", "--report", "1000000", "--n", "64"]
    programs = [node.start("ckpt-run", ["--managed", "--", *heat]) for _ in range(5)]
    wait_for(lambda: len(listed(node.top())) == len(programs), "all programs")
    pids = [p for p, *_ in listed(node.top("--sort", "pid"))]
    live = node.start("ckpt-top", ["--interval", "0.1", "--sort", "pid"], stdout="tty", size=(7, 100))

    def shown():
        """The last whole screen."""
        return re.sub("\x1b\\[[0-9]*m|\x1b\\[K", "", re.findall("\x1b\\[H(.*?)\x1b\\[J", live.text, re.S)[-1])

    live.wait_text("1 to 2 of 5")
    assert [p for p, *_ in listed(shown())] == pids[:2] and "GPU 0" in shown() and "PRI STATE" in shown()
    assert shown().count("\n") < 7 and "\x1b[2J" not in live.text
    live.type("\x1b[B")
    live.wait_text("2 to 3 of 5")
    live.type("   ")
    live.wait_text("4 to 5 of 5")
    wait_for(lambda: [p for p, *_ in listed(shown())] == pids[3:], "the last programs")
    live.type("h")
    live.wait_text("1 to 6 of ")
    live.type("  " + " " * 8)
    live.wait_text("Press any key")
    live.type("xq")
    assert live.wait() == 0 and restored(live)


def test_a_ckptd_that_starts_again(node):
    live = node.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    live.wait_text("evicted:")
    daemon = node.jobs[0]
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait()
    live.wait_text("Trying again")
    node.start("ckptd", ["--nvml", "none", "--opencl-devices", "ocl:pthread"]).wait_text("listening on")
    seen = live.text.count("evicted:")
    wait_for(lambda: live.text.count("evicted:") > seen, "the new ckptd's state")
    live.type("q")
    assert live.wait() == 0
