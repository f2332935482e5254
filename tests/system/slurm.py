# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on this machine: slurmctld, a slurmd for each node and a munged of their own. All are on loopback, or
each node is a namespace of nodes.py. With accounting there is a slurmdbd, too (accounting.py).

CKPT_TEST_SLURM=PREFIX: all tests use the Slurm that scripts/get-slurm has put there.

The daemons are root's. The jobs are of an ordinary user, whose CRIU runs by ckpt-helper, or root's."""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import munge
from accounting import Accounting
from conftest import BUILD, ROOT, tree_of, wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol")
WHY_NOT = next((f"{p} is not installed (scripts/setup installs it)" for p in PROGRAMS
                if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin")), None)

PLUGIN = BUILD / "slurm" / "spank_ckpt.so"
# A newer version, for tests that run with both.
NEWER = pathlib.Path(os.environ.get("CKPT_SLURM_PREFIX", "/opt/ckpt/slurm-24.11"))
WHY_NOT_NEWER = None if (NEWER / "bin" / "slurmctld").exists() else f"{NEWER} is missing (scripts/setup --full makes it)"
USUAL = pathlib.Path(os.environ["CKPT_TEST_SLURM"]) if "CKPT_TEST_SLURM" in os.environ else None

# A user whose account is in every /etc/passwd: Slurm looks the account up.
ORDINARY = "nobody"

# EnableIPv6: without it, Slurm does not start where the loopback interface is the only one, as glibc then knows
# no IPv4 address (AI_ADDRCONFIG). High jobs displace low ones, which are queued again. A job that returns 85 is
# queued again too, and one that returns 86 is held (slurm.conf(5)).
CONFIGURATION = """
ClusterName=ckpt
SlurmctldHost={head}
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
CommunicationParameters=EnableIPv6
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SlurmctldParameters=preempt_send_user_signal
RequeueExit=85
RequeueExitHold=86
SchedulerParameters=sched_interval=1,bf_interval=1
PlugStackConfig={folder}/plugstack.conf
{more}
SlurmdTimeout={node_timeout}
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace_time} PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=2 RealMemory=500 {more}"


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    """submit(script, options…)   sbatch as the jobs' user in their folder; returns the job's number
    run(command…)              any command of Slurm, as that user
    control(words…)            scontrol as the administrator
    state(job)                 "RUNNING", "PENDING", "COMPLETED", …
    field(job, name)           a field of `scontrol show job`
    kill_node(name)            a node fails: its slurmd and all processes of its jobs are gone"""

    def __init__(self, env, nodes=("n1", "n2"), user="root", node_timeout=300, grace_time=60, features=None, lua=None,
                 hosts=None, prefix=USUAL, accounting=False, gres=None, more_lines=()):
        """hosts: a Nodes with the nodes of the cluster. The controller is beside them, on the same bridge.
        prefix: the Slurm of scripts/get-slurm, instead of the system's. gres: how many GPUs each node has.
        more_lines: of slurm.conf."""
        self.prefix = prefix
        self.nodes_of = hosts
        self.hosts = {n.name: n for n in hosts.all} if hosts else {}
        nodes = tuple(self.hosts) or nodes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        self.user = pwd.getpwnam(user)
        self.nodes = {name: port for name, port in zip(nodes, free_ports(len(nodes)))}
        lines = [NODE.format(name=n, port=p, host=n if hosts else "localhost",
                             address=self.hosts[n].address if hosts else "127.0.0.1",
                             more=" ".join([*([f"Features={features[n]}"] if features else []), *([f"Gres=gpu:{gres[n]}"] if n in (gres or ()) else [])]))
                 for n, p in self.nodes.items()]
        self.env = dict(env, SLURM_CONF=str(self.folder / "slurm.conf"), PATH=env["PATH"] + ":/usr/sbin")
        self.accounting = Accounting(self.folder, prefix) if accounting else None
        more = [*more_lines, *(["JobSubmitPlugins=lua"] if lua else [])]
        more += self.accounting.lines() if accounting else []
        more += self._fake_gpus(gres) if gres else []
        if prefix:
            more.append(f"PluginDir={prefix}/plugins")
            self.env["PATH"] = f"{prefix}/bin:{self.env['PATH']}"
        self.configuration = self.folder / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(folder=self.folder, user="root", ports=free_ports(1), nodes="\n".join(lines),
                                                           head=f"{socket.gethostname()}({hosts.head()})" if hosts else "localhost",
                                                           node_timeout=node_timeout, grace_time=grace_time, more="\n".join(more)))
        if lua:
            (self.folder / "job_submit.lua").write_text(lua)
        plugin = self._plugin()
        (self.folder / "plugstack.conf").write_text(f"required {plugin}\n" if plugin.exists() else "")
        self.jobs = self.folder / "jobs"
        for name in ("state", "jobs", *(f"spool.{n}" for n in nodes)):
            (self.folder / name).mkdir(mode=0o755)
        os.chown(self.jobs, self.user.pw_uid, self.user.pw_gid)
        self.daemons = {}
        try:
            self._start_daemons()
        except BaseException:
            self._end_daemons()
            raise

    def _plugin(self):
        """It fits the version whose header it was compiled with."""
        if not self.prefix:
            return PLUGIN
        plugin = self.folder / "spank_ckpt.so"
        subprocess.run(["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{self.prefix}/usr/include", "-o", plugin,
                        ROOT / "slurm" / "spank_ckpt.c"], check=True)
        return plugin

    def _fake_gpus(self, gres):
        """Slurm accepts character devices only."""
        lines = []
        for node, count in gres.items():
            for i in range(count):
                os.mknod(self.folder / f"{node}gpu{i}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            lines.append(f"NodeName={node} Name=gpu File={self.folder}/{node}gpu[0-{count - 1}]")
        (self.folder / "gres.conf").write_text("\n".join(lines) + "\n")
        return ["GresTypes=gpu"]

    def _start_daemons(self):
        self._start("munged", *munge.prepare(self.folder))
        wait_for((self.folder / "munge.sock").exists, "munged")
        if self.accounting:
            self.accounting.start(self._start, self.env)
            if self.user.pw_uid != 0:
                self.accounting.add_user(self.user.pw_name)
        if self.user.pw_uid != 0:
            self._start("ckpt-helper", BUILD / "helper" / "ckpt-helper", "--socket", self.folder / "helper.sock",
                        "--folder", self.folder / "helper")
            self.env["CKPT_HELPER"] = str(self.folder / "helper.sock")
            wait_for((self.folder / "helper.sock").exists, "ckpt-helper")
        self._start("slurmctld", "slurmctld", "-D", "-c", "-f", self.configuration)
        for node in self.nodes:
            self.start_node(node)
        wait_for(lambda: all(self.node_state(n) == "idle" for n in self.nodes), f"idle nodes: {self.logs()}")

    def _start(self, name, *command):
        self.daemons[name] = subprocess.Popen([str(c) for c in command], env=self.env, stdin=subprocess.DEVNULL,
                                              stdout=open(self.folder / f"{name}.out", "a"), stderr=subprocess.STDOUT)

    def start_node(self, node):
        if self.hosts:
            self.hosts[node].plug("up")
        stepd = ("-d", self.prefix / "bin" / "slurmstepd") if self.prefix else ()
        slurmd = ("slurmd", "-D", "-N", node, "-f", self.configuration, *stepd)
        self._start(node, *(self.hosts[node].inside(*slurmd) if self.hosts else slurmd))

    def logs(self):
        return "\n".join(f"{p.name}: {p.read_text()[-300:]}" for p in self.folder.glob("*.log"))

    def node_state(self, node):
        return subprocess.run(["sinfo", "-h", "-n", node, "-p", "low", "-o", "%t"], env=self.env, capture_output=True,
                              text=True).stdout.strip()

    def run(self, *command, **more):
        u = self.user
        return subprocess.run([str(c) for c in command], env=self.env, cwd=self.jobs, capture_output=True, text=True,
                              user=u.pw_uid, group=u.pw_gid, extra_groups=[], **more)

    def control(self, *words):
        r = subprocess.run(["scontrol", *map(str, words)], env=self.env, capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr

    def submit(self, script, *options):
        r = self.run("sbatch", "--parsable", *options, input=script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        assert r.returncode == 0, r.stderr
        return int(r.stdout)

    def signal(self, job, name):
        r = self.run("scancel", "--batch", f"--signal={name}", job)
        assert r.returncode == 0, r.stderr

    def field(self, job, name):
        words = self.run("scontrol", "show", "job", job).stdout.split()
        return next((w.partition("=")[2] for w in words if w.startswith(name + "=")), "")

    def state(self, job):
        return self.field(job, "JobState")

    def kill_node(self, node):
        """Its slurmd first, so that it reports nothing."""
        slurmd = self.daemons.pop(node)
        steps = self._steps_on(node)
        if self.hosts:
            self.hosts[node].plug("down")
        slurmd.kill()
        slurmd.wait()
        for pid in [*steps, *(p for s in steps for p in tree_of(s))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _steps_on(self, node):
        """The slurmstepd of each batch script that runs there."""
        wanted = [f"SLURMD_NODENAME={node}", f"SLURM_CONF={self.configuration}"]
        steps = set()
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = int((p / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if set(wanted) <= set((p / "environ").read_text().split("\0")) and \
                        pathlib.Path(f"/proc/{parent}/comm").read_text().strip() == "slurmstepd":
                    steps.add(parent)
        return sorted(steps)

    def close(self):
        subprocess.run(["scancel", f"--user={self.user.pw_name}"], env=self.env, capture_output=True)
        subprocess.run(["scancel", "--state=RUNNING", "--signal=KILL", "--full", f"--user={self.user.pw_name}"], env=self.env,
                       capture_output=True)
        wait_for(lambda: not subprocess.run(["squeue", "-h"], env=self.env, capture_output=True, text=True).stdout, "the end of all jobs")
        self._end_daemons()

    def _end_daemons(self):
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        if self.accounting:
            self.accounting.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class BatchJob:
    """A job that was submitted with this script. Its output is in the file `out`, with the option --output=out."""

    def __init__(self, cluster, script, *options):
        self.cluster = cluster
        self.number = cluster.submit(script, *options)

    @property
    def state(self):
        return self.cluster.state(self.number)

    @property
    def restarts(self):
        return int(self.cluster.field(self.number, "Restarts") or 0)

    @property
    def node(self):
        return self.cluster.field(self.number, "BatchHost")

    @property
    def output(self):
        path = self.cluster.jobs / "out"
        return path.read_text() if path.exists() else ""

    def has_ended(self):
        return self.state in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")

    def described(self):
        return f"{self.state} {self.output[-600:]}"

    def stops(self):
        """A job that returned 86 is held, in the state SPECIAL_EXIT."""
        wait_for(lambda: self.state in ("PENDING", "SPECIAL_EXIT") or self.has_ended(), "the job to leave its node")
        assert not self.has_ended(), self.described()
