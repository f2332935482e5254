# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on this machine: one slurmctld, two slurmd, a munged of their own, all on loopback."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from conftest import wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol")
WHY_NOT = next((f"{p} is not installed (scripts/setup installs it)" for p in PROGRAMS
                if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin")), None)

# High jobs displace low ones, which are queued again. A job that returns 85 is queued again too, and one
# that returns 86 is held (slurm.conf(5)).
CONFIGURATION = """
ClusterName=ckpt
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SlurmctldParameters=preempt_send_user_signal
RequeueExit=85
RequeueExitHold=86
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=500
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=500
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 GraceTime=60 PreemptMode=REQUEUE
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF
"""


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    """submit(script, options…)  sbatch; returns the job's number
    state(job)                    "RUNNING", "PENDING", "COMPLETED", …
    field(job, name)              a field of `scontrol show job`"""

    def __init__(self, env):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        self.configuration = self.folder / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(folder=self.folder, user="root", ports=free_ports(3)))
        self.env = dict(env, SLURM_CONF=str(self.configuration), PATH=env["PATH"] + ":/usr/sbin")
        self.daemons = []
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        self._start("munged", "--foreground", "--force", *(f"--{o}-file={self.folder}/munge.{o}" for o in ("key", "pid", "log", "seed")),
                    f"--socket={self.folder}/munge.sock")
        wait_for((self.folder / "munge.sock").exists, "munged")
        self._start("slurmctld", "-D", "-c", "-f", self.configuration)
        for node in ("n1", "n2"):
            self._start("slurmd", "-D", "-N", node, "-f", self.configuration)
        wait_for(lambda: self._run("sinfo", "-h", "-N", "-o", "%t").stdout.split() == ["idle"] * 4, "two idle nodes")

    def _start(self, *command):
        self.daemons.append(subprocess.Popen([str(c) for c in command], env=self.env, stdin=subprocess.DEVNULL,
                                             stdout=open(self.folder / f"{command[0]}.out", "a"), stderr=subprocess.STDOUT))

    def _run(self, *command):
        return subprocess.run([str(c) for c in command], env=self.env, capture_output=True, text=True)

    def control(self, *words):
        r = self._run("scontrol", *words)
        assert r.returncode == 0, r.stdout + r.stderr

    def submit(self, folder, script, *options):
        r = subprocess.run(["sbatch", "--parsable", *options], input=f"#!/bin/sh\n{script}\n", env=self.env, cwd=folder,
                           capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return int(r.stdout)

    def signal(self, job, name):
        assert self._run("scancel", f"--signal={name}", job).returncode == 0

    def field(self, job, name):
        words = self._run("scontrol", "show", "job", job).stdout.split()
        return next((w.partition("=")[2] for w in words if w.startswith(name + "=")), "")

    def state(self, job):
        return self.field(job, "JobState")

    def close(self):
        self._run("scancel", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
