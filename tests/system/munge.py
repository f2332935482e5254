# SPDX-License-Identifier: Apache-2.0
"""A munged of the tests, with a key and a socket of its own."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from conftest import wait_for

PATH = os.environ["PATH"] + ":/usr/sbin"
WHY_NOT = None if shutil.which("munged", path=PATH) else "munged is not installed (scripts/setup installs it)"


def prepare(folder, key=None):
    """Writes the key and returns the command. The socket is FOLDER/munge.sock."""
    path = folder / "munge.key"
    path.write_bytes(key or os.urandom(64))
    path.chmod(0o400)
    return ["munged", "--foreground", "--force", f"--socket={folder}/munge.sock",
            *(f"--{o}-file={folder}/munge.{o}" for o in ("key", "pid", "log", "seed"))]


class Munged:
    """socket, key; pause() and resume() stop the daemon and let it run on, end() ends it, close() also removes its folder."""

    def __init__(self, *options, key=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="munge-"))
        self.folder.chmod(0o755)
        self.socket = str(self.folder / "munge.sock")
        command = [*prepare(self.folder, key), *options]
        self.key = (self.folder / "munge.key").read_bytes()
        with open(self.folder / "out", "w") as out:
            self.process = subprocess.Popen(command, env=dict(os.environ, PATH=PATH), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        wait_for((self.folder / "munge.sock").exists, "munged")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.resume()
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
