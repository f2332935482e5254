# SPDX-License-Identifier: Apache-2.0
"""ckptd --metrics: the metrics for Prometheus."""
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import BUILD, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from manager import Node
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
    pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists(), reason="ckptd is not built"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def node(ckpt, make):  # noqa: F811
    n = Node(ckpt, make, "2x256M")
    n.port = free_port()
    return n.start("--metrics", str(n.port), "--victim", "cheapest")


def get(n, path="/metrics", method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{n.port}{path}", method=method)
    return urllib.request.urlopen(request, timeout=20)


def scrape(n):
    """{(name, labels): value}, as a strict parser of the format reads it."""
    parser = pytest.importorskip("prometheus_client.parser")
    with get(n) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    check_form(text)
    samples = [s for family in parser.text_string_to_metric_families(text) for s in family.samples]
    values = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in samples}
    assert len(values) == len(samples), "a sample appears twice"
    return values


def check_form(text):
    """What the parser does not check: HELP and TYPE before each metric, counters that end in _total."""
    assert text.endswith("\n")
    kinds = {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# HELP "):
            assert words[2] not in kinds and words[3].endswith("."), line
            helped = words[2]
        elif line.startswith("# TYPE "):
            assert words[2] == helped, line
            kinds[words[2]] = words[3]
            assert (words[3] == "counter") == words[2].endswith("_total"), line
        else:
            name = re.match(r"[a-z_]+", line)[0]
            base = re.sub("_(bucket|sum|count)$", "", name) if kinds[helped] == "histogram" else name
            assert base == helped and base.startswith(("ckpt_", "ckptd_")), line


def test_values_are_those_of_ckpt_top(node):
    n = node
    a = n.run("a", 120, 90, pause=["2", "end"])
    a.wait_text("have 120")
    b = n.run("b", 200, pause=["end"])
    b.wait_text("have 200")
    c = n.run("c", 60, pause=["end"])
    c.wait_text("have 60")
    n.go_on("a", "2")
    a.wait_text("have 90")  # c was evicted for it
    n.wait_state(c, "evicted")
    r = subprocess.run([n.ckpt.tool("ckpt-top"), "--json"], env=n.ckpt.env, capture_output=True, text=True, timeout=30)
    status = json.loads(r.stdout)
    time.sleep(0.15)  # metrics are cached for 0.1 s
    values = scrape(n)
    for g in status["gpus"]:
        gpu = (("gpu", g["uuid"]),)
        for metric, key in [("memory_bytes", "total_bytes"), ("free_bytes", "free_bytes"),
                            ("reserved_bytes", "reserved_bytes"), ("programs", "programs"), ("exclusive", "exclusive")]:
            assert values[f"ckpt_gpu_{metric}", gpu] == g[key], metric
        assert values["ckpt_gpu_info", (("gpu", g["uuid"]), ("name", g["name"]))] == 1
    for state in ["unassigned", "pending", "running", "evicting", "evicted", "resuming", "suspended"]:
        expected = sum(p["state"] == state for p in status["programs"])
        assert values["ckpt_programs", (("state", state),)] == expected, state
    assert values["ckpt_programs_waiting", ()] == sum(p["waits"] for p in status["programs"]) == 1
    assert values["ckpt_kept_bytes", (("where", "memory"),)] == status["host_kept_bytes"] == 60 << 20
    assert values["ckpt_evictions_total", ()] == sum(p["evictions"] for p in status["programs"]) == 1
    assert values["ckpt_moved_bytes_total", (("direction", "out"),)] == 60 << 20
    assert values["ckpt_resumes_total", ()] == 0
    assert values["ckpt_waits_total", ()] == 1  # a, for its second allocation
    assert values["ckpt_wait_seconds_total", ()] > 0
    before = n.messages().count("CudaMalloc")
    assert values["ckpt_messages_total", (("direction", "from"), ("message", "CudaMalloc"))] == before
    n.go_on("b", "end")
    assert b.wait() == 0
    n.wait_state(c, "running")
    time.sleep(0.15)
    values = scrape(n)
    assert values["ckpt_resumes_total", ()] == values["ckpt_migrations_total", ()] == 1
    assert values["ckpt_moved_bytes_total", (("direction", "in"),)] == 60 << 20
    assert values["ckpt_evicted_seconds_total", ()] > 0
    assert values["ckpt_denials_total", ()] == 0
    decisions = values["ckpt_decision_seconds_count", ()]
    assert decisions == values["ckpt_decision_seconds_bucket", (("le", "+Inf"),)]
    assert decisions == sum(v for (name, labels), v in values.items()
                            if name == "ckpt_messages_total" and ("direction", "from") in labels)
    d = n.run("d", 300)
    assert d.wait() == 0 and "denied 300" in d.text
    time.sleep(0.15)
    assert scrape(n)["ckpt_denials_total", ()] == 1
    n.go_on("a", "end")
    n.go_on("c", "end")
    assert a.wait() == 0 and c.wait() == 0


def test_only_metrics_and_only_on_the_loopback_interface(node):
    for path, method, code in [("/", "GET", 404), ("/metrics/x", "GET", 404), ("/metrics", "POST", 405),
                               ("/metrics", "DELETE", 405)]:
        with pytest.raises(urllib.error.HTTPError) as e:
            get(node, path, method)
        assert e.value.code == code
    with get(node, method="HEAD") as answer:
        assert answer.read() == b"" and int(answer.headers["Content-Length"]) > 1000
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{node.port}"], capture_output=True, text=True).stdout
    assert f"127.0.0.1:{node.port}" in listening and "0.0.0.0" not in listening.replace("0.0.0.0:*", "")


@pytest.mark.parametrize("host", ["127.0.0.2", "[::1]"])
def test_an_address_of_this_machine(ckpt, make, host):  # noqa: F811
    n = Node(ckpt, make, "1x64M")
    n.port = free_port()
    n.start("--metrics", f"{host}:{n.port}")
    with urllib.request.urlopen(f"http://{host}:{n.port}/metrics", timeout=20) as answer:
        assert b"ckpt_gpu_memory_bytes{" in answer.read()
    with pytest.raises(urllib.error.URLError):
        get(n)


@pytest.mark.parametrize("address", ["localhost:9400", "127.0.0.1:0", "99999", "::1:9400", "10.0.0.5"])
def test_what_is_no_address(ckpt, address):
    r = subprocess.run([ckpt.tool("ckptd"), "--metrics", address], env=ckpt.env, capture_output=True, text=True, timeout=30)
    assert r.returncode == 125 and f'"{address}" is not an address for metrics' in r.stderr and "IPV4:PORT" in r.stderr


def test_a_hostile_client_does_not_disturb_programs(node):
    def client(data):
        s = socket.create_connection(("127.0.0.1", node.port), timeout=20)
        s.sendall(data)
        return s

    def answer(data):
        s = client(data)
        try:
            return s.recv(100)
        except ConnectionError:
            return b""
        finally:
            s.close()

    # An endless line, endless headers, a body that is never sent, noise.
    try:
        assert b" 200 " not in answer(b"GET /" + b"a" * 200_000)
    except ConnectionError:
        pass
    try:
        assert b" 200 " not in answer(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 100_000)
    except ConnectionError:
        pass
    assert b" 405 " in answer(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n")
    answer(bytes(range(256)) * 40 + b"\r\n\r\n")
    # Many clients that send nothing or half a request, and stay. Programs do not notice.
    silent = [client(b"" if i % 2 else b"GET /met") for i in range(60)]
    began = time.monotonic()
    a = node.run("a", 50)
    assert a.wait() == 0
    node.alive()
    assert time.monotonic() - began < 20
    for s in silent:
        s.close()
    wait_for(lambda: scrape(node)["ckpt_programs", (("state", "running"),)] == 0, "an answer")
    # A client that does not read its answers.
    s = client(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
    node.alive()
    s.close()


def test_a_port_that_is_taken(ckpt, make):  # noqa: F811
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        ckpt.env.update(CKPT_SOFTCUDA="1x64M", CKPTD_SOCKET=str(ckpt.runtime / "ckptd.sock"))
        r = subprocess.run([ckpt.tool("ckptd"), "--metrics", str(port)], env=ckpt.env, capture_output=True, text=True,
                           timeout=30)
    assert r.returncode == 1 and f"cannot serve metrics on 127.0.0.1:{port}" in r.stderr


def test_the_power_of_gpus_that_have_a_sensor(ckpt, make, tmp_path):  # noqa: F811
    """The model of the software device has one; without watts there is none."""
    model = tmp_path / "model"
    model.write_text("idle 40\n")
    ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    n = Node(ckpt, make, "1x256M")
    n.port = free_port()
    n.start("--metrics", str(n.port))
    [watts] = [v for (name, _), v in scrape(n).items() if name == "ckpt_gpu_power_watts"]
    assert watts == 40
    a = n.run("a", 120, pause=["end"])  # the device's broker lives as long
    a.wait_text("have 120")
    [before] = [v for (name, _), v in scrape(n).items() if name == "ckpt_gpu_energy_joules_total"]
    time.sleep(0.5)
    [after] = [v for (name, _), v in scrape(n).items() if name == "ckpt_gpu_energy_joules_total"]
    assert after - before >= 0.4 * 40
    assert "1 programs, 0 % busy, 40 W  " in subprocess.run([n.ckpt.tool("ckpt-top"), "--once"], env=n.ckpt.env, capture_output=True, text=True).stdout
    model.write_text("launch 0\n")
    time.sleep(0.2)
    assert not [name for (name, _) in scrape(n) if "watts" in name or "joules" in name]


@pytest.mark.full
def test_the_energy_of_each_program(ckpt, make, tmp_path):  # noqa: F811
    """Alone on the GPU, a program has all of it; beside a process that ckptd does not manage, half."""
    model = tmp_path / "model"
    model.write_text("compute 2e6\nidle 10\nactive 90\n")
    ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    n = Node(ckpt, make, "1x256M")
    n.port = free_port()
    n.start("--metrics", str(n.port))
    job = n.run_executable(make("clock.cu"), "1000")

    def energy():
        values = {name: value for (name, _), value in scrape(n).items()}
        return values["ckpt_gpu_programs_energy_joules_total"], values["ckpt_gpu_energy_joules_total"]

    def share_of(seconds):
        (mine, all_), _ = energy(), time.sleep(seconds)
        mine_then, all_then = energy()
        return (mine_then - mine) / (all_then - all_)

    wait_for(lambda: energy()[0] > 50, "energy of the program")
    assert share_of(4) > 0.7
    assert n.program(job)["joules"] == pytest.approx(energy()[0], rel=0.3)
    assert " kJ" in n.top("--once") or re.search(r"\d J ", n.top("--once"))
    n.ckpt.start(RUN, [str(make("clock.cu")), "1000"])
    time.sleep(2)
    assert 0.2 < share_of(6) < 0.8


@pytest.mark.parametrize("size", [(14, 80), (60, 200)], ids=lambda s: "x".join(map(str, s[::-1])))
def test_a_terminal_shows_how_busy_the_gpus_are(ckpt, make, tmp_path, size):  # noqa: F811
    """Two GPUs with graphs and the programs fit into the smallest of usual terminals, and use a large one."""
    model = tmp_path / "model"
    model.write_text("compute 2e6\nidle 10\nactive 90\n")
    ckpt.env.update(CKPT_SOFTCUDA_MODEL=str(model), LC_ALL="C.UTF-8", NO_COLOR="1")
    n = Node(ckpt, make, "2x256M").start()
    for _ in range(2):
        n.run_executable(make("clock.cu"), "1000")
    live = ckpt.start("ckpt-top", ["--interval", "0.2"], stdout="tty", size=size)
    live.wait_text("clock")
    live.type("g")

    def lines():
        """Of the last whole screen."""
        screens = re.findall("\x1b\\[H(.*?)\x1b\\[J", live.text, re.S)
        return re.sub("\x1b\\[K|\r", "", screens[-1]).split("\n") if screens else []

    wait_for(lambda: sum(line.startswith("  busy ") and ("█" in line) for line in lines()) == 2, "graphs")
    wait_for(lambda: re.search("GPU 0 .* [1-9]\\d* % busy", "\n".join(lines())), "a busy GPU")
    time.sleep(3)
    print("\n".join(lines()))
    assert len(lines()) <= size[0] and max(map(len, lines())) <= size[1]
    assert [line.split()[0] for line in lines()[:6]] == ["GPU", "busy", "mem", "GPU", "busy", "mem"]
    assert sum("clock" in line for line in lines()) == 2
    assert any("ENERGY" in line for line in lines()) == (size[1] > 80)
    live.type("q")
    assert live.wait() == 0
