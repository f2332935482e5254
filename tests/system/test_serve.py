# SPDX-License-Identifier: Apache-2.0
"""examples/serve: a server with an OpenCL device, started cold, then as copies of a template."""
import json
import urllib.request

import pytest

from conftest import BUILD, wait_for
from test_start import free_port

SERVE = BUILD / "examples" / "serve"
pytestmark = pytest.mark.skipif(not SERVE.exists(), reason="examples/serve is not built")
DEVICE = ("--device", "ocl:pthread")  # of PoCL
QUESTIONS = [0, 1, 7, 4294967295]


def ask(port, what):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{what}", timeout=60) as answer:
        return json.load(answer)


def answers(port):
    return [ask(port, f"predict?x={x}")["y"] for x in QUESTIONS]


def test_eight_copies_answer_as_the_cold_server(ckpt):
    port = free_port()
    job = ckpt.run(SERVE, "--port", str(port), "--mib", "8", options=DEVICE)
    job.wait_text("ready")
    cold, token = answers(port), ask(port, "copy")["token"]
    assert ask(port, "copy")["copy"] == 0 and len(set(cold)) == len(QUESTIONS)
    ckpt.dump(job.pid, "img", "--template")
    first = 21000 + port % 10000
    start = ckpt.start("ckpt-start", ["img", "-n", "8", f"--listen={port}={first}-{first + 7}", "--set=NAME=blue"])
    start.wait_lines(8)
    copies = [ask(first + n, "copy") for n in range(8)]
    assert [c["copy"] for c in copies] == list(range(1, 9))
    assert all(c["copies"] == 8 and c["name"] == "blue" for c in copies)
    assert len({token, *(c["token"] for c in copies)}) == 9  # each has made its own
    for n in range(8):
        assert answers(first + n) == cold
    start.process.terminate()
    assert start.wait() == 1
    wait_for(lambda: not [p for p in ckpt.runtime.iterdir()], "the end of the sessions")


def test_a_copy_of_a_copy_answers_as_the_cold_server(ckpt):
    port = free_port()
    job = ckpt.run(SERVE, "--port", str(port), "--mib", "4", options=DEVICE)
    job.wait_text("ready")
    cold = answers(port)
    ckpt.dump(job.pid, "img", "--template")
    start = ckpt.start("ckpt-start", ["img", "--set=NAME=one"])
    start.wait_lines(1)
    assert answers(port) == cold and ask(port, "copy")["name"] == "one"
    ckpt.dump(int(start.lines[0].split("PID ")[1].split(",")[0]), "second", "--template")
    assert start.wait() == 85
    # Restored, it is the copy that it was; started again, it is another one.
    restored = ckpt.restore("second")
    wait_for(lambda: restored.process.poll() is None and answers_or_none(port), "the server")
    assert ask(port, "copy")["name"] == "one"
    restored.kill()
    again = ckpt.start("ckpt-start", ["second", "-n", "2", f"--listen={port}={port}-{port + 1}"])
    again.wait_lines(2)
    assert [ask(port + n, "copy")["name"] for n in range(2)] == ["", ""]
    assert answers(port) == answers(port + 1) == cold


def answers_or_none(port):
    try:
        return answers(port)
    except OSError:
        return None
