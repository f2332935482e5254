# SPDX-License-Identifier: Apache-2.0
"""IP and UNIX sockets: what is restored with its data, and what is refused by name beforehand."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import criu_with, image_manifest, wait_for

# What every program here begins and goes on with: it says that it is ready, and waits for the file.
HEAD = ("import ctypes, os, socket, sys, time\n"
        "S = socket\n"
        "def tcp(address='127.0.0.1', family=S.AF_INET):\n"
        "    l = S.socket(family); l.bind((address, 0)); l.listen(5)\n"
        "    return l\n"
        "def pair(address='127.0.0.1', family=S.AF_INET, to=None):\n"
        "    l = tcp(address, family)\n"
        "    c = S.create_connection((to or address, l.getsockname()[1]))\n"
        "    return c, l.accept()[0]\n"
        "def wait():\n"
        "    print('ready', flush=True)\n"
        "    while not os.path.exists('finish'): time.sleep(0.02)\n"
        "def talk(a, b):\n"
        "    for x, y in ((a, b), (b, a)):\n"
        "        x.settimeout(20); y.settimeout(20); x.sendall(b'hello')\n"
        "        assert y.recv(5, S.MSG_WAITALL) == b'hello'\n")

WORK = {
    "tcp-listener": "l = tcp(); wait(); c = S.create_connection(l.getsockname()); talk(c, l.accept()[0])",
    "tcp6-listener": "l = tcp('::1', S.AF_INET6); wait(); c = S.create_connection(l.getsockname()[:2]); "
                     "talk(c, l.accept()[0])",
    "udp": "a = S.socket(type=S.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); b = S.socket(type=S.SOCK_DGRAM)\n"
           "b.bind(('127.0.0.1', 0)); a.connect(b.getsockname()); b.connect(a.getsockname()); wait(); talk(a, b)",
    "raw": "a = S.socket(S.AF_INET, S.SOCK_RAW, S.IPPROTO_ICMP); wait(); assert a.getsockopt(S.SOL_SOCKET, 38) == 1",
    "packet": "a = S.socket(S.AF_PACKET, S.SOCK_RAW, S.htons(3)); wait(); a.getsockname()",
    "connection": "a, b = pair(); wait(); talk(a, b)",
    "connection6": "a, b = pair('::1', S.AF_INET6); wait(); talk(a, b)",
    "mapped-address": "a, b = pair('::', S.AF_INET6, '127.0.0.1'); wait(); talk(a, b)",
    "unread": "a, b = pair(); a.sendall(b'before'); wait(); assert b.recv(6, S.MSG_WAITALL) == b'before'; talk(a, b)",
    "full": "a, b = pair(); a.setblocking(False); sent = 0; data = os.urandom(1 << 16)\n"
            "try:\n"
            "    while True: sent += a.send(data[sent % (1 << 16):])\n"
            "except BlockingIOError: pass\n"
            "wait(); got = 0; b.settimeout(20)\n"
            "while got < sent:\n"
            "    x = b.recv(1 << 16); at = got % (1 << 16); assert (data + data)[at:at + len(x)] == x; got += len(x)\n"
            "talk(a, b)",
    "half-closed": "a, b = pair(); a.sendall(b'x'); a.shutdown(S.SHUT_WR); wait()\n"
                   "assert b.recv(1) == b'x' and b.recv(1) == b''; b.sendall(b'y'); assert a.recv(1) == b'y'",
    "other-end-closed": "a, b = pair(); a.sendall(b'x'); a.close(); wait(); assert b.recv(1) == b'x' and b.recv(1) == b''",
    "refused": "a = S.socket(); l = tcp(); p = l.getsockname(); l.close()\n"
               "assert a.connect_ex(p) == 111; wait(); l = S.socket()\n"
               "l.setsockopt(S.SOL_SOCKET, S.SO_REUSEADDR, 1); l.bind(p); l.listen(1)\n"
               "a = S.create_connection(p); talk(a, l.accept()[0])",
    "unix-pair": "a, b = S.socketpair(); a.sendall(b'x'); wait(); assert b.recv(1) == b'x'; talk(a, b)",
    "sysv-memory": "c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; i = c.shmget(0, 4096, 0o1600)\n"
                   "p = c.shmat(i, None, 0); ctypes.memmove(p, b'hello', 5); wait()\n"
                   "assert ctypes.string_at(p, 5) == b'hello'; q = c.shmat(i, None, 0)\n"
                   "assert ctypes.string_at(q, 5) == b'hello'",
    "sysv-semaphore": "c = ctypes.CDLL(None); i = c.semget(0, 1, 0o1600); c.semctl(i, 0, 16, 7); wait()\n"
                      "assert c.semctl(i, 0, 12) == 7",
}


def run(ckpt, body, options=()):
    job = ckpt.run("/usr/bin/python3", "-c", HEAD + body + "\nraise SystemExit(7)\n", options=options)
    job.wait_text("ready")
    return job


@pytest.mark.parametrize("case", WORK)
def test_socket_survives(ckpt, case):
    job = run(ckpt, WORK[case])
    ckpt.dump(job.pid, "img")
    assert job.wait() == 85
    ckpt.finish()
    copy = ckpt.restore("img")
    assert copy.wait() == 7, copy.error_text


@pytest.mark.parametrize("case", ["connection", "full", "half-closed", "refused"])
def test_connection_continues_after_a_dump_of_a_running_program(ckpt, case):
    job = run(ckpt, WORK[case])
    ckpt.dump(job.pid, "img", "--leave-running")
    ckpt.finish()
    assert job.wait() == 7, job.error_text
    copy = ckpt.restore("img")
    assert copy.wait() == 7, copy.error_text


# CRIU leaves connections in repair mode; a process that continues the program takes them out of it.
@pytest.mark.parametrize("step", ["record", "write"])
def test_connection_continues_after_a_killed_dump(ckpt, step):
    body = ("a, b = pair(); a.setsockopt(S.SOL_SOCKET, S.SO_REUSEADDR, 1); wait()\n"
            "assert a.getsockopt(S.SOL_SOCKET, S.SO_REUSEADDR) == 1; talk(a, b)")
    job = run(ckpt, body)
    r = ckpt.dump_process(job.pid, "img", env={"CKPT_TEST_STOP_AT": step})
    assert r.returncode == -signal.SIGKILL
    ckpt.finish()
    assert job.wait() == 7, job.error_text


def test_a_connection_that_is_made_in_the_middle_of_a_dump_fails_it(ckpt):
    """Its packets were not stopped while CRIU read the two ends."""
    body = ("l = tcp(); print('ready', flush=True)\n"
            "while not os.path.exists('connect'): time.sleep(0.01)\n"
            "c = S.create_connection(l.getsockname()); a = l.accept()[0]; open('connected', 'w'); wait(); talk(a, c)")
    job = run(ckpt, body)
    env = criu_with(ckpt, before_dump="touch connect; until [ -e connected ]; do sleep 0.01; done")
    r = ckpt.dump_process(job.pid, "img", env=env)
    assert r.returncode == 1 and "made a TCP connection in the middle of the checkpoint" in r.stderr
    ckpt.dump(job.pid, "img", "--leave-running")
    ckpt.finish()
    assert job.wait() == 7, job.error_text


def test_options_of_a_connection_are_kept(ckpt):
    body = ("a, b = pair(); a.setsockopt(S.SOL_SOCKET, S.SO_REUSEADDR, 1); wait()\n"
            "assert [x.getsockopt(S.SOL_SOCKET, S.SO_REUSEADDR) for x in (a, b)] == [1, 0]; talk(a, b)")
    job = run(ckpt, body)
    ckpt.dump(job.pid, "img", "--leave-running")
    ckpt.finish()
    assert job.wait() == 7, job.error_text


def test_connection_between_processes_where_pids_are_taken(ckpt, blocker):
    body = ("l = tcp(); child = os.fork()\n"
            "if child == 0:\n"
            "    c = S.create_connection(l.getsockname()); n = 0\n"
            "    while c.recv(1): n += 1; c.sendall(b'k')\n"
            "    os._exit(n % 256)\n"
            "a = l.accept()[0]; n = 0; told = False; a.settimeout(20)\n"
            "while not os.path.exists('finish'):\n"
            "    a.sendall(b'x'); assert a.recv(1) == b'k'; n += 1\n"
            "    if n > 100 and not told: told = True; print('ready', flush=True)\n"
            "a.close(); assert os.waitstatus_to_exitcode(os.wait()[1]) == n % 256")
    job = run(ckpt, body)
    report = ckpt.dump(job.pid, "img")
    assert job.wait() == 85
    assert {"tcp"} == {s["protocol"] for s in image_manifest(ckpt.folder / "img")["manifest"]["sockets"]}
    blocker.take(report["pid"])
    copy = ckpt.restore("img")
    wait_for(lambda: copy.program(), "the copy")
    ckpt.finish()
    assert copy.wait() == 7, copy.error_text


# Nothing of ours stays in the machine's packet filter.
def test_lock_of_connections_goes(ckpt):
    job = run(ckpt, WORK["connection"])
    for step in ("criu", "record"):
        ckpt.dump_process(job.pid, "img", env={"CKPT_TEST_STOP_AT": step})
    c = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)  # NETLINK_NETFILTER
    get_tables = (20).to_bytes(4, "little") + (0xa01).to_bytes(2, "little") + (0x301).to_bytes(2, "little")
    c.send(get_tables + bytes(8) + bytes([1, 0, 0, 0]))
    c.settimeout(10)
    assert b"ckpt-" not in c.recv(1 << 16)
    ckpt.finish()
    assert job.wait() == 7, job.error_text


REFUSED = {
    "not-accepted": ("l = tcp(); c = S.create_connection(l.getsockname()); wait(); talk(c, l.accept()[0])",
                     "has not accepted 1 connection yet"),
    "unix-not-accepted": ("l = S.socket(S.AF_UNIX); l.bind('u'); l.listen(5); c = S.socket(S.AF_UNIX); c.connect('u')\n"
                          "c.sendall(b'x'); wait()", "was not accepted yet"),
    "mptcp": ("a = S.socket(S.AF_INET, S.SOCK_STREAM, 262); wait()", "Multipath TCP"),
    "vsock": ("a = S.socket(S.AF_VSOCK, S.SOCK_STREAM); wait()", "family vsock"),
    "message-queue": ("c = ctypes.CDLL('librt.so.1'); q = c.mq_open(b'/ckpt-%d' % os.getpid(), 0o102, 0o600, None)\n"
                      "assert q >= 0; c.mq_unlink(b'/ckpt-%d' % os.getpid()); wait()", "POSIX message queue"),
    "secret-memory": ("f = ctypes.CDLL(None).syscall(447, 0)\n"
                      "if f < 0: print('impossible', flush=True)\n"
                      "wait()", "secret memory"),
    "pid-namespace": ("if len(sys.argv) == 1: os.system('unshare --pid --fork sh -c \"echo ready; sleep 1000\"')",
                      "PID namespace"),
    "time-namespace": ("os.system('unshare --time --monotonic 100 --fork sh -c \"echo ready; sleep 1000\"')",
                       "time namespace"),
    "user-namespace": ("os.system('unshare --user --map-root-user sh -c \"echo ready; sleep 1000\"')", "user namespace"),
    "cgroup-namespace": ("os.system('unshare --cgroup sh -c \"echo ready; sleep 1000\"')", "cgroup namespace"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(ckpt, case):
    body, word = REFUSED[case]
    job = ckpt.run("/usr/bin/python3", "-c", HEAD + body + "\n")
    wait_for(lambda: "ready" in job.text or job.process.poll() is not None, "the program")
    if "ready" not in job.text or "impossible" in job.text:
        pytest.skip(f"impossible on this kernel: {job.error_text}")
    error = ckpt.dump_refused(job.pid, "img")
    assert word in error, error
    assert job.process.poll() is None
    if case != "unix-not-accepted":
        assert "the program was not touched" in error


def test_vfork_without_exec_is_refused(ckpt):
    source = ckpt.folder / "vfork.c"
    source.write_text("#include <stdio.h>\n#include <unistd.h>\n"
                      "int main() { puts(\"ready\"); fflush(stdout);\n"
                      "  if (vfork() == 0) { while (access(\"finish\", 0)) usleep(20000); _exit(0); } return 7; }\n")
    subprocess.run(["cc", "-w", str(source), "-o", str(ckpt.folder / "vfork")], check=True)
    job = ckpt.run("./vfork")
    job.wait_text("ready")
    assert "until its child calls exec" in ckpt.dump_refused(job.pid, "img")
    ckpt.finish()
    assert job.wait() == 7


def test_shared_system_v_memory_is_refused(ckpt):
    job = run(ckpt, WORK["sysv-memory"], options=["--share-ipc"])
    assert "--share-ipc" in ckpt.dump_refused(job.pid, "img")
    ckpt.finish()
    assert job.wait() == 7, job.error_text


# The message names the process, the descriptor and the other end.
def test_connection_out_of_the_program_is_refused(ckpt):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        job = run(ckpt, f"c = S.create_connection(('127.0.0.1', {port})); print('fd', c.fileno()); wait()")
        connection = server.accept()[0]
        error = ckpt.dump_refused(job.pid, "img")
        fd = job.lines[0].split()[1]
        assert f"descriptor {fd} is a TCP connection to 127.0.0.1 port {port} of process {os.getpid()}" in error
        connection.close()
    ckpt.finish()
    assert job.wait() == 7, job.error_text


def test_restore_says_that_a_port_is_taken(ckpt):
    job = run(ckpt, "l = tcp(); print('port', l.getsockname()[1]); a, b = pair(); wait()")
    ckpt.dump(job.pid, "img")
    assert job.wait() == 85
    port = int(job.lines[0].split()[1])
    ckpt.finish()
    with socket.create_server(("127.0.0.1", port)):
        copy = ckpt.restore("img")
        assert copy.wait() == 1
        assert f"TCP 127.0.0.1 port {port}" in copy.error_text and "nothing was started" in copy.error_text
    # The copy of a restore that was killed has the port until it has ended.
    server = socket.create_server(("127.0.0.1", port))
    copy = ckpt.restore("img")
    time.sleep(0.5)  # no condition: the check of the port cannot be seen
    server.close()
    assert copy.wait() == 7, copy.error_text


def test_restore_beside_the_original_is_refused(ckpt):
    job = run(ckpt, WORK["connection"])
    ckpt.dump(job.pid, "img", "--leave-running")
    copy = ckpt.restore("img")
    assert copy.wait() == 1
    assert "TCP connection from 127.0.0.1" in copy.error_text
    ckpt.finish()
    assert job.wait() == 7, job.error_text


UNREAD = """
import socket as S, time
udp, raw, named, to = S.socket(type=S.SOCK_DGRAM), S.socket(S.AF_INET, S.SOCK_RAW, 253), \\
    S.socket(S.AF_UNIX, S.SOCK_DGRAM), S.socket(S.AF_UNIX, S.SOCK_DGRAM)
pair = S.socketpair(S.AF_UNIX, S.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0)), named.bind("from"), to.bind("to")
print("nothing", flush=True)
input()
packet = S.socket(S.AF_PACKET, S.SOCK_DGRAM, S.htons(3))
S.socket(type=S.SOCK_DGRAM).sendto(b"", udp.getsockname()), raw.sendto(b"raw", ("127.0.0.1", 0)), pair[0].send(b"between")
for sender, text in (S.socket(S.AF_UNIX, S.SOCK_DGRAM), b"without a name"), (named, 5000 * b"x"), (named, b""):
    sender.sendto(text, "to")
print("sent", *[s.fileno() for s in (udp, raw, packet, to)], flush=True)
input()
packet.close(), udp.recv(9), raw.recv(99), pair[1].recv(9)
print("read", *[len(to.recv(9999)) for _ in range(3)], flush=True)
time.sleep(1000)
"""


def test_unread_datagrams_are_named_in_the_remarks_of_a_dump(ckpt):
    """Those of UDP, raw and packet sockets, which are lost, and those of UNIX sockets, whose senders are."""
    job = ckpt.run("/usr/bin/python3", "-c", UNREAD, stdout="tty")

    def remarks():
        r = subprocess.run([ckpt.tool("ckpt-dump"), "--check", "--json", str(job.pid)], env=ckpt.env, capture_output=True, text=True)
        said = ckpt.dump(job.pid, "image", "--leave-running", "--overwrite")["remarks"]
        assert json.loads(r.stdout)["remarks"] == [s for s in said if "senders" not in s]
        return [(match[1], match[2]) for s in said if (match := re.search(r"descriptor (\d+) \(([^)]*)\) has unread datagrams", s))]

    job.wait_text("nothing")
    assert remarks() == []
    job.type("\n")
    job.wait_text("sent")
    udp, raw, packet, to = re.search(r"sent (\d+) (\d+) (\d+) (\d+)", job.text).groups()
    assert sorted(remarks()) == sorted([(udp, "UDP"), (raw, "raw"), (packet, "packet"), (to, "a UNIX socket")])
    job.type("\n")
    job.wait_text("read 14 5000 0")  # the messages are still there, in their order
    assert remarks() == []
