# SPDX-License-Identifier: Apache-2.0
"""A slurmdbd and a MariaDB of the tests, for what Slurm knows only with accounting: accounts and operators."""
import os
import shutil
import socket
import subprocess

from conftest import wait_for

PATH = os.environ["PATH"] + ":/usr/sbin"
WHY_NOT = next((f"{p} is not installed (scripts/setup --full installs it)" for p in ("slurmdbd", "mariadbd", "mariadb-install-db")
                if not shutil.which(p, path=PATH)), None)

# The database has a socket only, in a folder that belongs to root, and asks for no password.
CONFIGURATION = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
"""


class Accounting:
    """lines()            what slurm.conf needs
    start(start, env)  the daemons, by start(name, command…)
    add_user(name, more…)  an account of this user's, with further words of sacctmgr
    close()            when the daemons have ended"""

    def __init__(self, folder, prefix=None):
        """prefix: that of the Slurm (slurm.py)."""
        self.folder, self.prefix, self.added = folder, prefix, False
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]

    def lines(self):
        return ["AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=localhost",
                f"AccountingStoragePort={self.port}", f"AccountingStoragePass={self.folder}/munge.sock"]

    def start(self, start, env):
        # slurmdbd looks for its own address with AI_ADDRCONFIG, which ignores the addresses of the loopback interface.
        # The network namespace of a test has no others. It cannot keep one, because Open MPI then finds no interface.
        shown = subprocess.run(["ip", "-o", "address", "show", "scope", "global"], capture_output=True, text=True).stdout
        self.added = not shown
        self._address("add")
        database = self.folder / "database"
        database.mkdir(mode=0o700)
        own = [f"--datadir={database}/data", f"--socket={database}/socket", "--user=root"]
        subprocess.run(["mariadb-install-db", "--no-defaults", *own[::2], "--auth-root-authentication-method=normal"],
                       env=dict(env, PATH=PATH), check=True, capture_output=True)
        start("mariadbd", "mariadbd", "--no-defaults", *own, f"--pid-file={database}/pid", "--skip-networking")
        wait_for((database / "socket").exists, "MariaDB")
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(CONFIGURATION.format(folder=self.folder, port=self.port) +
                        (f"PluginDir={self.prefix}/plugins\n" if self.prefix else ""))
        conf.chmod(0o600)
        env["MYSQL_UNIX_PORT"] = str(database / "socket")
        start("slurmdbd", "slurmdbd", "-D")
        self.env = env
        wait_for(lambda: self._ask("-n", "show", "cluster").returncode == 0, f"slurmdbd: {self.said()}")
        self._change("add", "cluster", "ckpt")
        self._change("add", "account", "test", "cluster=ckpt")

    def add_user(self, name, *more):
        self._change("add", "user", name, "account=test", "cluster=ckpt", *more)

    def close(self):
        self._address("del")

    def _address(self, change):
        if self.added:
            subprocess.run(["ip", "address", change, "192.0.2.1/32", "dev", "lo"], check=True)

    def _ask(self, *words):
        return subprocess.run(["sacctmgr", *words], env=self.env, capture_output=True, text=True)

    def _change(self, *words):
        r = self._ask("-i", *words)
        assert r.returncode == 0, r.stdout + r.stderr

    def said(self):
        log = self.folder / "slurmdbd.log"
        return log.read_text()[-500:] if log.exists() else "nothing"
