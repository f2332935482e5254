# SPDX-License-Identifier: Apache-2.0
"""ckpt-run: to other processes it looks like the program that it runs."""
import os
import pty
import select
import shutil
import signal
import subprocess
import time

import pytest

from conftest import wait_for


def shell(ckpt, script, **kw):
    return subprocess.run([ckpt.tool("ckpt-run"), "sh", "-c", script], env=ckpt.env, cwd=ckpt.folder, text=True,
                          capture_output=True, timeout=60, **kw)


def test_arguments_and_folder(ckpt):
    r = subprocess.run([ckpt.tool("ckpt-run"), "sh", "-c", 'pwd; printf "[%s]" "$0" "$@"', "--device", "a b", "--", "", "-x"],
                       env=ckpt.env, cwd=ckpt.folder, text=True, capture_output=True)
    assert r.stdout == f"{ckpt.folder}\n[--device][a b][--][][-x]"
    assert r.stderr == ""


OPENCL = {"OCL_ICD_VENDORS"}
CUDA = {"LD_LIBRARY_PATH", "CKPT_CUDA_DRIVER", "CKPT_CUDA_LIBRARY", "CKPT_CUDA_NOTICE", "CKPT_CUDA_RUNTIMES",
        "CKPT_SOFTCUDA_BROKER"}


def test_environment_of_the_program(ckpt):
    own = shell(ckpt, "env", ).stdout.splitlines()
    added = {line.split("=")[0] for line in own} - set(ckpt.env)
    assert added - {"_", "PWD", "OLDPWD", "SHLVL"} <= {"CKPT_SESSION"} | OPENCL | CUDA
    assert "CKPT_SESSION" in added


def test_other_opencl_drivers_are_removed(ckpt):
    """The Khronos loader also reads a list of driver files from OCL_ICD_FILENAMES."""
    ckpt.env["OCL_ICD_FILENAMES"] = "libpocl.so"
    assert "OCL_ICD_FILENAMES" not in shell(ckpt, "env").stdout


def test_standard_input_is_passed_on(ckpt):
    assert shell(ckpt, "cat", input="a\nb").stdout == "a\nb"


@pytest.mark.parametrize("code", [0, 1, 85, 255])
def test_exit_code(ckpt, code):
    assert shell(ckpt, f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "INT"])
def test_death_by_signal(ckpt, name):
    assert shell(ckpt, f"kill -{name} $$").returncode == -getattr(signal, "SIG" + name)


def test_not_found_and_not_executable(ckpt):
    assert subprocess.run([ckpt.tool("ckpt-run"), "no-such-program"], capture_output=True).returncode == 127
    assert subprocess.run([ckpt.tool("ckpt-run"), "/etc/passwd"], capture_output=True).returncode == 126
    assert subprocess.run([ckpt.tool("ckpt-run")], capture_output=True).returncode == 125


def test_ignored_signals_stay_ignored(ckpt):
    r = subprocess.run(["sh", "-c", f"trap '' HUP INT; {ckpt.tool('ckpt-run')} grep SigIgn /proc/self/status"],
                       env=ckpt.env, text=True, capture_output=True)
    assert int(r.stdout.split()[1], 16) & 0b11 == 0b11


def test_signals_are_forwarded(ckpt):
    job = ckpt.run("signals")
    job.wait_text("ready")
    for name in ("USR1", "USR2", "HUP", "INT"):
        os.kill(job.pid, getattr(signal, "SIG" + name))
        job.wait_text("SIG" + name)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 3


def test_terminal_keys(ckpt):
    """Ctrl-C reaches the program once: from the terminal, and not again from ckpt-run."""
    job = ckpt.run("signals", stdout="tty")
    job.wait_text("ready")
    job.type("\x03")
    job.wait_text("SIGINT")
    job.type("\x1c")
    job.wait_text("SIGQUIT")
    assert job.text.count("SIGINT") == 1
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 3


def test_stops_and_continues_with_its_program(ckpt):
    job = ckpt.run("counter", 100000, stdout="tty")
    job.wait_lines(3)
    job.type("\x1a")  # Ctrl-Z

    def state(pid):
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]

    # The kernel ignores the key in an orphaned process group, and this session has no shell. So stop the
    # program itself.
    os.kill(job.program(), signal.SIGSTOP)
    wait_for(lambda: state(job.pid) == "T", "ckpt-run to stop")
    os.kill(job.pid, signal.SIGCONT)
    wait_for(lambda: state(job.program()) != "T", "the program to continue")
    job.wait_lines(len(job.lines) + 3)


def test_session_folder_is_private_and_removed(ckpt):
    job = ckpt.run("counter", 1000)
    job.wait_lines(2)
    (session,) = ckpt.runtime.iterdir()
    assert session.stat().st_mode & 0o777 == 0o700
    assert (session / "session.sock").stat().st_mode & 0o777 == 0o600
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == -signal.SIGTERM
    assert list(ckpt.runtime.iterdir()) == []


def test_reader_sees_the_end_of_file(ckpt):
    """ckpt-run keeps no end of the program's pipes open."""
    job = ckpt.run("sh", "-c", "exec >&- 2>&-; sleep 100")
    job.readers[0].join(20)
    assert not job.readers[0].is_alive()
    assert job.process.poll() is None


def test_list_devices(ckpt):
    r = subprocess.run([ckpt.tool("ckpt-run"), "--list-devices"], capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout.startswith("index")
    r = subprocess.run([ckpt.tool("ckpt-run"), "--device", "ocl:no-such-thing", "true"], capture_output=True, text=True)
    assert r.returncode == 125 and "no-such-thing" in r.stderr


def images_of(ckpt):
    return sorted(p.name for p in ckpt.folder.glob("ckpt-counter-*.img"))


def test_images_at_intervals(ckpt):
    """--every: the two newest images are kept, and the last one restores the program after a crash."""
    job = ckpt.run("counter", 1000, 7, options=["--every", "1s", "--keep", "2"])
    wait_for(lambda: any(name.endswith("0003.img") for name in images_of(ckpt)), "three images", 60)
    wait_for(lambda: len(images_of(ckpt)) == 2 and not ckpt.partials(), "the first to go", 60)
    job.kill()
    newest = images_of(ckpt)[-1]
    subprocess.run([ckpt.tool("ckpt-image"), "verify", "-q", newest], cwd=ckpt.folder, env=ckpt.env, check=True)
    ckpt.finish()
    copy = ckpt.restore(newest)
    assert copy.wait() == 7
    assert copy.lines[-2] == "999"


def test_images_at_intervals_after_the_parent_was_removed(ckpt):
    job = ckpt.run("counter", 1000, 7, options=["--every", "2s", "--keep", "9"])
    wait_for(lambda: len(images_of(ckpt)) == 1, "the first image", 60)
    for name in images_of(ckpt):
        shutil.rmtree(os.path.join(ckpt.folder, name))
    wait_for(lambda: any(name.endswith("0003.img") for name in images_of(ckpt)), "the third image", 60)
    job.kill()
    newest = images_of(ckpt)[-1]
    subprocess.run([ckpt.tool("ckpt-image"), "verify", "-q", newest], cwd=ckpt.folder, env=ckpt.env, check=True)


@pytest.mark.parametrize("options,words", [
    (["--every", "soon"], "not a duration"), (["--every", "5x"], "not a duration"),
    (["--every", "auto", "--mtbf", "0"], "not a duration"), (["--every", "1h", "--image-dir", "/no/such"], "/no/such")])
def test_invalid_intervals_are_refused(ckpt, options, words):
    job = ckpt.run("counter", 10, 7, options=options)
    assert job.wait() == 125 and words in job.error_text and job.text == ""


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, env):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], dict(env, PS1="$ "))

    def read(self):
        if select.select([self.fd], [], [], 0.05)[0]:
            self.text += os.read(self.fd, 65536).decode(errors="replace")
        return self.text

    def type(self, keys):
        self.text = ""
        os.write(self.fd, keys.encode())

    def expect(self, word):
        try:
            wait_for(lambda: word in self.read(), word, 30)
        except AssertionError:
            raise AssertionError(f"no {word!r} in {self.text!r}") from None

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_job_control_of_a_shell(ckpt):
    """Ctrl-Z, fg, bg and Ctrl-C reach the program, and the shell sees it stop and end. The program is not
    a loop of a shell: there Ctrl-Z between vfork and exec stops only the child, even without ckpt-run."""
    shell = Shell(ckpt.env)
    try:
        loop = "import time\nfor i in range(10000): print(f'n{i}.', flush=True); time.sleep(0.05)"
        (ckpt.folder / "loop.py").write_text(loop)
        shell.type(f"{ckpt.tool('ckpt-run')} /usr/bin/python3 {ckpt.folder}/loop.py\n")
        shell.expect("n5.")
        shell.type("\x1a")
        shell.expect("$ ")
        shell.type("jobs; echo as''ked\n")
        shell.expect("asked\r\n")
        assert "Stopped" in shell.text
        shell.text = ""
        quiet_until = time.monotonic() + 0.5
        while time.monotonic() < quiet_until:
            assert "." not in shell.read().partition("$ ")[2], "the program was not stopped"
        shell.type("fg\n")
        shell.expect("n12.")
        shell.type("\x1a")
        shell.expect("$ ")
        shell.type("bg\n")
        shell.expect("n20.")
        shell.type("fg\n")
        shell.expect("n26.")
        shell.type("\x03")
        shell.expect("$ ")
        shell.type("echo code=$?\n")
        shell.expect("code=130")
    finally:
        shell.close()
