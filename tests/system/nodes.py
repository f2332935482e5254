# SPDX-License-Identifier: Apache-2.0
"""Nodes on one machine: network, UTS and mount namespaces (each with its own /dev/shm) on one bridge."""
import itertools
import os
import shlex
import subprocess

from conftest import Job, wait_for

NETWORK = "10.66.0."
HEAD = NETWORK + "254"
COUNTER = itertools.count()


class Node:
    """One node. Its address can be given to another one, as when that takes its place.

    start(tool, …)   a tool of ckpt there; returns the Job
    call(…)          a tool there that ends by itself; returns subprocess.CompletedProcess
    """

    def __init__(self, nodes, number):
        self.nodes, self.number = nodes, number
        self.name, self.address = f"node{number}", f"{NETWORK}{number}"
        self.commands = nodes.folder / f"{self.name}.commands"
        os.mkfifo(self.commands)
        # Short, as it becomes a part of the names of sockets.
        temporary = nodes.ckpt.runtime / self.name
        temporary.mkdir()
        self.env = dict(nodes.env, TMPDIR=str(temporary))
        # The shell is the node's sshd: what arrives in the FIFO runs in a session of its own.
        script = (f"hostname {self.name}; ip link set lo up; mount -t tmpfs shm /dev/shm; echo ready; "
                  f"exec 2>>{self.name}.log 3<>{shlex.quote(str(self.commands))}; "
                  "while read -r line <&3; do setsid sh -c \"exec 3<&-; $line\" </dev/null >&2 & done")
        self.shell = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", script], env=self.env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=nodes.folder)
        assert self.shell.stdout.readline() == b"ready\n"
        self.port = f"p{nodes.id}x{number}"
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", str(self.shell.pid))
        run("ip", "link", "set", self.port, "master", nodes.bridge, "up")
        run(*self.inside("ip", "link", "set", "eth0", "up"))

    def inside(self, *command):
        # A working directory that was opened outside belongs to no mount of the node.
        enter = ["nsenter", f"--target={self.shell.pid}", "--net", "--uts", "--mount"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(self.nodes.folder), *[str(c) for c in command]]

    def take_address(self, number):
        run(*self.inside("ip", "addr", "add", f"{NETWORK}{number}/24", "dev", "eth0"))

    def drop_address(self, number):
        run(*self.inside("ip", "addr", "del", f"{NETWORK}{number}/24", "dev", "eth0"))

    def plug(self, state):
        """"down": no packet leaves or reaches the node any more, until "up"."""
        run("ip", "link", "set", self.port, state)

    def choose_ports(self, first, last):
        """The kernel chooses a port from these for a socket that is not bound to one (ip(7))."""
        run(*self.inside("sh", "-c", f"echo {first} {last} >/proc/sys/net/ipv4/ip_local_port_range"))

    def start(self, tool, *arguments, env=None):
        ckpt = self.nodes.ckpt
        job = Job(self.inside(ckpt.tool(tool), *arguments), env=dict(self.env, **(env or {})), cwd=ckpt.folder)
        ckpt.jobs.append(job)
        return job

    def call(self, tool, *arguments, env=None):
        ckpt = self.nodes.ckpt
        return subprocess.run(self.inside(ckpt.tool(tool), *arguments), env=dict(self.env, **(env or {})),
                              cwd=ckpt.folder, capture_output=True, text=True, timeout=120)


class Nodes:
    """`count` nodes; node N has the address 10.66.0.N."""

    def __init__(self, ckpt, count, env=None):
        # The kernel removes links some time after their namespace, so no name comes twice.
        self.ckpt, self.id = ckpt, f"{os.getpid() % 100000}x{next(COUNTER)}"
        self.env = dict(ckpt.env, **(env or {}))
        self.folder = ckpt.folder
        self.bridge = f"br{self.id}"
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        self.all = []
        for n in range(1, count + 1):
            self.all.append(Node(self, n))
            self.all[-1].take_address(n)

    def __getitem__(self, i):
        return self.all[i]

    def head(self):
        """Puts this process's namespace on the network, too. Returns its address."""
        run("ip", "addr", "add", f"{HEAD}/24", "dev", self.bridge)
        return HEAD

    def name(self):
        """Lets the nodes find each other by their names."""
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{n.address} {n.name}\n" for n in self.all))
        for node in self.all:
            run(*node.inside("mount", "--bind", hosts, "/etc/hosts"))

    def close(self):
        for node in self.all:
            subprocess.run(["pkill", "-KILL", "--parent", str(node.shell.pid)], check=False)
            node.shell.kill()
            node.shell.wait()
        # The namespaces, and with them the other links, end with their last process.
        run("ip", "link", "del", self.bridge)

    def launcher(self, tools_before):
        """An rsh agent: HOST COMMAND… It breaks the process tree, as ssh does."""
        script = self.folder / "launcher"
        script.write_text(f"""#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=${{1##*.}}; shift
echo "{tools_before.replace('HOST', '$host')} $*" >{self.folder}/node$host.commands
""")
        script.chmod(0o755)
        return script


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    assert r.returncode == 0, f"{command}: {r.stderr}"


def wait_members(job_folder, names):
    """Until exactly these members of the job are registered."""
    def registered():
        try:
            return {n for n in os.listdir(job_folder / "members") if not n.startswith(".")} == set(names)
        except OSError:
            return False

    wait_for(registered, f"the members {names}")
