# SPDX-License-Identifier: Apache-2.0
"""Files that are not part of an image: which a restore accepts, and what it does with them."""
import os
import shutil
import subprocess

import pytest

from conftest import criu_with, wait_for
from test_restore import dumped, refused

READS = "exec 5<data; while :; do echo x; sleep 0.05; done"


def reads_file(ckpt):
    """A dumped program that has the file "data" open for reading."""
    data = ckpt.folder / "data"
    data.write_text("as it was")
    dumped(ckpt, "sh", "-c", READS)
    return data


def test_a_file_that_changed_at_the_same_size_is_refused(ckpt):
    data = reads_file(ckpt)
    data.write_text("otherwise")
    assert f"{data} has changed since the dump, at the same size" in refused(ckpt, "one")


def test_a_file_that_was_only_copied_is_accepted(ckpt):
    data = reads_file(ckpt)
    shutil.copyfile(data, ckpt.folder / "copy")
    os.rename(ckpt.folder / "copy", data)
    ckpt.restore("one").wait_lines(3)


def test_a_rebuilt_executable_without_a_build_id_is_refused(ckpt):
    own = ckpt.folder / "own"
    source = ckpt.folder / "own.c"
    source.write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void) { for (;;) { puts("1"); fflush(stdout); '
                      "usleep(20000); } }\n")
    build = ["cc", "-Wl,--build-id=none", str(source), "-o", str(own)]
    assert ckpt.start_shell(" ".join(build)).wait() == 0
    dumped(ckpt, str(own))
    contents = own.read_bytes()
    assert contents.count(b"\0001\0") >= 1
    own.write_bytes(contents.replace(b"\0001\0", b"\0002\0"))
    assert f"{own}, which the program has mapped, has changed, at the same size" in refused(ckpt, "one")


def test_append_files(ckpt):
    """The program and its script share a log, which continues after the dump."""
    log = ckpt.folder / "log"
    script = "while test ! -e finish; do echo line; sleep 0.02; done; echo end"
    with open(log, "w") as stdout:
        job = ckpt.run("sh", "-c", script, stdout=stdout)
    wait_for(lambda: log.read_text().count("line") > 3, "lines")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    with open(log, "a") as others:
        others.write("from another program\n")
    before = log.read_text()
    error = refused(ckpt, "one")
    assert "--truncate-files" in error and "--append-files" in error
    ckpt.finish()
    assert ckpt.restore("one", "--append-files").wait() == 0
    after = log.read_text()
    assert after.startswith(before) and after.endswith("end\n") and "\0" not in after


def test_append_and_truncate_exclude_each_other(ckpt):
    assert ckpt.restore("one", "--append-files", "--truncate-files").wait() == 125


WRITES = """
import os, sys
f = os.open("grown", os.O_RDWR | os.O_CREAT)
os.write(f, bytes.fromhex(sys.argv[1]).ljust(100, b"x"))
open("open", "w").close()
while not os.path.exists("finish"):
    os.stat("open")
"""


def grown(ckpt, begins=b""):
    """An image of a program with a file that has grown since."""
    path = ckpt.folder / "grown"
    job = ckpt.run("/usr/bin/python3", "-c", WRITES, begins.hex())
    wait_for((ckpt.folder / "open").exists, "the program")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    with open(path, "ab") as file:
        file.write(b"y" * 50)
    ckpt.finish()
    return path


BEGINS = {"SQLite": b"SQLite format 3\0", "SQLite's log": b"\x37\x7f\x06\x82"}


@pytest.mark.parametrize("kind", [*BEGINS, "LevelDB", "another program"])
def test_truncate_files_leaves_alone(ckpt, kind):
    """What a cut would damage. The message says what each choice does; the name of the file cuts it, and a copy is kept."""
    path = grown(ckpt, BEGINS.get(kind, b""))
    before = path.read_bytes()
    if kind == "LevelDB":
        (ckpt.folder / "CURRENT").touch()
    other = open(path, "ab") if kind == "another program" else None
    why = "another program has it open for writing" if other else f"({kind.removesuffix(chr(39) + 's log')}"
    for options in ([], ["--truncate-files"]):
        error = refused(ckpt, "one", *options)
        assert why in error and "--append-files keeps it" in error, error
        assert f"--truncate-file={path}" in error
    assert path.stat().st_size == 150
    assert ckpt.restore("one", "--append-files").wait() == 0
    assert path.stat().st_size == 150
    assert ckpt.restore("one", "--append-files", f"--truncate-file={path}").wait() == 0
    assert path.stat().st_size == 100
    copies = list(ckpt.folder.glob("grown.ckpt-*.before-cut"))
    assert [copy.read_bytes() for copy in copies] == [before] and copies[0].stat().st_mode & 0o777 == 0o600
    if other:
        other.close()


def test_a_log_can_be_cut_and_a_database_kept(ckpt):
    """Two files of one program, by one restore."""
    log = ckpt.folder / "log"
    with open(log, "w") as stdout:
        job = ckpt.run("sh", "-c", "exec 5>>db; while test ! -e finish; do echo line; sleep 0.02; done", stdout=stdout)
    wait_for(lambda: log.read_text().count("line") > 3, "lines")
    ckpt.dump(job.pid, "one")
    size = log.stat().st_size
    with open(log, "a") as others:
        others.write("from another program\n")
    ckpt.finish()
    assert ckpt.restore("one", "--append-files", f"--truncate-file={log}").wait() == 0
    assert "another program" not in log.read_text() and log.stat().st_size >= size


def test_a_reader_of_a_log_does_not_keep_it_from_being_cut(ckpt):
    path = grown(ckpt)
    with open(path):
        assert ckpt.restore("one", "--truncate-files").wait() == 0
    assert path.stat().st_size == 100


def holds_hard_link(ckpt):
    (ckpt.folder / "first").write_text("contents")
    script = "exec 5<first; ln first second; rm first; echo ready; while test ! -e finish; do sleep 0.02; done; cat <&5"
    job = ckpt.run("sh", "-c", script)
    job.wait_lines(1)
    return job


def links(ckpt):
    return [p.name for p in ckpt.folder.iterdir() if p.name.startswith("link_remap")]


def test_an_unlinked_file_with_another_name_is_restored_more_than_once(ckpt):
    job = holds_hard_link(ckpt)
    ckpt.dump(job.pid, "one")
    ckpt.finish()
    for _ in range(2):
        copy = ckpt.restore("one")
        assert copy.wait() == 0 and copy.text == "contents"
        assert len(links(ckpt)) == 1
    (ckpt.folder / links(ckpt)[0]).unlink()
    assert "link_remap" in refused(ckpt, "one")


@pytest.fixture
def covered(ckpt):
    """Covers a file by a mount, and uncovers it in the end."""
    yield lambda path: f"mount --bind /etc/passwd {path}"
    subprocess.run(["umount", str(ckpt.folder / "data")], stderr=subprocess.DEVNULL)


def test_a_program_does_not_end_for_an_image_that_would_be_refused(ckpt, covered):
    """The name of the file that it reads leads to another file."""
    data = ckpt.folder / "data"
    data.write_text("data")
    job = ckpt.run("sh", "-c", READS)
    job.wait_lines(3)
    r = ckpt.dump_process(job.pid, "one", env=criu_with(ckpt, after_dump=covered(data)))
    assert r.returncode == 1 and "could not be restored" in r.stderr and str(data) in r.stderr
    assert not (ckpt.folder / "one").exists()
    job.wait_lines(len(job.lines) + 3)


def test_a_failed_dump_leaves_no_link(ckpt):
    job = holds_hard_link(ckpt)
    r = ckpt.dump_process(job.pid, "one", env=criu_with(ckpt, after_dump=f"rm -r {ckpt.folder}/one.partial-*"))
    assert r.returncode == 1, r.stdout
    assert links(ckpt) == [] and ckpt.partials() == []
    ckpt.finish()
    assert job.wait() == 0 and job.text.endswith("contents")


ON_OWN_TERMINAL = """
import os, pty
pid, master = pty.fork()
if pid == 0:
    os.execlp("sh", "sh", "-c", "echo ready; while test ! -e finish; do sleep 0.02; done; tty")
try:
    while piece := os.read(master, 1000):
        os.write(1, piece)
except OSError:  # the other end is closed
    pass
"""


def test_two_copies_of_a_program_with_its_own_terminal(ckpt):
    """The number of the terminal is taken for the second copy, which can nevertheless be dumped again."""
    job = ckpt.run("/usr/bin/python3", "-c", ON_OWN_TERMINAL)
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    first, second = ckpt.restore("one"), ckpt.restore("one")
    first.program()
    second.program()
    ckpt.dump(second.pid, "two")
    assert second.wait() == 85
    third = ckpt.restore("two")
    third.program()
    ckpt.finish()
    for copy in (first, third):
        assert copy.wait() == 0 and "/dev/pts/" in copy.text, copy.error_text


TAKE_TERMINALS = """import os, pty, time
held = [pty.openpty() for _ in range(20)]  # each gets the lowest free number
open("held", "w")
while not os.path.exists("enough"): time.sleep(0.05)
"""


def test_a_terminal_whose_number_is_taken_in_the_last_moment(ckpt):
    """After ckpt-restore has found it free, and before CRIU wants it."""
    job = ckpt.run("/usr/bin/python3", "-c", ON_OWN_TERMINAL)
    job.wait_lines(1)
    ckpt.dump(job.pid, "one")
    (ckpt.folder / "take.py").write_text(TAKE_TERMINALS)
    take = "[ -e held ] || { /usr/bin/python3 take.py </dev/null >/dev/null 2>&1 & until [ -e held ]; do sleep 0.05; done; }"
    copy = ckpt.restore("one", env=criu_with(ckpt, before_restore=take))
    try:
        copy.program()
        ckpt.finish()
        assert copy.wait() == 0 and "/dev/pts/" in copy.text, copy.error_text
    finally:
        (ckpt.folder / "enough").touch()
