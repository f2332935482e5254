# SPDX-License-Identifier: Apache-2.0
"""Programs to which libc's name service (nsswitch.conf(5)) keeps a connection: ckpt-run says so while they start."""
import subprocess

import pytest

from conftest import wait_for

# The daemon's socket has its name in a file system of its own, so that no folder of the machine is needed.
DAEMON = """mount -t tmpfs tmpfs /run && mkdir -p /run/samba/winbindd && exec /usr/bin/python3 -c '
import socket
s = socket.socket(socket.AF_UNIX)
s.bind("/run/samba/winbindd/pipe")
s.listen()
print("listening", flush=True)
held = [s.accept() for _ in range(9)]'"""
CLIENT = """
import socket, sys, time
s = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for one in s: one.connect(sys.argv[1])
print("connected", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def winbind():
    daemon = subprocess.Popen(["unshare", "--mount", "sh", "-euc", DAEMON], stdout=subprocess.PIPE, text=True)
    if daemon.stdout.readline() != "listening\n":
        pytest.skip("no mount namespace can be made here")
    yield f"/proc/{daemon.pid}/root/run/samba/winbindd/pipe"
    daemon.kill()
    daemon.wait()


@pytest.mark.full
def test_a_connection_to_a_name_service_is_warned_about_at_the_start(ckpt, winbind):
    """Once, with the remedy that a dump names, too."""
    job = ckpt.run("/usr/bin/python3", "-c", CLIENT, winbind)
    job.wait_text("connected")
    wait_for(lambda: "cannot be checkpointed" in job.error_text, "the warning")
    assert f"process {job.program()} (" in job.error_text and "is connected to /run/samba/winbindd/pipe" in job.error_text
    assert "run nscd on this node" in job.error_text
    assert "run nscd on this node" in ckpt.dump_refused(job.pid, "image")
    assert job.error_text.count("cannot be checkpointed") == 1
