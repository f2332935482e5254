# SPDX-License-Identifier: Apache-2.0
"""Files that a program has open and that its user may not open again: CRIU, which opens them by their names, has the
rights of that user. Such a program is not ended, and the message names the file."""
import os
import pathlib
import shutil
import tempfile

import pytest

from conftest import Job, wait_for
from rootless import UID, assert_is_users, helper, needs_helper, refused, root, user  # noqa: F401

pytestmark = needs_helper

PROGRAM = """
import os, time
{prepare}
print("ready", flush=True)
n = 0
while True:
    n += 1
    {step}
    open({count!r}, "w").write(str(n))
    time.sleep(0.02)
"""
WRITE = 'os.pwrite(fd, b"%d" % n, 0)'
READ = 'os.pread(fd, 9, 0)'


class Place:
    """A folder of root, which others may read, and one of the user's in it."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-place-"))
        self.path.chmod(0o755)
        self.mine = self.path / "mine"
        self.mine.mkdir()
        os.chown(self.mine, UID, UID)


@pytest.fixture
def place():
    p = Place()
    yield p
    shutil.rmtree(p.path)


def start(user, place, prepare, step):
    """`prepare` sets fd, `step` uses it all the time."""
    count = user.folder / "count"
    text = PROGRAM.format(prepare=prepare.format(mine=place.mine), step=step, count=str(count))
    job = user.run("/usr/bin/python3", "-c", text)
    job.wait_lines(1)
    return job, count


def goes_on(count):
    before = count.read_text()
    wait_for(lambda: count.read_text() not in ("", before), "the program to go on")


# What the program does, what it does with the file then, and what the message says.
REFUSED = {
    "made read-only": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o444)', WRITE, "mine/f open", "mode is 444"),
    "for appending": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o444)', 'os.write(fd, b"x")',
                      "mine/f open", "open it for writing again"),
    "changed to 444": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o644); os.chmod("{mine}/f", 0o444)', WRITE,
                       "mine/f open", "mode is 444"),
    "changed to 000": ('open("{mine}/f", "w").write("text"); fd = os.open("{mine}/f", os.O_RDONLY); os.chmod("{mine}/f", 0)',
                       READ, "mine/f open", "open it for reading again"),
    "mapped": ('import mmap; fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o600); os.ftruncate(fd, 4096)\n'
               'm = mmap.mmap(fd, 4096); os.close(fd); os.chmod("{mine}/f", 0o400)', 'm[0] = n & 127', "mine/f open", "mode is 400"),
    "folder of a file": ('os.mkdir("{mine}/d"); fd = os.open("{mine}/d/f", os.O_CREAT | os.O_RDWR, 0o600); os.chmod("{mine}/d", 0o600)',
                         WRITE, "mine/d/f open", "may not search the folders"),
    "working folder": ('os.mkdir("{mine}/d"); os.chdir("{mine}/d"); os.chmod("{mine}/d", 0o100)', 'os.stat(".")',
                       "mine/d open", "open it for reading again"),
    "open folder": ('os.mkdir("{mine}/d"); fd = os.open("{mine}/d", os.O_RDONLY); os.chmod("{mine}/d", 0o300)', 'os.fstat(fd)',
                    "mine/d open", "open it for reading again"),
    "unlinked": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o444); os.unlink("{mine}/f")', WRITE,
                 "unlinked file {mine}/f open", "its mode is 444"),
    "O_TMPFILE": ('fd = os.open("{mine}", os.O_TMPFILE | os.O_RDWR, 0o400)', WRITE, "unlinked file {mine}/#", "its mode is 400"),
    "unlinked, folder": ('os.mkdir("{mine}/d"); fd = os.open("{mine}/d/f", os.O_CREAT | os.O_RDWR, 0o600); os.unlink("{mine}/d/f")\n'
                         'os.chmod("{mine}/d", 0o500)', WRITE, "unlinked file {mine}/d/f", "folder is not writable"),
    "UNIX socket": ('import socket; os.mkdir("{mine}/d"); s = socket.socket(socket.AF_UNIX); s.bind("{mine}/d/s"); s.listen(1)\n'
                    'os.chmod("{mine}/d", 0o500)', 's.getsockname()', "bound to {mine}/d/s", "may not make it again"),
    "FIFO": ('os.mkfifo("{mine}/f", 0o600); fd = os.open("{mine}/f", os.O_RDWR); os.chmod("{mine}/f", 0o400)',
             'os.write(fd, b"x"); os.read(fd, 1)', "mine/f open", "mode is 400"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_user_may_not_open_again_is_refused_by_name(user, helper, place, case):
    prepare, step, *said = REFUSED[case]
    job, count = start(user, place, prepare, step)
    for options in (["-o", "a.img"], ["--check"]):
        if options == ["--check"] and case in ("mapped", "working folder", "UNIX socket"):
            continue  # a running program does not show them
        error = refused(user.tool("ckpt-dump", job.pid, *options))
        assert all(s.format(mine=place.mine) in error for s in said), error
        assert f"uid {UID} may not" in error and "keeps running" in error, error
    assert not (user.folder / "a.img").exists()
    goes_on(count)


# CRIU's dump fails without root's rights, and its message names nothing.
NAMED = {
    "another name": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o600); os.link("{mine}/f", "{mine}/g"); os.unlink("{mine}/f")',
                     WRITE, "the unlinked file {mine}/f (deleted), which has another name"),
    "unreadable and unlinked": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_WRONLY, 0o200); os.unlink("{mine}/f")', WRITE,
                                "unlinked file {mine}/f"),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_criu_cannot_find_without_root_is_named(user, helper, place, case):
    prepare, step, said = NAMED[case]
    job, count = start(user, place, prepare, step)
    error = refused(user.tool("ckpt-dump", job.pid, "-o", "a.img"))
    assert said.format(mine=place.mine) in error and "with the rights of its user" in error and "keeps running" in error, error
    goes_on(count)


def test_watches_are_refused_before_the_program_is_touched(user, helper, place):
    """When CRIU fails, calls that wait return EINTR, and `tail -f` ends."""
    log = place.mine / "log"
    log.write_text("begin\n")
    job = user.run("tail", "-n", "+1", "-f", log)
    job.wait_text("begin")
    error = refused(user.tool("ckpt-dump", job.pid, "-o", "a.img"))
    assert "an inotify descriptor with watches" in error and "was not touched" in error, error
    with log.open("a") as more:
        more.write("more\n")
    job.wait_text("more")
    job.kill()


# Root opens the file, becomes the user then, and starts ckpt-run.
INHERITED = {
    "log of root": ("f", 0o644, False, "owner uid 0"),
    "log where the user may not search": ("d/f", 0o644, False, "may not search the folders"),
    "unlinked log of root": ("f", 0o666, True, "belongs to uid 0"),
}


@pytest.mark.parametrize("case", INHERITED)
def test_a_log_that_root_has_opened_is_refused_by_name(user, helper, root, place, case):
    name, mode, unlinked, said = INHERITED[case]
    log = place.path / name
    log.parent.mkdir(exist_ok=True)
    log.write_text("")
    log.chmod(mode)
    log.parent.chmod(0o700 if "/" in name else 0o755)
    count = user.folder / "count"
    text = PROGRAM.format(prepare="fd = 9", step='os.write(fd, b"line\\n")', count=str(count))
    by_root = ["sh", "-c", f'exec 9>>{log}; exec "$@"', "sh"]
    job = Job([*by_root, *user.command("ckpt-run", "--", "/usr/bin/python3", "-c", text)], env=user.env, cwd=user.folder)
    user.jobs.append(job)
    job.wait_lines(1)
    if unlinked:
        log.unlink()
    for tool in (user.tool, root):
        error = refused(tool("ckpt-dump", job.pid, "-o", "a.img"))
        assert str(log) in error and said in error and "keeps running" in error, error
    goes_on(count)


ALLOWED = {
    "read-only, for reading": ('open("{mine}/f", "w").write("text"); os.chmod("{mine}/f", 0o444); fd = os.open("{mine}/f", os.O_RDONLY)',
                               READ),
    "write-only": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_WRONLY, 0o200)', WRITE),
    "O_PATH": ('open("{mine}/f", "w").close(); fd = os.open("{mine}/f", os.O_PATH); os.chmod("{mine}/f", 0)', 'os.fstat(fd)'),
    "unlinked": ('fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o600); os.unlink("{mine}/f")', WRITE),
    "O_TMPFILE": ('fd = os.open("{mine}", os.O_TMPFILE | os.O_RDWR, 0o600)', WRITE),
    "folder that is gone": ('os.mkdir("{mine}/d"); fd = os.open("{mine}/d/f", os.O_CREAT | os.O_RDWR, 0o600); os.unlink("{mine}/d/f")\n'
                            'os.rmdir("{mine}/d")', WRITE),
    "unlinked UNIX socket": ('import socket; s = socket.socket(socket.AF_UNIX); s.bind("{mine}/s"); s.listen(1); os.unlink("{mine}/s")',
                             's.getsockname()'),
    "/dev/null and a terminal": ('import pty; fd, other = pty.openpty(); null = os.open("/dev/null", os.O_RDWR)', 'os.write(null, b"x")'),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_the_user_may_open_again_is_restored(user, helper, place, case):
    job, count = start(user, place, *ALLOWED[case])
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    restored = user.restore("a.img")
    goes_on(count)
    assert_is_users(restored)


def test_an_image_whose_file_the_user_may_not_open_any_more_is_refused_before_anything_is_started(user, helper, root, place):
    job, _ = start(user, place, 'fd = os.open("{mine}/f", os.O_CREAT | os.O_RDWR, 0o600)', WRITE)
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    os.chown(place.mine / "f", 0, 0)
    for tool in (user.tool, root):
        error = refused(tool("ckpt-restore", "--detach", "--trust-image", "a.img"))
        assert "mine/f open" in error and "owner uid 0" in error and "nothing was started" in error, error
    os.chown(place.mine / "f", UID, UID)
    user.restore("a.img")


def test_for_a_program_of_root_nothing_changes(ckpt):
    script = "import os, time\nfd = os.open('f', os.O_CREAT | os.O_RDWR, 0o444)\nos.chmod('f', 0)\nn = 0\n" \
             "while True: n += 1; os.pwrite(fd, b'%d' % n, 0); print(n, flush=True); time.sleep(0.02)"
    job = ckpt.run("/usr/bin/python3", "-c", script)
    job.wait_lines(2)
    ckpt.dump(job.pid, "a.img")
    ckpt.restore("a.img").wait_lines(2)
