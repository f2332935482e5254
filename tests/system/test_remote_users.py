# SPDX-License-Identifier: Apache-2.0
"""ckpt-devd between users of which some are hostile: no user is taken for another one, and none keeps the others out."""
import contextlib
import os
import shlex
import socket
import ssl
import struct
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from conftest import BUILD, wait_for
from cuda_programs import NVCC, RUN
from hostile_user import OTHER_UID, UID
from test_remote import HELLO, MAGIC, REFUSED, VERSION, Server, command
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as several users"),
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

LIST, LIST_CUDA, SERVE_CUDA = 1, 4, 5
ANSWER, GREETING = 17, 18
CALL, CODE, LIMIT = 4, 0x4004, "64M"
NAMELESS = UID + 10  # no account has this uid; another account has this number as its name


class Here:
    """What test_remote's Server needs."""

    def __init__(self, ckpt):
        self.ckpt = ckpt


class WithAccounts:
    """Starts ckpt-devd where /etc/passwd has the accounts of these tests."""

    def __init__(self, ckpt):
        self.ckpt = ckpt
        self.passwd = ckpt.folder / "passwd"
        with open("/etc/passwd") as own:
            text = own.read()
        for name, uid in {"ada": UID, "bob": OTHER_UID, str(NAMELESS): OTHER_UID + 20}.items():
            text += f"{name}:x:{uid}:{uid}::/:/bin/sh\n"
        self.passwd.write_text(text)

    def start(self, tool, *arguments):
        # A user's driver takes no folder of root's.
        script = f'unset CKPT_RUNTIME_DIR; mount --bind {shlex.quote(str(self.passwd))} /etc/passwd && exec "$@"'
        return self.ckpt.start_shell(shlex.join(
            ["exec", "unshare", "-m", "sh", "-c", script, "-", self.ckpt.tool(tool), *map(str, arguments)]))


@pytest.fixture
def devd(ckpt):
    nobody = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    server = BUILD / "remote" / "cuda" / "ckpt-cuda-server"
    if subprocess.run([*nobody, str(server), "--version"], capture_output=True).returncode != 0:
        pytest.skip("the build folder is not open to other users")
    ckpt.env.update(CKPT_SOFTCUDA="2x256M")
    ckpt.folder.chmod(0o755)

    def start(*options, allow="ada,bob", port=7690):
        os.chmod(ckpt.runtime, 0o755)
        s = Server(Here(ckpt), "--allow", allow, *options, port=port, node=WithAccounts(ckpt), account=())
        os.chmod(s.folder, 0o755)
        return s
    return start


def act_as(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


@contextlib.contextmanager
def script_of(uid, code, *arguments):
    """Runs Python code as a user, with the helpers below in front of it."""
    process = subprocess.Popen([sys.executable, "-c", HELPERS + textwrap.dedent(code), *map(str, arguments)], text=True,
                               stdout=subprocess.PIPE, preexec_fn=lambda: act_as(uid))
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


HELPERS = f"""
import ctypes, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def frame(kind, body=b""): return struct.pack("<IHH", len(body), kind, 0) + body
def text(t): return struct.pack("<I", len(t)) + t.encode()
def hello(purpose): return frame({HELLO}, struct.pack("<IIB", {MAGIC}, {VERSION}, purpose) + text("") + bytes(1))
def exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more: raise EOFError
        data += more
    return data
def receive(s):
    n, kind, _ = struct.unpack("<IHH", exactly(s, 8))
    return kind, exactly(s, n)
def connect(path, purpose):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(hello(purpose))
    return s
def servers():
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{{p}}/cmdline").read().split(chr(0))
            if words[0].endswith("ckpt-cuda-server") and os.stat(f"/proc/{{p}}").st_uid == os.getuid(): yield int(p), words
        except OSError:
            pass
def steal():
    "The daemon's socket of a server process of this user. It becomes ckpt-cuda-server after the greeting."
    for _ in range(3000):
        if found := list(servers()): break
        time.sleep(0.01)
    pid, words = found[0]
    fd = libc.syscall(438, libc.syscall(434, pid, 0), int(words[words.index("--account") + 1]), 0)
    if fd < 0: raise OSError(ctypes.get_errno(), "pidfd_getfd")
    s = socket.socket(fileno=fd)
    s.settimeout(20)
    return s
"""


def listed_as(uid, server):
    """The type of the answer to a list of CUDA devices, and how long it took."""
    began = time.monotonic()
    with script_of(uid, f"""
        print(*receive(connect(sys.argv[1], {LIST_CUDA})))
        """, server.unix) as p:
        out, _ = p.communicate(timeout=120)
    kind, _, body = out.partition(" ")
    return int(kind), body, time.monotonic() - began


def test_the_daemon_s_socket_that_a_user_takes_from_a_process_gains_nothing(devd):
    """The user has the descriptor of ckpt-cuda-server, which runs with the user's rights. The daemon answers the process that
    serves the connection only."""
    server = devd("--memory", LIMIT)
    with script_of(UID, f"""
            program = connect(sys.argv[1], {SERVE_CUDA})
            assert receive(program)[0] == {GREETING}
            daemon = steal()
            def ask(note, body):
                daemon.sendall(frame(note, body))
                return receive(daemon)[0]
            granted = []
            for name, note, body in [("enter", 1, text("bob")), ("memory", 2, struct.pack("<q", 1 << 20)),
                                     ("give back", 2, struct.pack("<q", -(1 << 40))), ("inventory", 4, text("--serve"))]:
                if ask(note, body) == 16: granted.append(name)
            daemon.sendall(frame(5, text("--serve") + text("evil")) + frame(9, struct.pack("<I", os.getpid())))
            if ask(2, struct.pack("<q", 1 << 20)) == 16: granted.append("memory of another process")
            print(granted, flush=True)
            daemon.sendall(struct.pack("<IHH", 60000, 3, 0))  # the rest comes byte by byte
            while True:
                daemon.send(b"x")
                time.sleep(0.05)
            """, server.unix) as thief:
        assert thief.stdout.readline() == "[]\n", server.job.error_text
        kind, _, seconds = listed_as(OTHER_UID, server)
        assert kind == ANSWER and thief.poll() is None
        assert seconds < 600, "another user waited for a note that comes byte by byte"  # which takes 3,000 s
    wait_for(lambda: "that it does not serve" in server.job.error_text, "the log")


def test_a_number_is_no_name_and_a_name_no_number(devd):
    """One account has as its name the number of a uid that has no account."""
    server = devd(allow="*")
    kind, text, _ = listed_as(NAMELESS, server)
    assert kind == REFUSED and f'this node has no account "uid {NAMELESS}"' in text.replace("\\", ""), text
    server = devd(allow=str(NAMELESS), port=7691)
    kind, text, _ = listed_as(NAMELESS, server)
    assert kind == REFUSED and "may not use the devices" in text, text
    assert listed_as(OTHER_UID + 20, server)[0] == ANSWER


@contextlib.contextmanager
def connections(make, count):
    """So many connections, each of which is made again when the server hangs up."""
    ending = threading.Event()
    ready = threading.Semaphore(0)

    def keep():
        said = False
        while not ending.is_set():
            try:
                with make() as s:
                    if not said:
                        ready.release()
                        said = True
                    s.settimeout(0.5)
                    while not ending.is_set():
                        with contextlib.suppress(TimeoutError):
                            if not s.recv(4096):
                                break
            except OSError:
                time.sleep(0.05)
    threads = [threading.Thread(target=keep) for _ in range(count)]
    for t in threads:
        t.start()
    for _ in threads:
        ready.acquire(timeout=30)
    try:
        yield
    finally:
        ending.set()
        for t in threads:
            t.join()


# What a peer begins a connection with, and then nothing more.
BEGINNINGS = {"silent": b"", "half-a-greeting": b"\x16\x03\x01\x02"}


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_peers_that_greet_for_ever_keep_nobody_out(devd, way, beginning):
    """They come from the address from which the honest client comes, and are more than may greet at a time."""
    server = devd(allow="ada,root")

    def make():
        s = socket.socket(socket.AF_UNIX if way == "unix" else socket.AF_INET)
        host, _, port = server.tls.rpartition(":")
        s.connect(server.unix if way == "unix" else (host, int(port)))
        s.sendall(BEGINNINGS[beginning])
        return s
    with connections(make, 200):
        assert listed_as(UID, server)[0] == ANSWER
        if way == "unix":
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(server.ca / "ca.pem")
        context.load_cert_chain(f"{server.user}/certificate.pem", f"{server.user}/key.pem")
        host, _, port = server.tls.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=60)
        with context.wrap_socket(plain) as s:
            s.sendall(struct.pack("<IHH", 14, HELLO, 0) + struct.pack("<IIB", MAGIC, VERSION, LIST_CUDA) + bytes(5))
            assert struct.unpack("<IHH", s.recv(8))[1] == REFUSED  # root, of another node
    assert command(server.pid()).startswith("ckpt-devd")


def test_one_user_s_connections_are_not_another_one_s(devd):
    server = devd("--connections", "2")
    with script_of(UID, f"""
            all = [connect(sys.argv[1], {SERVE_CUDA}) for _ in range(2)]
            assert [receive(s)[0] for s in all] == [{GREETING}] * 2
            print("ready", flush=True)
            time.sleep(1000)
            """, server.unix) as p:
        assert p.stdout.readline() == "ready\n"
        kind, text, _ = listed_as(UID, server)
        assert kind == REFUSED and "as many as one user may have" in text
        assert listed_as(OTHER_UID, server)[0] == ANSWER


def test_device_code_counts_against_a_user_s_memory(devd):
    """Parts of 16 MiB: the limit holds four. A program that goes on loses its connection, once what it has sent was read."""
    server = devd("--memory", LIMIT)
    with script_of(UID, f"""
            s = connect(sys.argv[1], {SERVE_CUDA})
            assert receive(s)[0] == {GREETING}
            part = bytes(16 << 20)
            end = time.monotonic() + 100
            n = 0
            try:
                while time.monotonic() < end:
                    n += 1
                    s.sendall(frame({CALL}, struct.pack("<IHHQQ", 1, {CODE}, 1, 0, n) + part))
                print("unlimited", flush=True)
            except OSError:
                print("ended", flush=True)
            """, server.unix) as p:
        assert p.stdout.readline() == "ended\n"
    assert listed_as(UID, server)[0] == ANSWER
