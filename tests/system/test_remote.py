# SPDX-License-Identifier: Apache-2.0
"""Devices of other nodes: ckpt-devd serves them, and programs use them as remote:HOST/ocl:NAME."""
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BUILD, memory_share, process_exists, receive_exactly, tree_of, wait_for
from nodes import Nodes
from test_opencl import assert_no_driver, devices, finished, ocl, wait_until_computing  # noqa: F401

HELLO, QUESTION, COMMAND, REFUSED, ANSWER, GREETING, REPLY = 1, 2, 3, 16, 17, 18, 19
VERSION = 8  # remote/transport/frames.h
MAGIC = 0x4d524b43
SERVE = 3


class Server:
    """A ckpt-devd with a UNIX socket and a port of the loopback interface, and a user's certificate.

    unix, tls     the hosts for --device remote:HOST/…
    device(name)  that device over TLS; with host=…, over another way
    job           its ckpt-devd
    """

    def __init__(self, ocl, *options, names="127.0.0.1", port=7667, node=None, account=("--account", "root"), env=None,
                 certificates=True):
        self.ocl, ckpt = ocl, ocl.ckpt
        self.folder = ckpt.runtime / f"devd{len(ckpt.jobs)}"
        self.folder.mkdir()
        self.ca = self.folder / "ca"
        self.devd("--make-ca", self.ca)
        self.server = self.devd("--ca", self.ca, "--make-node", names)
        self.user = self.devd("--ca", self.ca, "--make-user", "root")
        self.unix = str(self.folder / "s")
        host = names.split(",")[0]
        self.tls = f"{host}:{port}"
        ckpt.env["CKPT_CERTIFICATES"] = self.user
        shown = ["--certificates", self.server] if certificates else ["--munge"]
        arguments = ["--socket", self.unix, "--listen", self.tls, *shown, *account, *options]
        self.job = node.start("ckpt-devd", *arguments) if node else ckpt.start("ckpt-devd", arguments, env=env or {})
        self.job.wait_text("listening")

    def devd(self, *arguments):
        r = self.call("ckpt-devd", *arguments)
        assert r.returncode == 0, r.stderr
        return r.stdout.strip()

    def call(self, tool, *arguments, **env):
        ckpt = self.ocl.ckpt
        return subprocess.run([ckpt.tool(tool), *map(str, arguments)], env=dict(ckpt.env, **env), cwd=ckpt.folder,
                              capture_output=True, text=True, timeout=120)

    def device(self, name="pocl", host=None):
        return f"remote:{host or self.tls}/{self.ocl.device(name)}"

    def pid(self):
        """Of ckpt-devd itself, which a node starts below other processes."""
        return next(p for p in [self.job.pid, *tree_of(self.job.pid)] if command(p).startswith("ckpt-devd"))

    def sessions(self):
        return [p for p in tree_of(self.pid()) if command(p).startswith("ckpt-devd")]

    def proxies(self):
        return [p for p in tree_of(self.pid()) if command(p) == "ckpt-ocl-proxy"]

    def list_over_tls(self, certificates, host=None):
        """What ckpt-run --list-devices says with another certificate."""
        r = self.call("ckpt-run", "--list-devices", "--host", host or self.tls, CKPT_CERTIFICATES=str(certificates))
        assert r.returncode == 125, r.stdout
        return r.stderr


def command(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


@pytest.fixture
def server(ocl):
    return Server(ocl)


def near(job):
    """The relay on the program's node."""
    return next(p for p in tree_of(job.pid) if command(p) == "ckpt-remote-proxy")


# Subjects that together use every command of the ring.
QUICK = ["calls"]
MORE = ["image_calls", "events", "family", "images", "image_requirements", "long_kernel", "objects", "options", "queued", "random",
        "requirements", "subdevices", "threads", "unwritten", "version3", "il"]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.full) for n in MORE)])
def test_a_program_answers_as_on_its_own_node(ocl, server, name):
    ocl.ckpt.env.pop("CKPT_TEST_GO")  # none waits for a checkpoint
    here = ocl.start(name, device="pocl")
    there = ocl.start(name, device=server.device())
    assert_no_driver(there)
    assert there.wait() == here.wait(), there.error_text
    assert there.text == here.text


def test_kernels_run_in_slices_on_a_device_of_another_node(ocl, server):
    whole = ocl.start("slices", device="pocl")
    sliced = ocl.start("slices", device=server.device(), options=["--slice=7"])
    assert whole.wait() == 0 and sliced.wait() == 0, sliced.error_text
    assert sliced.text == whole.text
    whole = re.findall("kernel (.*) runs whole.*: (.*)", sliced.error_text)
    assert dict(whole) == {"own_macro": "its program does not compile for slices"}


def test_the_devices_of_another_node_are_listed(server):
    over = [server.call("ckpt-run", "--list-devices", "--host", h) for h in (server.unix, server.tls)]
    here = server.call("ckpt-run", "--list-devices")
    assert all(r.returncode == 0 and "Portable Computing" in r.stdout for r in over), over
    uuids = {line.split()[-1] for line in here.stdout.splitlines() if " ocl " in line}
    assert all(uuids == {line.split()[-1] for line in r.stdout.splitlines() if " ocl " in line} for r in over)


def test_a_name_that_means_nothing_is_refused_before_the_program_starts(server):
    def refused(device):
        r = server.call("ckpt-run", "--device", device, "touch", "started")
        assert r.returncode == 125 and not (server.ocl.ckpt.folder / "started").exists()
        return r.stderr

    assert 'no device "ocl:abacus"' in refused(f"remote:{server.tls}/ocl:abacus")
    assert "all on one node" in refused(f"remote:{server.tls}/ocl:0,ocl:0")
    assert "start ckpt-devd with --listen" in refused("remote:127.0.0.1:1/ocl:0")


def test_included_files_go_to_the_compiler_there(ocl, server):
    """ckpt-devd runs in another folder, and one day on a node that does not have these files."""
    (ocl.ckpt.folder / "sub").mkdir()
    (ocl.ckpt.folder / "sub" / "value.h").write_text("#define VALUE 4711\n")
    (ocl.ckpt.folder / "k.cl").write_text('#include "value.h"\n__kernel void k(__global int *m) { m[get_global_id(0)] = VALUE; }\n')
    ocl.go()
    job = ocl.start("build", "k.cl", "-Isub", ".", device=server.device())
    finished(job)
    assert "wrote 4711" in job.text


def test_an_image_goes_from_a_remote_device_to_a_local_one_and_back(ocl, server):
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, "there")
    assert job.wait() == 85
    wait_for(lambda: not server.sessions(), "the end of the session")
    local = ocl.restore("there", "rusticl")
    wait_until_computing(local)
    ocl.ckpt.dump(local.pid, "here")
    assert local.wait() == 85
    back = ocl.restore("here", server.device())
    assert_no_driver(back)
    ocl.go()
    finished(back)


def test_the_program_continues_on_its_remote_device_after_a_dump(ocl, server):
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image", "--leave-running")
    assert len(server.proxies()) == 1  # the device's contents have stayed there
    ocl.go()
    finished(job)


def test_a_running_program_moves_to_a_local_device_and_back(ocl, server):
    """In place, without CRIU: the process stays, and its commands go elsewhere."""
    def move(device):
        for tool, *options in (["ckpt-dump", "--suspend"], ["ckpt-restore", "--device", device, "--resume"]):
            r = server.call(tool, *options, job.pid)
            assert r.returncode == 0, r.stderr

    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    program = job.program()
    move(ocl.device("rusticl"))
    assert not server.sessions() and not any(command(p) == "ckpt-remote-proxy" for p in tree_of(job.pid))
    move(server.device(host=server.unix))
    assert server.sessions() and job.program() == program
    ocl.go()
    finished(job)


# While it connects, while objects are made, and while contents are loaded.
@pytest.mark.parametrize("victim, delays", [("near", (0, 0.05)), ("proxy", (0, 0.05)),
                                            *(pytest.param(v, [n * 0.03 for n in range(10)], marks=pytest.mark.full) for v in ("near", "session", "proxy"))],
                         ids=["near", "proxy", "near-full", "session-full", "proxy-full"])
def test_a_program_whose_new_device_dies_in_the_move_runs_on_with_its_former_one(ocl, server, victim, delays):
    def processes():
        if victim == "near":
            return [p for p in tree_of(job.pid) if command(p) == "ckpt-remote-proxy"]
        return server.sessions() if victim == "session" else server.proxies()

    job = ocl.start("objects", device=ocl.device("pocl"))
    job.wait_text("READY")
    returned = 0
    for delay in delays:
        move = ocl.ckpt.start("ckpt-restore", ["--device", server.device(host=server.unix), "--resume", str(job.pid)])
        found = wait_for(lambda: processes() or move.process.poll() is not None, "the process of the new device")
        time.sleep(delay)
        if isinstance(found, list) and process_exists(found[-1]):
            os.kill(found[-1], signal.SIGKILL)
        if move.wait() == 0:
            break
        # The process that was killed may have served the check that comes before the move.
        if "failed without a reason" in move.error_text or move.error_text.endswith("the peer hung up\n"):
            continue
        assert "the program runs on with the devices that it had" in move.error_text, move.error_text
        returned += 1
    assert returned > 0 or victim != "near"
    if move.wait() != 0:
        ocl.go()
        finished(job)


def test_certificates_that_do_not_fit_are_refused_with_the_reason(ocl, server):
    other = Server(ocl, port=7668)
    ocl.ckpt.env["CKPT_CERTIFICATES"] = server.user
    assert "the same --ca folder" in server.list_over_tls(other.user)
    assert "another name" in server.list_over_tls(server.user, host="localhost:7667")
    assert "accepts users' certificates only" in server.list_over_tls(server.server)
    assert "CKPT_CERTIFICATES names the folder" in server.list_over_tls("/nowhere")
    os.chmod(server.user + "/key.pem", 0o644)
    assert "chmod 600" in server.list_over_tls(server.user)
    os.chmod(server.user + "/key.pem", 0o600)
    # A connection of plain bytes, and one without a certificate.
    with socket.create_connection(("127.0.0.1", 7667)) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        s.settimeout(20)
        assert s.recv(100)[:1] in (b"\x15", b"")  # an alert
    assert server.call("ckpt-run", "--list-devices", "--host", server.tls).returncode == 0


def test_an_expired_certificate_is_refused_with_the_reason(ocl, server):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=server.ca, check=True, capture_output=True)

    old = server.ca / "old"
    old.mkdir()
    (server.ca / "index.txt").touch()
    (server.ca / "ca.cnf").write_text("[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=old\nserial=serial\n"
                                      "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
                                      "[e]\nextendedKeyUsage=clientAuth\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=root",
            "-keyout", "old/key.pem", "-out", "old/request")
    openssl("ca", "-config", "ca.cnf", "-batch", "-notext", "-create_serial", "-rand_serial", "-cert", "ca.pem", "-keyfile", "ca.key",
            "-in", "old/request", "-out", "old/certificate.pem", "-extensions", "e",
            "-startdate", "20200101000000Z", "-enddate", "20210101000000Z")
    (old / "ca.pem").write_bytes((server.ca / "ca.pem").read_bytes())
    assert "expired" in server.list_over_tls(old)


def test_who_may_enter_and_how_much(ocl):
    """A user without authorisation, too many connections, too much memory; and the certificate of root."""
    other = Server(ocl, "--allow", "ada", port=7668)
    assert 'the user "root" may not use the devices' in other.list_over_tls(other.user)
    plain = Server(ocl, account=(), port=7669)
    assert "rights of root" in plain.list_over_tls(plain.user)
    few = Server(ocl, "--connections", "1")
    job = ocl.start("objects", device=few.device())
    job.wait_text("READY")
    assert "as many as one user may have" in few.list_over_tls(few.user)
    ocl.go()
    finished(job)
    small = Server(ocl, "--memory", "1M", port=7670)
    job = ocl.start("objects", device=small.device())
    assert job.wait() != 0 and "OpenCL error -4" in job.text + job.error_text  # CL_MEM_OBJECT_ALLOCATION_FAILURE


def lost(job, what):
    """Ends the process, after which every call of the program fails and a dump says so."""
    os.kill(what, signal.SIGKILL)
    wait_for(lambda: "lost the devices" in job.error_text or not process_exists(what), "the loss")


@pytest.mark.parametrize("victim", ["near", "session", *(pytest.param(v, marks=pytest.mark.full) for v in ("proxy", "devd"))])
def test_a_side_that_is_killed_is_a_device_error(ocl, server, victim):
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    session = server.sessions()[0]
    lost(job, {"near": near(job), "session": session, "proxy": server.proxies()[0], "devd": server.pid()}[victim])
    if victim != "near":
        wait_for(lambda: "lost the devices of" in job.error_text, "the message")
    wait_for(lambda: not process_exists(session), "the end of the session")
    assert "contents of its buffers are lost" in ocl.ckpt.dump_refused(job.pid, "image")
    ocl.go()
    assert job.wait() not in (0, 85)
    assert "OpenCL error -2" in job.text + job.error_text  # CL_DEVICE_NOT_AVAILABLE


def test_a_session_has_its_account_and_ends_with_the_daemon(ocl):
    proxy = BUILD / "libckpt-ocl" / "ckpt-ocl-proxy"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, str(proxy), "--version"], capture_output=True).returncode != 0:
        pytest.skip("the build folder is not open to other users")
    with tempfile.TemporaryDirectory() as cache:  # for what PoCL has compiled
        os.chmod(cache, 0o777)
        ocl.ckpt.env["POCL_CACHE_DIR"] = cache
        server = Server(ocl, account=("--account", "nobody"))
        job = ocl.start("objects", device=server.device())
        job.wait_text("READY")
        theirs = server.sessions() + server.proxies()
        assert [os.stat(f"/proc/{p}").st_uid for p in theirs] == [65534] * 2
        os.kill(server.pid(), signal.SIGKILL)
        wait_for(lambda: not any(map(process_exists, theirs)), "the end of the session and its proxy")
        ocl.go()
        assert job.wait() not in (0, 85)


def test_a_program_that_only_looks_at_devices_loads_no_driver_there(ocl, server):
    """Its questions have the answers that an earlier program of the user got."""
    here = ocl.start("looks", device="pocl", env={"CKPT_TEST_GO": "/"})
    finished(here)
    first = ocl.start("looks", device=server.device())
    first.wait_text("READY")
    assert len(server.proxies()) == 1
    second = ocl.start("looks", device=server.device())
    second.wait_text("READY")
    assert len(server.proxies()) == 1 and len(server.sessions()) == 2
    ocl.go()
    for job in first, second:
        finished(job)
        assert job.text == here.text


def test_devices_that_have_changed_since_a_program_looked_at_them_are_an_error(ocl):
    vendors = ocl.ckpt.folder / "of-the-server"
    vendors.mkdir()

    def offer(name):
        for old in vendors.iterdir():
            old.unlink()
        shutil.copy(BUILD / "testbed" / "vendors" / f"{name}.icd", vendors)

    offer("pocl")
    server = Server(ocl, env={"OCL_ICD_VENDORS": f"{vendors}/"})
    finished(ocl.start("looks", device=server.device(), env={"CKPT_TEST_GO": "/"}))
    late = ocl.start("looks", device=server.device())
    late.wait_text("READY")
    assert not server.proxies()
    offer("rusticl")
    finished(ocl.start("looks", device=server.device("rusticl"), env={"CKPT_TEST_GO": "/"}))
    ocl.go()
    assert late.wait() not in (0, 85)
    assert "have changed since this program saw them" in late.error_text and "start the program again" in late.error_text


def test_a_killed_program_leaves_nothing_there(ocl, server):
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    left = server.sessions() + server.proxies()
    assert len(left) == 2
    os.kill(job.program(), signal.SIGKILL)
    job.wait()
    wait_for(lambda: not any(map(process_exists, left)), "the end of the session and its proxy")


def text_of(value):
    return struct.pack("<I", len(value)) + value


EVIL = b"\x1b]0;pwned\x07\x1b[31mEVIL\nckpt-run: error: forged"
NAMED = json.dumps([{"id": "0", "name": EVIL.decode(), "platform": "soft\x1b[2J\xc2\x9bm", "uuid": "GPU-\x1b[m",
                     "memory_bytes": 123}]).encode()
SAID = {
    "names": (ANSWER, struct.pack("<i", 0) + text_of(NAMED)),
    "refused": (REFUSED, text_of(b"no " + EVIL) + text_of(b"hint " + EVIL)),
    "error": (ANSWER, struct.pack("<i", 1) + text_of(json.dumps({"error": {"what": EVIL.decode(), "hint": "\x1b[m"}}).encode())),
    "deep": (ANSWER, struct.pack("<i", 0) + text_of(b"[" * 100000)),
    "short": (ANSWER, struct.pack("<iI", 0, 0xffffffff) + b"x"),
}


@pytest.mark.parametrize("what", SAID)
def test_what_another_node_says_cannot_control_a_terminal(ckpt, what):
    """Names of devices, reasons and errors of a server that is none of ours."""
    path = ckpt.runtime / "evil"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve():
        while True:
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                kind, body = SAID[what]
                client.sendall(struct.pack("<IHH", len(body), kind, 0) + body)

    threading.Thread(target=serve, daemon=True).start()
    for arguments in (["--list-devices", "--host", path], ["--device", f"remote:{path}/cuda:0", "--", "true"]):
        r = subprocess.run([ckpt.tool("ckpt-run"), *map(str, arguments)], env=ckpt.env, capture_output=True, timeout=120)
        said = r.stdout + r.stderr
        assert not any(c in said for c in (b"\x1b", b"\x07", b"\x9b")), said
        assert b"\nckpt-run: error: forged" not in said, said
        assert what in ("names",) or r.returncode != 0


class Wire:
    """A client of our own on the UNIX socket."""

    def __init__(self, server):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(server.unix)
        self.socket.settimeout(60)

    def send(self, kind, body, announced=None):
        length = len(body) if announced is None else announced
        self.socket.sendall(struct.pack("<IHH", length, kind, 0) + body)

    def hello(self, version=VERSION, magic=MAGIC):
        self.send(HELLO, struct.pack("<IIB", magic, version, SERVE) + struct.pack("<I", 0) + b"\0")

    def receive(self):
        """The type of the next frame and its body; None: the server hung up."""
        try:
            head = receive_exactly(self.socket, 8)
            if head is None:
                return None
            length, kind, _ = struct.unpack("<IHH", head)
            return kind, receive_exactly(self.socket, length)
        except ConnectionError:
            return None


def test_another_version_is_refused_with_the_reason(server):
    w = Wire(server)
    w.hello(version=99)
    kind, body = w.receive()
    assert kind == REFUSED and f"version {VERSION} of its protocol, not 99".encode() in body and b"same version of ckpt" in body


def resident(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0


def test_hostile_frames_end_their_connection_and_nothing_else(ocl, server):
    """Frames that announce what does not come, and random commands. The seed is printed."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    honest = set(server.sessions())
    w = Wire(server)
    w.hello(magic=1)
    assert w.receive()[0] == REFUSED
    w = Wire(server)
    w.send(HELLO, b"", announced=0xffffffff)
    assert w.receive()[0] == REFUSED
    # 60 MiB are announced and do not come: no memory is taken for them.
    w = Wire(server)
    w.hello()
    assert w.receive()[0] == GREETING
    session = (set(server.sessions()) - honest).pop()
    before = resident(session)
    w.send(COMMAND, b"\0" * 100, announced=60 << 20)
    assert resident(session) < before + (8 << 20)
    w.socket.close()
    for _ in range(3):
        w = Wire(server)
        w.hello()
        assert w.receive()[0] == GREETING
        try:
            for _ in range(200):
                payload = rng.randbytes(rng.choice([0, 8, 40, 41, 200]))
                head = struct.pack("<IHHQ", rng.choice([len(payload), rng.randrange(1 << 32)]), rng.randrange(0, 120),
                                   rng.randrange(4), rng.choice([0, 1, rng.randrange(1 << 64)]))
                w.send(COMMAND, head + payload)
        except OSError:
            pass  # the server has hung up
        w.socket.close()
    wait_for(lambda: set(server.sessions()) == honest, "the end of the hostile sessions")
    ocl.go()
    finished(job)


def test_connections_that_say_nothing_have_no_process(ocl, server):
    """An honest client is served beside them."""
    silent = [Wire(server) for _ in range(80)]
    r = server.call("ckpt-run", "--list-devices", "--host", server.unix)
    assert r.returncode == 0 and "Portable Computing" in r.stdout, r.stderr
    wait_for(lambda: not server.sessions(), "the end of the honest client's session")
    for w in silent:
        w.socket.close()


MAP_DEVICES, INFO, SYNC = 15, 2, 1
OF_DEVICE, DEVICE_VERSION = 1, 0x102F  # ring/wire.h, CL/cl.h


class LookingClient(Wire):
    """Does what a program's first call does: it maps the devices that the greeting names, and asks for a version."""

    def __init__(self, server):
        super().__init__(server)
        self.hello()
        kind, greeting = self.receive()
        assert kind == GREETING, greeting
        self.ask(MAP_DEVICES, self.mapping(greeting))
        assert self.ask(INFO, struct.pack("<BQQI", OF_DEVICE, 2, 0, DEVICE_VERSION)).find(b"OpenCL") >= 0

    def mapping(self, greeting):
        at = 0

        def take(form):
            nonlocal at
            value, = struct.unpack_from(form, greeting, at)
            at += struct.calcsize(form)
            return value

        def text():
            nonlocal at
            length = take("<I")
            at += length
            return greeting[at - length:at]

        devices = []
        for _ in range(take("<I")):
            platform = text()
            seen = {}
            for _ in range(take("<I")):
                take("<Q")
                name = text()
                devices.append((platform, name, seen.setdefault(name, 0)))
                seen[name] += 1
        body = struct.pack("<I", len(devices))
        for number, (platform, name, nth) in enumerate(devices, 2):
            body += struct.pack("<QB", number, 0)
            body += b"".join(struct.pack("<I", len(t)) + t for t in (platform, name)) + struct.pack("<I", nth)
        return body

    def ask(self, operation, payload):
        self.send(COMMAND, struct.pack("<IHHQ", len(payload), operation, SYNC, 0) + payload)
        kind, reply = self.receive()
        assert kind == REPLY and struct.unpack_from("<i", reply) == (0,), (kind, reply)
        return reply


@pytest.mark.full
def test_a_thousand_idle_clients(ocl):
    """A program is served beside them, and nothing of them is left when they go."""
    clients = int(os.environ.get("CKPT_TEST_CLIENTS", "1000"))
    server = Server(ocl, "--connections", clients + 1, "--all-connections", clients + 1)
    idle = [LookingClient(server) for _ in range(clients)]
    assert len(server.sessions()) == clients
    assert len(server.proxies()) == 1  # of the first one, whose answers the others got
    print(f"{sum(map(memory_share, server.sessions())) / clients / (1 << 20):.2f} MiB for each client")
    finished(ocl.start("looks", device=server.device(), env={"CKPT_TEST_GO": "/"}))
    for client in idle:
        client.socket.close()
    wait_for(lambda: not server.proxies() and not server.sessions(), "the end of all sessions")


@pytest.fixture
def two_nodes(ocl):
    nodes = Nodes(ocl.ckpt, 2)
    yield nodes
    nodes.close()


def test_two_nodes_and_a_cable_that_is_pulled_for_a_second(ocl, two_nodes):
    far, near_node = two_nodes
    server = Server(ocl, names="10.66.0.1", node=far)
    from test_opencl import OPENCL
    job = near_node.start("ckpt-run", "--device", server.device(), OPENCL / "ocl-objects", env=ocl.ckpt.env)
    job.wait_text("READY")
    subprocess.run(near_node.inside("ip", "link", "set", "eth0", "down"), check=True)
    ocl.go()
    time.sleep(1)
    subprocess.run(near_node.inside("ip", "link", "set", "eth0", "up"), check=True)
    finished(job)


@pytest.mark.full
def test_a_cable_that_is_pulled_for_good_is_a_device_error(ocl, two_nodes):
    far, near_node = two_nodes
    server = Server(ocl, names="10.66.0.1", node=far)
    from test_opencl import OPENCL
    job = near_node.start("ckpt-run", "--device", server.device(), OPENCL / "ocl-objects", env=ocl.ckpt.env)
    job.wait_text("READY")
    session = server.sessions()[0]
    subprocess.run(near_node.inside("ip", "link", "set", "eth0", "down"), check=True)
    ocl.go()
    assert job.wait(120) not in (0, 85)
    assert "OpenCL error -2" in job.text + job.error_text and "lost the devices" in job.error_text
    wait_for(lambda: not process_exists(session), "the end of the session")
