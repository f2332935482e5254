# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore: what it checks before it starts anything, and how the restored program behaves."""
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios

import pytest

from conftest import image_manifest, wait_for


def dumped(ckpt, *command, lines=3, **streams):
    """Runs a program until it has printed `lines` lines, and dumps it into the image "one"."""
    job = ckpt.run(*command, **streams)
    if "stdout" not in streams or streams["stdout"] in ("pipe", "tty"):
        job.wait_lines(lines)
    root = job.program()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    return job, root


def refused(ckpt, image, *options):
    """The error of a restore that fails before it starts anything."""
    job = ckpt.restore(image, *options)
    assert job.wait() == 1
    assert job.text == ""
    return job.error_text


RESERVES = """
import mmap, os, time
size = 4 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
reserved = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
print(size, flush=True)
while not os.path.exists("finish"):
    time.sleep(0.02)
print("ended", len(reserved), flush=True)
"""


def test_a_reservation_beyond_the_machine_s_memory_is_restored(ckpt):
    """PROT_NONE without MAP_NORESERVE, as drivers and runtimes reserve addresses: CRIU makes it writable, which Linux
    refuses (checkpoint-restore/criu#3010)."""
    job = ckpt.start("ckpt-run", [sys.executable, "-c", RESERVES])
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ckpt.finish()
    copy = ckpt.restore("one")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-1] == f"ended {job.lines[0]}"


def to_file(ckpt):
    """A counter that prints into a file."""
    out = ckpt.folder / "out"
    with open(out, "w") as stdout:
        job = ckpt.run("counter", 1000, 7, stdout=stdout)
    wait_for(lambda: len(out.read_text().splitlines()) > 4, "lines")
    return out, job


def test_grown_file(ckpt):
    out, job = to_file(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running")
    size = out.stat().st_size
    wait_for(lambda: out.stat().st_size > size + 10, "more lines")
    job.kill()
    error = refused(ckpt, "one")
    assert str(out) in error and "has grown" in error and "--truncate-files" in error
    ckpt.finish()
    assert ckpt.restore("one", "--truncate-files").wait() == 7
    assert out.read_text().splitlines()[:1000] == [str(i) for i in range(1000)]


def test_missing_and_shorter_files_are_reported_at_once(ckpt):
    (ckpt.folder / "a").write_text("aaaa")
    (ckpt.folder / "b").write_text("bbbb")
    dumped(ckpt, "sh", "-c", "exec 5<a 6<b; while :; do echo x; sleep 0.05; done")
    (ckpt.folder / "a").unlink()
    (ckpt.folder / "b").write_text("b")
    error = refused(ckpt, "one")
    assert f"{ckpt.folder}/a is missing" in error
    assert f"{ckpt.folder}/b is shorter" in error


def test_changed_library(ckpt):
    own = ckpt.folder / "own"
    own.write_bytes((ckpt.programs / "counter").read_bytes())
    own.chmod(0o755)
    dumped(ckpt, str(own), 1000)
    with open(own, "ab") as f:
        f.write(b"upgraded")
    assert str(own) in refused(ckpt, "one")


@pytest.mark.parametrize("file", ["index.ckpt", "chunks.ckpt"])
def test_damaged_image(ckpt, file):
    dumped(ckpt, "counter", 1000)
    path = ckpt.folder / "one" / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "nothing was started" in refused(ckpt, "one") or file in refused(ckpt, "one")


def test_no_image(ckpt):
    assert "nowhere" in refused(ckpt, "nowhere")


@pytest.mark.parametrize("blocked", [False, True])
def test_signals(ckpt, blocker, blocked):
    _, root = dumped(ckpt, "signals", lines=1)
    if blocked:
        blocker.take(root)
    job = ckpt.restore("one")
    wait_for(lambda: (ckpt.runtime.exists() and list(ckpt.runtime.glob("*/program"))) or job.process.poll() is not None, "the copy")
    for name in ("USR1", "HUP", "INT"):
        os.kill(job.pid, getattr(signal, "SIG" + name))
        job.wait_text("SIG" + name)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 3


@pytest.mark.parametrize("blocked", [False, True])
def test_terminal_keys(ckpt, blocker, blocked):
    _, root = dumped(ckpt, "signals", lines=1, stdout="tty")
    if blocked:
        blocker.take(root)
    job = ckpt.restore("one", stdout="tty")
    wait_for(lambda: list(ckpt.runtime.glob("*/program")), "the copy")
    job.type("\x03")
    job.wait_text("SIGINT")
    assert job.text.count("SIGINT") == 1
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 3


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("end", ["TERM", "KILL", "SEGV"])
def test_death_by_signal(ckpt, blocker, end, blocked):
    _, root = dumped(ckpt, "sh", "-c", f"echo 1; echo 2; echo 3; while ! test -e finish; do sleep 0.02; done; kill -{end} $$")
    if blocked:
        blocker.take(root)
    ckpt.finish()
    assert ckpt.restore("one").wait() == -getattr(signal, "SIG" + end)


def feed(ckpt, job_stdin, text):
    os.write(job_stdin, text.encode())


@pytest.mark.parametrize("blocked", [False, True])
def test_piped_input_continues(ckpt, blocker, blocked):
    r, w = os.pipe()
    job = ckpt.run("echo", stdin=r)
    os.close(r)
    job.wait_text("ready")
    feed(ckpt, w, "one\ntwo\nthr")
    job.wait_text("got two")
    root = job.program()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    os.close(w)
    if blocked:
        blocker.take(root)
    r, w = os.pipe()
    copy = ckpt.restore("one", stdin=r)
    os.close(r)
    feed(ckpt, w, "ee\nquit\n")
    assert copy.wait() == 5
    assert copy.lines == ["got three", "got quit"]
    os.close(w)


def test_unread_input_is_not_lost(ckpt):
    r, w = os.pipe()
    job = ckpt.run("echo", "go", stdin=r)
    os.close(r)
    job.wait_text("ready")
    lines = [f"line {i}" for i in range(3000)]
    feed(ckpt, w, "\n".join(lines) + "\n")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    os.close(w)
    (ckpt.folder / "go").touch()
    r, w = os.pipe()
    copy = ckpt.restore("one", stdin=r)
    os.close(r)
    feed(ckpt, w, "quit\n")
    assert copy.wait() == 5
    assert copy.lines == [f"got {line}" for line in lines] + ["got quit"]
    os.close(w)
    # Without a writer the end of file follows the unread lines.
    alone = ckpt.restore("one")
    assert alone.wait() == 0
    assert alone.lines == [f"got {line}" for line in lines] + ["end of file"]


def test_two_streams_and_their_order(ckpt):
    """Standard error is a pipe of its own."""
    script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); test -e finish || sleep 0.02; done; exit 4"
    job, _ = dumped(ckpt, "sh", "-c", script)
    ckpt.finish()
    copy = ckpt.restore("one")
    assert copy.wait() == 4
    errors = [line for line in (job.error_text + copy.error_text).splitlines() if line.startswith("e")]
    assert job.lines + copy.lines == [f"o{i}" for i in range(200)]
    assert errors == [f"e{i}" for i in range(200)]


@pytest.mark.parametrize("given", [False, True])
def test_third_pipe(ckpt, given):
    """A pipe above descriptor 2 is inherited by its number. Without it, a warning says what is lost."""
    script = "i=0; while [ $i -lt 200 ]; do echo $i; echo t$i >&7; i=$((i+1)); test -e finish || sleep 0.02; done; exit 4"
    job = ckpt.start_shell(f"exec 7> >(cat > third); exec {ckpt.tool('ckpt-run')} sh -c '{script}'")
    job.wait_lines(5)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ckpt.finish()
    restore = f"{ckpt.tool('ckpt-restore')} one"
    copy = ckpt.start_shell(f"exec 7> >(cat >> third); {restore}" if given else restore)
    assert copy.wait() == 4
    if given:
        wait_for(lambda: (ckpt.folder / "third").read_text().split() == [f"t{i}" for i in range(200)], "all lines")
    else:
        assert "descriptor 7" in copy.error_text


def test_json_report(ckpt):
    dumped(ckpt, "counter", 300, 7)
    ckpt.finish()
    assert ckpt.restore("one", "--json-report", "report").wait() == 7
    report = json.loads((ckpt.folder / "report").read_text())
    assert report["processes"] == 1 and report["bytes"] > 1 << 20
    assert [p["name"] for p in report["phases"]] == ["check", "session", "criu", "devices"]


def test_detached_default_output(ckpt):
    _, root = dumped(ckpt, "counter", 300, 7)
    ckpt.finish()
    ckpt.restore_detached("one")
    out = ckpt.folder / f"ckpt-{root}.out"
    wait_for(lambda: out.exists() and "sum" in out.read_text(), "the output")


@pytest.mark.parametrize("blocked", [False, True])
def test_old_session_path_leads_to_the_new_session(ckpt, blocker, blocked):
    """Programs that are executed after a restore find the new session through the old CKPT_SESSION."""
    script = "echo 1; echo 2; echo 3; while ! test -e finish; do sleep 0.02; done; test -S $CKPT_SESSION && echo there"
    _, root = dumped(ckpt, "sh", "-c", script)
    if blocked:
        blocker.take(root)
    ckpt.finish()
    copy = ckpt.restore("one")
    assert copy.wait() == 0
    assert copy.lines == ["there"]
    assert list(ckpt.runtime.iterdir()) == []


def test_left_running_original_keeps_its_session(ckpt):
    script = ("while ! test -e finish; do echo x; sleep 0.05; done; test -S $CKPT_SESSION && echo there; "
              "while ! test -e over; do sleep 0.05; done")
    job = ckpt.run("sh", "-c", script)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", "--leave-running")
    copy = ckpt.restore("one")
    copy.wait_lines(3)
    ckpt.finish()
    copy.wait_text("there")
    job.wait_text("there")
    (ckpt.folder / "over").touch()
    assert copy.wait() == 0 and job.wait() == 0


def test_no_zombies_and_no_processes_left(ckpt):
    dumped(ckpt, "sh", "-c", f"{ckpt.programs}/family 100")
    copy = ckpt.restore("one")
    assert copy.wait() == 0
    left = subprocess.run(["pgrep", "-f", str(ckpt.programs / "family")], capture_output=True, text=True).stdout.split()
    assert left == []


# CRIU continues the threads one after the other: the first may end the program before the last one runs.
ENDS_AT_ONCE = """
import os, threading
for _ in range(300):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
while not os.access("finish", os.F_OK):
    pass
os._exit(7)
"""


def test_a_program_that_ends_at_once_is_restored(ckpt):
    dumped(ckpt, "/usr/bin/python3", "-c", ENDS_AT_ONCE, lines=1)
    ckpt.finish()
    for _ in range(5):
        copy = ckpt.restore("one")
        assert copy.wait() == 7, copy.error_text


def test_a_stopped_process_comes_back_stopped(ckpt):
    script = ("sh -c 'kill -STOP $$; echo on' & "
              "until grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done; "
              "while ! test -e finish; do echo x; sleep 0.05; done; kill -CONT $!; wait")
    dumped(ckpt, "sh", "-c", script)
    copy = ckpt.restore("one")
    copy.wait_lines(5)
    assert "on" not in copy.text
    ckpt.finish()
    assert copy.wait() == 0
    assert "on" in copy.text


@pytest.mark.full
def test_a_dump_as_soon_as_a_restore_is_ready_finds_running_processes(ckpt):
    """Many processes, because continuing them one after the other must be over when the restore says that it is."""
    job = ckpt.run("sh", "-c", "for i in $(seq 60); do sleep 600 & all=\"$all $!\"; done; echo ready; "
                               "while test ! -e finish; do sleep 0.1; done; kill $all")
    job.wait_lines(1)
    ckpt.dump(job.pid, "0")
    for n in range(1, 4):
        ckpt.dump(ckpt.restore_detached(f"{n - 1}"), f"{n}")
    copy = ckpt.restore("3")
    ckpt.finish()
    assert copy.wait() == 0, "the images have stopped processes"


CRIU_THAT_IS_KILLED = f"""#!/usr/bin/python3
import os, signal, socket, struct, sys
REAL = {os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"!r}
if "-D" not in sys.argv: os.execv(REAL, [REAL, *sys.argv[1:]])
folder = sys.argv[sys.argv.index("-D") + 1]
with open(os.path.join(folder, sys.argv[sys.argv.index("-o") + 1]), "w") as log:
    log.write("(00.1)      1: Error (criu/files.c:1): nothing works today\\n")
s = socket.socket(socket.AF_UNIX)
s.connect(os.path.join(folder, "streamer-serve.sock"))
name = b"inventory.img"
request = bytes([10, len(name)]) + name
s.sendall(struct.pack("<I", len(request)) + request)
assert s.recv(6)[-1] == 1  # it exists
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_criu_that_is_killed_while_it_asks_for_a_file(ckpt):
    """As the processes of a CRIU are if one of them fails: the error is what CRIU has logged."""
    job = ckpt.run("counter")
    job.wait_lines(2)
    ckpt.dump(job.pid, "one")
    criu = ckpt.folder / "criu"
    criu.write_text(CRIU_THAT_IS_KILLED)
    criu.chmod(0o755)
    copy = ckpt.restore("one", env={"CKPT_CRIU": str(criu)})
    assert copy.wait() == 1
    assert "CRIU cannot restore the program: nothing works today" in copy.error_text, copy.error_text


@pytest.mark.parametrize("blocked", [False, True])
def test_a_terminal_of_another_size(ckpt, blocker, blocked):
    """The program learns the size of its new terminal, which keeps it."""
    script = """import os, signal, time
signal.signal(signal.SIGWINCH, lambda *a: print("size", *os.get_terminal_size(), flush=True))
print("ready", flush=True)
while True:
    time.sleep(0.05)"""
    job = ckpt.run("/usr/bin/python3", "-c", script, stdout="tty", size=(24, 110))
    job.wait_text("ready")
    root = job.program()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    if blocked:
        blocker.take(root)
    copy = ckpt.restore("one", stdout="tty", size=(12, 70))
    copy.wait_text("size 70 12")
    assert termios.tcgetwinsize(copy.master) == (12, 70)


def with_fifo(ckpt, script):
    os.mkfifo(ckpt.folder / "fifo")
    return ckpt.run("sh", "-c", script)


def test_a_fifo_without_a_reader_is_refused_by_its_name(ckpt):
    """Otherwise SIGPIPE would end the copy at its next line."""
    job = with_fifo(ckpt, "exec >fifo; while :; do echo line; sleep 0.02; done")
    with open(ckpt.folder / "fifo") as reader:
        assert reader.readline() == "line\n"
        ckpt.dump(job.pid, "one")
        assert job.wait() == 85
    fifo = ckpt.folder / "fifo"
    error = refused(ckpt, "one")
    assert f"nothing reads the FIFO {fifo}, to which the program writes (descriptor 1)" in error, error
    assert f"cat {fifo}" in error and "nothing was started" in error, error
    fifo.unlink()
    assert f"the FIFO {fifo} is missing: create it again (mkfifo), with its reader" in refused(ckpt, "one")
    os.mkfifo(fifo)
    # A reader that waits in open(2) gets what the program writes, and the end of file when it has ended.
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    copy = ckpt.restore("one")
    for _ in range(5):
        assert reader.stdout.readline() == "line\n"
    copy.kill()
    assert set(reader.communicate(timeout=60)[0].splitlines()) <= {"line", "lin", "li", "l", ""}
    assert reader.returncode == 0


def test_a_fifo_without_a_writer_is_warned_of(ckpt):
    job = with_fifo(ckpt, "exec 6<fifo; echo ready; cat <&6; echo end")
    writer = open(ckpt.folder / "fifo", "w")
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    writer.close()
    copy = ckpt.restore("one")
    assert copy.wait() == 0 and copy.lines == ["end"]
    assert "nothing writes to the FIFO" in copy.error_text and "(descriptor 0)" in copy.error_text, copy.error_text


def test_a_program_that_has_both_ends_of_a_fifo_needs_no_other(ckpt):
    job = with_fifo(ckpt, "exec 5<>fifo; echo text >&5; while ! test -e finish; do echo x; sleep 0.02; done; read line <&5; echo $line")
    job.wait_lines(2)
    ckpt.dump(job.pid, "one")
    ckpt.finish()
    copy = ckpt.restore("one")
    assert copy.wait() == 0 and copy.lines[-1] == "text", copy.text


def test_a_processor_that_lacks_instructions_is_refused(ckpt):
    """/proc/cpuinfo of another machine, in a mount namespace of the restore."""
    dumped(ckpt, "sh", "-c", "while :; do echo line; sleep 0.02; done")
    flags = image_manifest(ckpt.folder / "one")["manifest"]["processor"]["features"]
    assert "sse2" in flags and "vme" not in flags
    info = re.sub(r"\bsse2\b", "", pathlib.Path("/proc/cpuinfo").read_text())
    (ckpt.folder / "cpuinfo").write_text(info)

    def there(*options):
        script = f"mount --bind {ckpt.folder}/cpuinfo /proc/cpuinfo && exec {ckpt.tool('ckpt-restore')} {' '.join(options)} one"
        return subprocess.Popen(["unshare", "--mount", "sh", "-c", script], cwd=ckpt.folder, env=ckpt.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    refused = there()
    error = refused.communicate(timeout=60)[1]
    assert refused.returncode == 1 and "lacks instructions that the program may use (sse2)" in error, error
    assert "--ignore-processor" in error and "nothing was started" in error, error
    copy = there("--ignore-processor")
    assert copy.stdout.readline() == "line\n", copy.stderr.read()
    copy.terminate()
    copy.communicate(timeout=60)


def test_a_lock_that_another_program_holds_is_named(ckpt):
    (ckpt.folder / "lock").touch()
    dumped(ckpt, "sh", "-c", "exec 9<lock; flock 9; while :; do echo line; sleep 0.02; done")
    with open(ckpt.folder / "lock") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        copy = ckpt.restore("one")
        wait_for(lambda: "waits for the program's lock" in copy.error_text, "the warning")
        assert f"on the file {ckpt.folder}/lock, which process {os.getpid()} holds" in copy.error_text, copy.error_text
    copy.wait_lines(3)


def test_appending_beside_the_original_is_warned_of(ckpt):
    with open(ckpt.folder / "log", "w") as log:
        job = ckpt.run("sh", "-c", "while :; do echo line; sleep 0.02; done", stdout=log)
    wait_for(lambda: (ckpt.folder / "log").stat().st_size > 20, "lines")
    ckpt.dump(job.pid, "one", "--leave-running")
    copy = ckpt.restore("one", "--append-files")
    wait_for(lambda: "still runs" in copy.error_text, "the warning")
    assert f"(PID {job.program()}): both write to the same files" in copy.error_text, copy.error_text
