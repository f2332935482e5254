# SPDX-License-Identifier: Apache-2.0
"""What no image can hold, and what a program closes before a checkpoint by a callback (ckpt_on_checkpoint):
connections that lead out of it, adapters of networks past the kernel."""
import contextlib
import fcntl
import os
import pathlib
import socket
import subprocess
import threading

import pytest

from conftest import BUILD
from nodes import NETWORK, Nodes, wait_members

pytestmark = pytest.mark.skipif(not (BUILD / "libckpt" / "libckpt.so").exists(), reason="libckpt.so is not built")

ADAPTERS = pathlib.Path("/dev/infiniband")


@pytest.fixture
def port():
    """A server outside of every program, which reads what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connections.append(connection)
                    threading.Thread(target=read, args=(connection,), daemon=True).start()

        def read(connection):
            with contextlib.suppress(OSError):
                while connection.recv(100):
                    pass
                connection.close()

        connections = []
        threading.Thread(target=serve, daemon=True).start()
        yield str(server.getsockname()[1])


@pytest.fixture
def adapter(tmp_path_factory):
    """A device with the name of an RDMA adapter's; here it is the kernel's for files in user space. Workers share /dev,
    and removing a folder ends what is mounted there in any mount namespace, so one has it at a time."""
    with open(tmp_path_factory.getbasetemp().parent / "adapter.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = not ADAPTERS.exists()
        ADAPTERS.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "dev", "adapters", str(ADAPTERS)], check=True)
        path = ADAPTERS / "uverbs0"
        os.mknod(path, 0o20666, os.makedev(10, 229))
        yield str(path)
        subprocess.run(["umount", "--lazy", str(ADAPTERS)], check=True)
        if made:
            ADAPTERS.rmdir()


def test_connection_that_a_callback_closes(ckpt, port):
    job = ckpt.run("closes", "connect", "127.0.0.1", port)
    job.wait_text("open 1")
    ckpt.dump(job.pid, "one", "--leave-running")
    job.wait_text("open 2")
    ckpt.dump(job.pid, "two")
    assert job.wait() == 85
    copy = ckpt.restore("two")
    copy.wait_text("open 3")
    ckpt.finish()
    assert copy.wait() == 7


def test_connection_that_a_callback_leaves_open(ckpt, port):
    job = ckpt.run("closes", "connect", "127.0.0.1", port)
    job.wait_text("open 1")
    (ckpt.folder / "keep").touch()
    error = ckpt.dump_refused(job.pid, "one")
    assert "the callbacks of the program have left open" in error, error
    assert f"(closes): descriptor 3 is a TCP connection to 127.0.0.1 port {port}" in error, error
    (ckpt.folder / "keep").unlink()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85


def test_adapter_that_a_callback_closes(ckpt, adapter):
    job = ckpt.run("closes", "open", adapter)
    job.wait_text("open 1")
    ckpt.dump(job.pid, "one", "--leave-running")
    job.wait_text("open 2")
    (ckpt.folder / "keep").touch()
    error = ckpt.dump_refused(job.pid, "two")
    assert f"uses RDMA ({adapter})" in error and "have left open" in error, error


def test_library_that_uses_an_adapter_is_named(ckpt, adapter, port):
    """Without callbacks: nothing is touched."""
    library = ckpt.folder / "libnccl.so.2"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    script = (f"import ctypes, time; ctypes.CDLL({str(library)!r}); f = open({adapter!r}, 'r+b', buffering=0)\n"
              "print('ready', flush=True); time.sleep(1000)")
    job = ckpt.run("/usr/bin/python3", "-c", script)
    job.wait_text("ready")
    error = ckpt.dump_refused(job.pid, "one")
    assert f"(python3) uses RDMA ({adapter}), which holds the state of its connections" in error, error
    assert "(python3) uses NCCL: destroy its communicators (ncclCommDestroy)" in error, error
    assert "was not touched" in error, error


def test_job_in_which_one_program_closes(ckpt):
    """The other one has no callbacks, and sees the end of its connection before packets are stopped."""
    nodes = Nodes(ckpt, 2)
    try:
        closes_in_a_job(ckpt, nodes)
    finally:
        nodes.close()


SERVER = """
import os, socket
server = socket.create_server(("0.0.0.0", 7801))
print("listening", flush=True)
while not os.path.exists("finish"):
    connection, _ = server.accept()
    while connection.recv(100): pass
    connection.close()
"""


def closes_in_a_job(ckpt, nodes):
    # The name of the member that closes comes second, so that the other one is asked first.
    server = nodes[0].start("ckpt-run", "--job=job", "--", "/usr/bin/python3", "-c", SERVER)
    server.wait_text("listening")
    client = nodes[1].start("ckpt-run", "--job=job", "--", ckpt.programs / "closes", "connect", NETWORK + "1", "7801")
    client.wait_text("open 1")
    wait_members(ckpt.folder / "job", ["node1", "node2"])
    r = nodes[0].call("ckpt-dump", "--job=job", "--leave-running")
    assert r.returncode == 0, r.stderr
    client.wait_text("open 2")
    r = nodes[0].call("ckpt-dump", "--job=job")
    assert r.returncode == 0, r.stderr
    assert [j.wait() for j in (server, client)] == [85, 85]
    server = nodes[0].start("ckpt-restore", "--job=job", "--member=node1")
    client = nodes[1].start("ckpt-restore", "--job=job", "--member=node2")
    client.wait_text("open 3")
    ckpt.finish()
    assert client.wait() == 7
    assert server.wait() == 0
