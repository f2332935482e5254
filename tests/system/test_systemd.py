# SPDX-License-Identifier: Apache-2.0
"""The units as systemd parses them, and ckptd under a systemd of its own."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from toolkit import WHY_NOT

UNIT = BUILD / "manager" / "ckptd.service"
SYSTEMD = "/lib/systemd/systemd"

pytestmark = [pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd"),
              pytest.mark.skipif(not UNIT.exists(), reason="ckptd is not built")]


def unit(*more):
    """The unit for the ckptd of the build folder, with more lines in [Service]."""
    text = re.sub(r"ExecStart=\S*ckptd", f"ExecStart={BUILD}/tools/ckptd", UNIT.read_text())
    return text.replace("[Service]\n", "\n".join(["[Service]", *more, ""]))


def test_the_unit_is_valid(tmp_path):
    (tmp_path / "ckptd.service").write_text(unit())
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "ckptd.service"], capture_output=True,
                       text=True, timeout=60)
    said = [line for line in (r.stdout + r.stderr).splitlines() if "ckptd" in line]
    assert r.returncode == 0 and said == []


@pytest.mark.parametrize("tool", ["ckpt-devd", "ckpt-idled", "ckpt-schedd"])
def test_the_units_of_other_daemons_are_valid(tmp_path, tool):
    text = (BUILD / "tools" / f"{tool}.service").read_text()
    (tmp_path / f"{tool}.service").write_text(re.sub(rf"(ExecSt\w+)=\S*{tool}", rf"\1={BUILD}/tools/{tool}", text))
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / f"{tool}.service"], capture_output=True,
                       text=True, timeout=60)
    said = [line for line in (r.stdout + r.stderr).splitlines() if tool in line]
    assert r.returncode == 0 and said == [], said


# On an overlay of this machine's files, without its devices: a managed program runs while ckptd is
# killed, restarted and stopped.
TRY = """#!/bin/bash
exec 2>&1
said() { for i in $(seq 300); do grep -q "$1" a.out && return; sleep 0.1; done; echo "not said: $1"; cat a.out; }
top() { for i in $(seq 100); do out=$($T/ckpt-top --once 2>&1) && grep -q tenant <<<"$out" && break; sleep 0.1; done
  tail -1 <<<"$out" | tr -s ' ' | cut -d' ' -f 4-6; }
touch a-2 a-end
$T/ckpt-run --managed -- $PROGRAM a 100 50 >a.out 2>&1 &
said "have 100"
top
kill -9 "$(systemctl show -p MainPID --value ckptd)"
rm a-2
said "have 50"
top
systemctl show -p NRestarts ckptd
systemctl restart ckptd
top
rm a-end
wait $!
echo "$? $(tail -1 a.out)"
systemctl stop ckptd
ls /run/ckptd.sock
"""

PID_1 = """set -eu
mount -t tmpfs tmpfs {d}
mkdir {d}/up {d}/work {d}/root
mount -t overlay overlay -o lowerdir=/,upperdir={d}/up,workdir={d}/work {d}/root
cd {d}/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
for n in null zero full random urandom; do touch dev/$n; mount --bind /dev/$n dev/$n; done
ln -s /proc/self/fd dev/fd
mkdir dev/shm out try
mount --bind {out} out
cp {program} try/tenant
cp {out}/*.service etc/systemd/system
cp {out}/try try
export container=lxc
exec chroot . {systemd} --system --unit=try.service --show-status=no --log-level=warning
"""


@pytest.mark.full
@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
@pytest.mark.skipif(not RUN.exists(), reason="the software device is not built")
@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(SYSTEMD), reason="needs root and systemd")
def test_under_a_systemd_of_its_own(make, tmp_path):  # noqa: F811
    program = make("tenant.cu")
    folder, out = tmp_path / "node", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    node = "Environment=CKPT_SOFTCUDA=1x256M CKPT_SOFTCUDA_CONTEXT=10 CKPT_RUNTIME_DIR=/tmp CUDA_MODULE_LOADING=LAZY"
    service = unit(node).replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n")
    (out / "ckptd.service").write_text(service)
    (out / "try").write_text(TRY)
    (out / "try.service").write_text(f"""[Unit]
DefaultDependencies=no
Wants=ckptd.service
After=ckptd.service
[Service]
Type=oneshot
{node} CKPTD_SOCKET=/run/ckptd.sock T={BUILD}/tools PROGRAM=/try/tenant
WorkingDirectory=/try
ExecStart=/bin/bash /try/try
ExecStopPost=/usr/bin/systemctl --force --force poweroff
StandardOutput=append:/out/said
StandardError=append:/out/said
TimeoutStartSec=90
""")
    script = PID_1.format(d=folder, out=out, program=program, systemd=SYSTEMD)
    command = ["unshare", "--fork", "--pid", "--mount", "--cgroup", "--uts", "--ipc", "--kill-child", "--propagation",
               "private", "bash", "-c", script]
    r = subprocess.run(command, capture_output=True, text=True, timeout=150)
    if not (out / "said").exists():
        pytest.skip(f"no systemd could be started here: {r.stderr[-300:]}")
    said = (out / "said").read_text().splitlines()
    assert said[:6] == ["running 0 100", "running 0 150", "NRestarts=1", "running 0 150", "0 PASSED",
                        "ls: cannot access '/run/ckptd.sock': No such file or directory"]
