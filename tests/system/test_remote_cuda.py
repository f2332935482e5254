# SPDX-License-Identifier: Apache-2.0
"""CUDA devices of other nodes: programs of tests/programs/cuda natively, and through ckpt-devd, verdict
for verdict. The device is the software device."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import memory_share, tree_of, wait_for
from cuda_programs import NVCC, RUN, SOURCES, make  # noqa: F401 (a fixture)
from test_remote import HELLO, MAGIC, VERSION, Server, command
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

CALL, SERVE_CUDA = 4, 5


class Here:
    """What test_remote's Server needs."""

    def __init__(self, ckpt):
        self.ckpt = ckpt


class Nodes:
    """A ckpt-devd, and programs that use its devices or the node's own ones."""

    def __init__(self, ckpt, make, *options):
        self.ckpt, self.make = ckpt, make
        ckpt.env.update(CKPT_SOFTCUDA="2x256M", CUDA_MODULE_LOADING="LAZY")
        self.server = Server(Here(ckpt), *options, port=7669)

    def device(self, host=None, n=0):
        return f"remote:{host or self.server.unix}/cuda:{n}"

    def start(self, source, *arguments, device=None, flags=()):
        options = ["--device", device] if device else []
        return self.ckpt.start("ckpt-run", [*options, "--", str(self.make(source, *flags)), *map(str, arguments)])

    def natively(self, source, *arguments, flags=()):
        """On the device itself, without ckpt: exit code and output."""
        r = subprocess.run([str(RUN), str(self.make(source, *flags)), *map(str, arguments)], env=self.ckpt.env,
                           cwd=self.ckpt.folder, capture_output=True, text=True, timeout=60)
        return r.returncode, r.stdout

    def drivers(self):
        return [p for p in tree_of(self.server.pid()) if command(p) == "ckpt-cuda-server"]


@pytest.fixture
def nodes(ckpt, make):  # noqa: F811
    return Nodes(ckpt, make)


def same_as_natively(nodes, source, *arguments, host=None, flags=()):
    job = nodes.start(source, *arguments, device=nodes.device(host), flags=flags)
    verdict = job.wait(), job.text
    assert verdict == nodes.natively(source, *arguments, flags=flags), job.error_text
    return job


def test_memory_is_not_shared_with_other_processes_by_name(nodes):
    for shared, name in (("ipc_memory", "cuIpcGetMemHandle"), ("ipc", "cuIpcOpenEventHandle")):
        job = nodes.start("refused.cu", shared, device=nodes.device())
        assert job.wait() == 0 and "PASSED" in job.text, job.error_text
        assert job.error_text.count(name) == 1 and "shared with another process" in job.error_text, job.error_text


def test_the_driver_api_and_the_runtime_answer_as_natively(nodes):
    """Over a UNIX socket and over TLS."""
    same_as_natively(nodes, "vector_add.cu")
    same_as_natively(nodes, "vector_add.cu", host=nodes.server.tls)
    same_as_natively(nodes, "video.cc")
    same_as_natively(nodes, "remote_calls.cu")
    same_as_natively(nodes, "remote_variables.cu")
    same_as_natively(nodes, "textures.cu")
    same_as_natively(nodes, "mipmaps.cu")
    same_as_natively(nodes, "remote_arrays.cu")
    same_as_natively(nodes, "remote_textures.cu")
    same_as_natively(nodes, "remote_values.cu")


def test_kernels_print_to_the_programs_standard_output(nodes):
    """In the order of a device of the node, whether the server is here or elsewhere; and nothing is printed there."""
    for host in (None, nodes.server.tls):
        job = same_as_natively(nodes, "printf.cu", host=host)
        assert job.text.startswith("host 0\nkernel 0, thread 0: quarter 0.00\n"), job.text[:200]
        assert job.text.count("kernel") == 6000 and "kernel" not in job.error_text
    assert "quarter" not in nodes.server.job.text + nodes.server.job.error_text


def test_managed_variables_without_ptx_are_refused_when_the_code_is_loaded(nodes):
    """In a fat binary and in a cubin. The driver of the other node would place them where the host does not reach them."""
    files = {"ptx.fatbin": ("-fatbin", "-gencode", "arch=compute_80,code=compute_80"),
             "no-ptx.fatbin": ("-fatbin", "-gencode", "arch=compute_90,code=sm_90"), "no-ptx.cubin": ("-cubin", "-arch=sm_90")}
    paths = [nodes.ckpt.folder / name for name in files]
    for path, flags in zip(paths, files.values()):
        subprocess.run([NVCC, "-DCODE", str(SOURCES / "remote_unplaced.cu"), *flags, "-o", str(path)], check=True, timeout=200)
    job = nodes.start("remote_unplaced.cu", *paths, device=nodes.device())
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text
    assert 'the code with the managed variable "counter" is refused' in job.error_text
    assert "it has no PTX" in job.error_text and "__device__ variables" in job.error_text


def test_virtual_memory_management_answers_as_natively(nodes):
    """Aliases, partial unmaps, access, memory without a handle or without a mapping."""
    same_as_natively(nodes, "remote_mappings.cu")
    same_as_natively(nodes, "remote_mappings.cu", 12, random.randrange(1 << 30), host=nodes.server.tls)


def test_only_the_server_waits_for_calls_of_a_single_thread(nodes):
    """Calls of a program with two threads wait themselves, as one thread may have what the other one's wait needs."""
    counts = []
    for threads in (1, 2):
        file = nodes.ckpt.folder / f"counts{threads}"
        nodes.ckpt.env["CKPT_REMOTE_COUNTS"] = str(file)
        same_as_natively(nodes, "remote_waits.cu", threads)
        counts.append(json.loads(file.read_text()))
    alone, beside = (c["waited_for"] for c in counts)
    assert "write" not in alone and "copy" not in alone, alone
    assert alone["settle"] == 1, alone  # behind a host function
    assert beside["write"] >= 5 and beside["settle"] >= 5 and "copy" not in beside, beside
    assert counts[0]["calls"] > counts[0]["waited"] + counts[0]["one_way"] > 0


def test_launches_reads_and_waits_of_known_kinds_cost_no_round_trip(nodes):
    """Launches of many sizes, reads that often follow each other, a wait behind a read."""
    file = nodes.ckpt.folder / "counts"
    nodes.ckpt.env["CKPT_REMOTE_COUNTS"] = str(file)
    job = same_as_natively(nodes, "remote_trips.cu", host=nodes.server.tls)
    assert "a grid of 1 x 65536 blocks: cudaErrorInvalid" in job.text, job.text
    waited = json.loads(file.read_text())["waited_for"]
    assert waited["launch"] < 60, waited  # of 224, and 20 with clusters
    assert waited["read"] < 140, waited  # of 163
    assert waited.get("cuStreamSynchronize", 0) <= 3, waited


def test_a_fifth_of_a_program_s_calls_wait_at_most(nodes):
    """Molecular dynamics that read their energies at each fifth step."""
    nodes.ckpt.env["CKPT_REMOTE_COUNTS"] = str(nodes.ckpt.folder / "counts")
    same_as_natively(nodes, "molecular_dynamics.cu", 60, 3, 5)
    counts = json.loads((nodes.ckpt.folder / "counts").read_text())
    assert counts["waited"] <= counts["calls"] / 5, counts
    assert counts["batches"] < counts["one_way"], counts


def test_memory_of_host_and_device_answers_as_natively(nodes):
    """Managed, mapped and registered memory, in turns and from host functions."""
    same_as_natively(nodes, "remote_shared.cu", 2)


def test_graphs_and_stream_capture(nodes):
    """Built, recorded, changed, copied and launched, and what is wrong."""
    same_as_natively(nodes, "remote_graphs.cu")
    same_as_natively(nodes, "remote_captures.cu")


def test_attributes_of_launches_that_are_hints_are_accepted(nodes):
    """And the events of a launch complete with it. The software device by itself records none."""
    job = nodes.start("remote_hints.cu", device=nodes.device())
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text
    assert "refused" not in job.error_text, job.error_text


class LyingServer:
    """In front of a ckpt-devd: changes what it says of the parameters of a kernel with 4 of them (vector_add.cu)."""

    TRUE = struct.pack("<I8Q", 4, 0, 8, 8, 8, 16, 8, 24, 4)

    def __init__(self, server, path, lie):
        self.server, self.lie, self.told, self.heard = server, lie, False, b""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.server)
            for a, b, back in ((client, there, False), (there, client, True)):
                threading.Thread(target=self.carry, args=(a, b, back), daemon=True).start()

    def carry(self, a, b, back):
        try:
            while data := a.recv(1 << 20):
                if back and self.TRUE in data:
                    data = data.replace(self.TRUE, self.lie)
                    self.told = True
                elif not back and self.told:
                    self.heard += data
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.mark.parametrize("places", [
    (2**64 - 0x100000, 0x100008, 8, 8, 16, 8, 24, 4),  # the end of the first wraps: 1 MiB below a buffer
    (0, 8, 8, 8, 16, 8, 24, 20000),  # possible, but not what the code declares: the program's stack
    (0, 2**63, 8, 8, 16, 8, 24, 4), (0, 8, 8, 8, 16, 8, 24, 1 << 40),
], ids=["below", "stack", "negative", "large"])
def test_a_server_that_lies_about_parameters_reaches_no_memory_of_the_program(nodes, places):
    path = nodes.ckpt.runtime / "liar"
    liar = LyingServer(nodes.server.unix, path, struct.pack("<I8Q", 4, *places))
    nodes.ckpt.env.update({f"LIE{i}": "SECRET-ON-THE-STACK" for i in range(200)})
    job = nodes.start("vector_add.cu", device=f"remote:{path}/cuda:0")
    assert job.wait() == 1, job.error_text  # CUDA's error
    assert liar.told and "a reply that is none of this protocol" in job.error_text, job.error_text
    assert b"SECRET" not in liar.heard


def test_rules_of_graphs_that_the_software_device_does_not_check(nodes):
    job = nodes.start("remote_graph_rules.cu", device=nodes.device())
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


@pytest.mark.full
def test_graphs_of_other_programs(nodes):
    same_as_natively(nodes, "streams.cu", "graphs")
    same_as_natively(nodes, "entries.cu", "graphs", host=nodes.server.tls)


def test_the_compiler_and_the_linker(nodes):
    """Their options, logs and times, and images that the program copies."""
    same_as_natively(nodes, "jit.cc")
    same_as_natively(nodes, "linking.cc", "without-nvml")


def test_errors_are_reported_as_natively(nodes):
    for what in ("assert", "values"):
        same_as_natively(nodes, "errors.cu", what)


@pytest.mark.full
def test_a_per_thread_default_stream(nodes):
    same_as_natively(nodes, "remote_calls.cu", flags=("-default-stream=per-thread",))


@pytest.mark.full
@pytest.mark.parametrize("source, arguments", [("errors.cu", ("recursion",)), ("errors.cu", ("deadlock",)),
                                               ("errors.cu", ("trap",)), ("errors.cu", ("misaligned",)),
                                               ("remote_calls.cu", ()), ("remote_shared.cu", ()),
                                               *((f"{name}.cu", ()) for name in ("entries", "kernels", "streams", "language", "differential", "accesses",
                                                                                 "launches", "hopper", "matrices"))])
def test_more_programs_answer_as_natively(nodes, source, arguments):
    same_as_natively(nodes, source, *arguments, host=nodes.server.tls)


@pytest.mark.full
def test_random_calls_of_several_threads(nodes):
    """Memory, launches, copies and streams; the program checks all of its memory."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    job = nodes.start("many.cu", seed, 5, device=nodes.device())
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


def test_what_cannot_be_reached_is_refused_by_name(nodes):
    """A program that uses it ends with CUDA's error, and a warning says why, once."""
    job = nodes.start("driver.cc", device=nodes.device())
    assert job.wait() == 1, job.text
    refused = "cuCheckpointProcessGetState is refused on a CUDA device of another node: "
    assert job.error_text.count(refused) == 1


def test_a_static_runtime_is_refused_before_the_program_starts(nodes):
    program = nodes.make("vector_add.cu", runtime="static")
    r = nodes.server.call("ckpt-run", "--device", nodes.device(), program)
    assert r.returncode == 126 and "-cudart shared" in r.stderr


def test_the_cuda_devices_of_another_node_are_listed(nodes):
    r = nodes.server.call("ckpt-run", "--list-devices", "--host", nodes.server.tls)
    assert r.returncode == 0 and r.stdout.count("GPU-") == 2, r.stdout + r.stderr


def test_a_killed_program_leaves_nothing_there(nodes):
    job = nodes.start("queue.cu", 1000, device=nodes.device(nodes.server.tls))
    job.wait_text("READY")
    assert len(nodes.drivers()) == 1
    os.kill(job.program(), signal.SIGKILL)
    wait_for(lambda: not nodes.drivers() and not nodes.server.sessions(), "the end of the session")


@pytest.mark.parametrize("tls", [False, True])
def test_a_killed_server_is_a_device_error(nodes, tls):
    job = nodes.start("remote_calls.cu", "wait", device=nodes.device(nodes.server.tls if tls else None))
    job.wait_text("READY")
    os.kill(nodes.drivers()[0], signal.SIGKILL)
    assert job.wait() == 46  # CUDA_ERROR_DEVICE_UNAVAILABLE
    assert "the CUDA device is lost" in job.error_text


@pytest.mark.full
def test_a_server_that_does_not_read_for_long_is_waited_for(nodes):
    """Its node answers all the time, so the link is not down."""
    job = nodes.start("remote_calls.cu", "much", device=nodes.device(nodes.server.tls))
    job.wait_text("READY")
    driver = nodes.drivers()[0]
    os.kill(driver, signal.SIGSTOP)
    (nodes.ckpt.folder / "go").touch()
    time.sleep(25)
    os.kill(driver, signal.SIGCONT)
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


def test_a_users_memory_is_limited(ckpt, make):  # noqa: F811
    nodes = Nodes(ckpt, make, "--memory", "16M")
    job = nodes.start("remote_calls.cu", "memory", device=nodes.device())
    assert job.wait() == 0, job.error_text
    assert job.text == "8 MiB: 0\n24 MiB: 2\n12 MiB: 0\n8 MiB: 2\n"  # CUDA_ERROR_OUT_OF_MEMORY


class BareClient:
    def __init__(self, server):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(server.unix)
        self.send(HELLO, struct.pack("<IIB", MAGIC, VERSION, SERVE_CUDA) + struct.pack("<I", 0) + b"\0")
        self.socket.recv(8)

    def send(self, kind, body, announced=None):
        self.socket.sendall(struct.pack("<IHH", len(body) if announced is None else announced, kind, 0) + body)

    def call(self, op, arguments, one_way=0):
        self.send(CALL, struct.pack("<IHHQ", 1, op, one_way, 0) + arguments)

    def ended(self):
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass


@pytest.mark.full
def test_a_thousand_idle_clients(ckpt, make):  # noqa: F811
    """A program is served beside them, and nothing of them is left when they go."""
    clients = int(os.environ.get("CKPT_TEST_CLIENTS", "1000"))
    nodes = Nodes(ckpt, make, "--connections", clients + 1, "--all-connections", clients + 1)
    idle = [BareClient(nodes.server) for _ in range(clients)]
    assert len(nodes.drivers()) == clients
    memory = sum(map(memory_share, tree_of(nodes.server.pid())))
    print(f"{memory / clients / (1 << 20):.1f} MiB for each client")
    same_as_natively(nodes, "vector_add.cu")
    for client in idle:
        client.socket.close()
    wait_for(lambda: not nodes.drivers() and not nodes.server.sessions(), "the end of all sessions")


def test_a_hostile_program_harms_no_other(nodes):
    """Calls of random numbers and arguments, and frames that announce what does not come. The seed is printed."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    job = nodes.start("remote_calls.cu", "wait", device=nodes.device())
    job.wait_text("READY")
    victim = nodes.drivers()
    for _ in range(8):
        p = BareClient(nodes.server)
        try:
            for _ in range(200):
                op = rng.choice([rng.randrange(256), 0x4000 + rng.randrange(40)])
                p.call(op, rng.randbytes(rng.choice([0, 8, 16, 24, 64, 200])), rng.randrange(2))
            p.send(CALL, b"", announced=0xffffffff)
        except (BrokenPipeError, ConnectionResetError):
            pass
        p.ended()
    wait_for(lambda: nodes.drivers() == victim, "the end of the hostile connections")
    assert job.process.poll() is None
    same_as_natively(nodes, "vector_add.cu")
    job.kill()
