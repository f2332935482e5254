# SPDX-License-Identifier: Apache-2.0
"""Images that carry files (ckpt-dump --with-files), of ordinary users' programs: by ckpt-helper, with a capability, isolated,
by root for the user, and of programs that root has started for a user."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from carried import LINE, MAIN, build_program, change, supplied_files
from conftest import BUILD, Job, tree_of
from hostile_user import criu_for_users  # noqa: F401 (a fixture)
from rootless import UID, as_user, assert_is_users, helper, needs_helper, root, status, user  # noqa: F401 (fixtures)
from test_isolate import NAMESPACES

pytestmark = needs_helper

WAYS = ["helper", "capability", "isolated", "root"]


class Way:
    """How a user's program is started, dumped and restored."""

    def __init__(self, name, user, helper):
        self.name, self.user, self.helper = name, user, helper
        self.capabilities = ["checkpoint_restore"] if name == "capability" else []

    def start(self, program):
        job = self.user.run(program, options=["--isolate"] if self.name == "isolated" else [])
        job.wait_lines(3)
        return job

    def command(self, tool, *args):
        if self.name == "root":
            return [str(BUILD / "tools" / tool), *map(str, args)]
        return self.user.command(tool, *args, capabilities=self.capabilities)

    def dump(self, job, image, *options):
        """By a PID of the program: with ckpt-helper, that of ckpt-restore does not lead to it."""
        r = subprocess.run(self.command("ckpt-dump", self.program_of(job), "-o", image, *options), env=self.user.env, cwd=self.user.folder,
                           capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)
        assert r.returncode == 0, r.stdout + r.stderr
        assert job.wait() == 85

    def restore(self, image, *options):
        copy = Job(self.command("ckpt-restore", *options, image), env=self.user.env, cwd=self.user.folder)
        self.user.jobs.append(copy)
        copy.wait_lines(3)
        return copy

    def program_of(self, job):
        above = [job.pid, *([self.helper.process.pid] if self.helper else [])]
        return next(p for keeper in above for p in tree_of(keeper) if status(p)["Name"] == ["own"])


@pytest.fixture(params=WAYS)
def way(request, user):
    if request.param == "isolated" and NAMESPACES.returncode != 0:
        pytest.skip("users cannot make namespaces here")
    return Way(request.param, user, request.getfixturevalue("helper") if request.param == "helper" else None)


def test_a_user_s_program_gets_its_files_from_the_image(user, way):
    """Twice in a row: the second dump finds the files in the folder of a session that ends with it."""
    job = way.start(build_program(user.folder))
    way.dump(job, "one", "--with-files")
    change(user.folder)
    first = way.restore("one")
    assert "from the image" in first.error_text
    pid = way.program_of(first)
    assert_is_users(pid)
    supplied = supplied_files(pid)
    assert {pathlib.Path(p).name for p in supplied} == {"own", "libanswer.so"}
    for path in supplied:
        st = os.stat(path)
        assert (st.st_uid, st.st_gid, st.st_mode & 0o7777) == (UID, UID, 0o755)
    way.dump(first, "two")
    second = way.restore("two")
    (user.folder / "finish").touch()
    assert second.wait() == 0, second.error_text
    assert set(first.lines + second.lines) == {LINE}
    assert not list(user.folder.rglob("files"))


@pytest.fixture
def hidden():
    """A folder in which only root can read anything."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-hidden-"))
    yield folder
    shutil.rmtree(folder)


# Its standard input is a file that only root may open.
READER = """
import os, sys, time
try:
    os.open("/proc/self/fd/0", os.O_RDONLY)
except PermissionError:
    print("closed", flush=True)
while not os.path.exists("finish"):
    print(os.pread(0, 20, 0).decode(), os.getuid(), flush=True)
    time.sleep(0.02)
"""


def test_contents_that_root_has_opened_for_a_user_stay_root_s(user, root, hidden, criu_for_users):  # noqa: F811
    """The program reads on what root gave it, and its user gets at no other copy: neither in the image nor where the restore
    supplies it."""
    user.env["CKPT_CRIU"] = criu_for_users
    secret = hidden / "secret"
    secret.write_text("of root")
    secret.chmod(0o400)
    command = [str(BUILD / "tools" / "ckpt-run"), "--", *as_user(), "/usr/bin/python3", "-c", READER]
    with secret.open() as stdin:
        job = Job(command, env=user.env, cwd=user.folder, stdin=stdin)
    user.jobs.append(job)
    job.wait_text(f"of root {UID}")
    r = root("ckpt-dump", job.pid, "-o", "one", "--with-files")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    secret.unlink()
    copy = Job([str(BUILD / "tools" / "ckpt-restore"), "--as-root", "one"], env=user.env, cwd=user.folder)
    user.jobs.append(copy)
    copy.wait_text(f"of root {UID}")
    supplied = [p for p in user.folder.rglob("secret") if "files" in p.parts]
    assert len(supplied) == 1 and (supplied[0].stat().st_uid, supplied[0].stat().st_mode & 0o7777) == (0, 0o400)
    pid = next(p for p in tree_of(copy.pid) if status(p)["Name"] == ["python3"])
    for path in (*supplied, user.folder / "one" / "chunks.ckpt", f"/proc/{pid}/fd/0"):
        tried = subprocess.run([*as_user(), "cat", str(path)], capture_output=True, text=True)
        assert tried.returncode != 0 and tried.stdout == "", path
    (user.folder / "finish").touch()
    assert copy.wait() == 0, copy.error_text
    assert not list(user.folder.rglob("secret"))


# Its user has opened a file, which root then takes away.
KEEPS = """
import os, time
table = open("{folder}/table")
while not os.path.exists("finish"):
    print(os.pread(table.fileno(), 20, 0).decode(), flush=True)
    time.sleep(0.02)
print("end", flush=True)
"""


@pytest.fixture
def shared():
    """A folder of root's that users may search, with a file that they may read."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-shared-"))
    folder.chmod(0o755)
    (folder / "table").write_text("for all")
    yield folder
    shutil.rmtree(folder)


def keeps(user, shared):
    job = user.run("/usr/bin/python3", "-c", KEEPS.format(folder=shared))
    job.wait_text("for all")
    return job


def test_root_carries_nothing_that_the_program_s_user_may_not_read(user, root, shared):
    """Neither by the file's mode nor by its folder's: the user owns the image's program, and so what it reads."""
    job = keeps(user, shared)
    table = str(shared / "table")
    for path, mode in ((shared / "table", 0o600), (shared, 0o700)):
        before = path.stat().st_mode & 0o7777
        path.chmod(mode)
        report = json.loads(root("ckpt-dump", "--check", "--json", "--with-files", job.pid).stdout)
        assert {"path": table, "why": f"uid {UID} may not read it"} in report["carried"]["left_out"], report["carried"]
        assert not report["possible"] and table in " ".join(report["reasons"]), report["reasons"]
        path.chmod(before)
    report = json.loads(root("ckpt-dump", "--check", "--json", "--with-files", job.pid).stdout)
    assert report["possible"] and table in report["carried"]["files"], report


def test_what_the_user_may_not_open_here_comes_from_the_image(user, root, shared):
    """Root compares the files with the rights of the program's user: CRIU opens them as this user."""
    job = keeps(user, shared)
    r = root("ckpt-dump", job.pid, "-o", "one", "--with-files")
    assert r.returncode == 0 and job.wait() == 85, r.stderr
    shared.chmod(0o700)
    copy = Job([str(BUILD / "tools" / "ckpt-restore"), "one"], env=user.env, cwd=user.folder)
    user.jobs.append(copy)
    copy.wait_text("for all")
    assert "from the image" in copy.error_text and str(shared / "table") in copy.error_text
    (user.folder / "finish").touch()
    assert copy.wait() == 0, copy.error_text
