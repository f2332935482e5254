# SPDX-License-Identifier: Apache-2.0
"""Files that another user can read, change or exchange at any moment, given to root's tools: keys, images, outputs, files
of a program, the folder of a session."""
import os
import pathlib
import subprocess

import pytest

import crafted
from conftest import process_exists, wait_for
from hostile_user import UID, folder_of_all, precious, user, victim  # noqa: F401

KEY = "0123456789abcdef" * 4 + "\n"


def tool(ckpt, name, *arguments, cwd=None):
    return subprocess.run([ckpt.tool(name), *map(str, arguments)], env=ckpt.env, cwd=cwd or ckpt.folder, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.fixture
def shared():
    """Without the sticky bit: any user may rename and remove what is in it."""
    with folder_of_all(0o777) as folder:
        yield folder


# ---- keys and images


@pytest.mark.parametrize("trick", ["readable", "foreign"])
def test_a_key_file_of_others_needs_an_option(ckpt, trick):
    key = ckpt.folder / "key"
    key.write_text(KEY)
    key.chmod(0o640 if trick == "readable" else 0o600)
    if trick == "foreign":
        os.chown(key, UID, UID)
    job = ckpt.run("counter", "1000", stdout="pipe")
    job.wait_lines(2)
    dump = ("ckpt-dump", job.pid, "-o", "image", "--key-file", key)
    said = "other users may access the key file" if trick == "readable" else f"belongs to uid {UID}"
    for command in (dump, ("ckpt-dump", "--all", "-o", ckpt.folder, "--key-file", key)):
        done = tool(ckpt, *command)
        assert done.returncode != 0 and said in done.stdout + done.stderr, done.stdout + done.stderr
    assert not list(ckpt.folder.glob("*image*")) and not list(ckpt.folder.glob("*.img")) and not ckpt.partials()
    assert job.process.poll() is None
    assert tool(ckpt, *dump, "--shared-key").returncode == 0
    job.wait()
    for command in (("ckpt-restore", "image"), ("ckpt-image", "verify", "image"), ("ckpt-restore", "--all", ckpt.folder)):
        done = tool(ckpt, *command, "--key-file", key)
        assert done.returncode == 1 and said in done.stderr and "--shared-key" in done.stderr, (command, done.stderr)
    assert tool(ckpt, "ckpt-image", "verify", "image", "--key-file", key, "--shared-key").returncode == 0


CHANGEABLE = {
    "folder of another user": lambda image: os.chown(image, UID, UID),
    "folder that others may write to": lambda image: image.chmod(0o777),
    "index of another user": lambda image: os.chown(image / "index.ckpt", UID, UID),
    "chunks of another user": lambda image: os.chown(image / "chunks.ckpt", UID, UID),
    "chunks that others may write to": lambda image: (image / "chunks.ckpt").chmod(0o666),
}


@pytest.mark.parametrize("trick", CHANGEABLE)
def test_an_image_that_others_can_change_needs_an_option(ckpt, trick):
    (ckpt.folder / "images").mkdir()
    image = crafted.write(ckpt.folder / "images" / "a.img")
    CHANGEABLE[trick](image)
    done = tool(ckpt, "ckpt-restore", image)
    assert done.returncode == 1 and "--trust-image" in done.stderr, done.stderr
    done = tool(ckpt, "ckpt-restore", "--all", "images")
    assert "0 restored" in done.stdout and ("other users may change" in done.stdout or "uid" in done.stdout or
                                            "another user" in done.stdout), done.stdout
    done = tool(ckpt, "ckpt-restore", "--trust-image", image)
    assert "--trust-image" not in done.stderr, done.stderr


@pytest.mark.parametrize("trick", ["folder of another user", "chunks that others may write to"])
def test_an_image_that_others_can_change_cannot_be_a_parent(ckpt, trick):
    """The new image would refer to it, so that it could not be restored either."""
    job = ckpt.run("counter", 100000)
    job.wait_lines(2)
    ckpt.dump(job.pid, "a.img", "--leave-running")
    CHANGEABLE[trick](ckpt.folder / "a.img")
    done = ckpt.dump_process(job.pid, "b.img", "--parent", "a.img")
    assert done.returncode == 1 and "a.img" in done.stderr and "--trust-image" in done.stderr, done.stderr
    assert not (ckpt.folder / "b.img").exists() and not ckpt.partials()
    job.wait_lines(len(job.lines) + 2)


# ---- --truncate-files


def grown(ckpt, folder, name="log"):
    """An image of a program that appends to a file, which has grown since."""
    path = folder / name
    program = f"import os, time\nf = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\nos.write(f, b'x' * 100)\n" \
              f"open('open', 'w')\ntime.sleep(1000)"
    job = ckpt.run("/usr/bin/python3", "-c", program)
    wait_for((ckpt.folder / "open").exists, "the program")
    ckpt.dump(job.pid, "image")
    job.wait()
    with open(path, "ab") as file:
        file.write(b"y" * 50)
    return path


@pytest.mark.parametrize("trick", ["link", "hard link", "read only"])
def test_truncate_files_cuts_no_file_that_took_the_name(ckpt, user, shared, precious, trick):
    """Between the tool's checks and the moment when it cuts, the user puts another file at the name: CRIU finds one of
    another size, and what the program itself has not open for writing is not cut."""
    path = grown(ckpt, shared)
    swap = {"link": f"ln -sf {precious} {path}", "hard link": f"ln -f {precious} {path}",
            "read only": f"mv {path} {path}.old"}[trick]
    criu = ckpt.folder / "criu-with-a-swap"
    real = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    criu.write_text(f'#!/bin/sh\n[ "$1" != restore ] || {swap}\nexec {real} "$@"\n')
    criu.chmod(0o755)
    job = ckpt.restore("image", "--truncate-files", env={"CKPT_CRIU": str(criu)})
    assert job.wait() == 1, job.error_text
    if trick == "read only":
        assert (path.parent / "log.old").stat().st_size == 150


def test_truncate_files_cuts_nothing_if_the_restore_fails(ckpt, shared):
    path = grown(ckpt, shared)
    failing = ckpt.folder / "failing"
    failing.write_text('#!/bin/sh\ncase "$*" in *--version*) echo Version: 4.2.1; exit 0;; esac\nexit 1\n')
    failing.chmod(0o755)
    assert ckpt.restore("image", "--truncate-files", env={"CKPT_CRIU": str(failing)}).wait() == 1
    assert path.stat().st_size == 150
    job = ckpt.restore("image", "--truncate-files")
    wait_for(lambda: path.stat().st_size == 100 or job.process.poll() is not None, "the restore")
    assert path.stat().st_size == 100, job.error_text


# ---- folders that others can write to


@pytest.mark.parametrize("sticky", [0o1777, 0o777], ids=["sticky", "not sticky"])
@pytest.mark.parametrize("what", ["link", "folder of an image", "folder of anything"])
def test_what_a_user_put_at_an_image_s_name_is_not_written_to(ckpt, user, shared, precious, sticky, what):
    """With --overwrite, too: the user's folder or link, and what it leads to, stay as they are."""
    shared.chmod(sticky)
    image = shared / "image"
    theirs = ckpt.folder / "theirs"
    if what == "link":
        crafted.write(theirs)
        assert user.run("ln", "-s", theirs, image).returncode == 0
    elif what == "folder of an image":
        assert user.run("sh", "-c", f"mkdir {image} && ln -s {precious} {image}/index.ckpt && ln -s {precious} "
                                    f"{image}/chunks.ckpt").returncode == 0
    else:
        assert user.run("sh", "-c", f"mkdir {image} && ln -s {precious} {image}/data").returncode == 0
    job = ckpt.run("sleep", "1000")
    program = job.program()
    for options in ((), ("--overwrite",)):
        done = ckpt.dump_process(job.pid, image, "--leave-running", *options)
        if what == "link":
            assert sorted(p.name for p in theirs.iterdir()) == ["chunks.ckpt", "index.ckpt"]
        if done.returncode == 0:
            assert options and not image.is_symlink() and image.stat().st_uid == 0 and image.stat().st_mode & 0o777 == 0o700
    assert process_exists(program)


def test_the_end_of_a_series_is_not_written_to_a_link(ckpt, user, shared, precious):
    """In a folder that others may write to."""
    for name in ("finished", "finished.new"):
        assert user.run("ln", "-s", precious, shared / name).returncode == 0
    job = ckpt.run("true", options=["--image", shared])
    assert job.wait() == 0 and "another user" in job.error_text, job.error_text


def test_a_ckptd_of_another_user_is_not_asked(ckpt, user):
    """Its socket has the name of root's own in /tmp."""
    path = pathlib.Path(f"/tmp/ckptd-{os.geteuid()}.sock")
    if path.exists():
        pytest.skip(f"{path} exists already")
    code = (f"import socket\ns = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); s.listen(1); open('named', 'w')\n"
            "s.accept(); open('asked', 'w')")
    user.start(["/usr/bin/python3", "-c", code])
    try:
        wait_for((user.folder / "named").exists, "the socket")
        env = {k: v for k, v in ckpt.env.items() if k not in ("CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR", "CKPTD_SOCKET")}
        done = subprocess.run([ckpt.tool("ckpt-top")], env=env, capture_output=True, text=True, timeout=60)
        assert "/run/ckptd.sock" in done.stderr or done.returncode == 0, done.stderr
        assert not (user.folder / "asked").exists()
    finally:
        path.unlink()


# ---- exchanged all the time

RENAME_EXCHANGE = 2


class Exchanger:
    """Another user's process that exchanges two names as fast as it can (renameat2(2))."""

    def __init__(self, user, a, b):
        code = ("import ctypes, sys\nlibc = ctypes.CDLL(None)\na, b = (x.encode() for x in sys.argv[1:])\n"
                f"while True: libc.renameat2(-100, a, -100, b, {RENAME_EXCHANGE})")
        self.process = user.start(["/usr/bin/python3", "-c", code, a, b])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def failing_criu(folder):
    """A CRIU that fails, with a log of its own."""
    criu = folder / "failing-criu"
    criu.write_text('#!/bin/sh\ncase "$*" in *--version*) echo Version: 4.2.1; exit 0;; esac\n'
                    'd=.; while [ $# -gt 0 ]; do case "$1" in -D) d=$2;; -o) o=$2;; esac; shift; done\n'
                    'echo "(00.1) Error (a.c:1): no" > "$d/$o"; exit 1\n')
    criu.chmod(0o755)
    return {"CKPT_CRIU": str(criu)}


ROUNDS = 60


@pytest.fixture
def link(shared, precious):
    """The user's link to root's file."""
    path = shared / "link"
    path.symlink_to(precious)
    os.chown(path, UID, UID, follow_symlinks=False)
    return path


def test_an_output_that_is_exchanged_with_a_link(ckpt, user, shared, link, precious):
    """Root's own earlier output has the name, which the user may exchange in this folder."""
    job = ckpt.run("counter", "1000", stdout="pipe")
    job.wait_lines(2)
    ckpt.dump(job.pid, "image")
    job.wait()
    out = shared / "out"
    out.write_text("earlier\n")
    env = dict(ckpt.env, **failing_criu(ckpt.folder))
    refused = 0
    with Exchanger(user, out, link):
        for _ in range(ROUNDS):
            done = subprocess.run([ckpt.tool("ckpt-restore"), "--detach", "--output", out, "image"], env=env, cwd=ckpt.folder,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            assert done.returncode == 1
            refused += "another user" in done.stderr
    assert 0 < refused < ROUNDS, "the names were not exchanged"


def test_the_name_of_a_log_that_is_exchanged_with_a_link(ckpt, user, shared, link, precious):
    log = shared / "image.criu.log"
    log.write_text("earlier\n")
    job = ckpt.run("sleep", "1000")
    job.program()
    with Exchanger(user, log, link):
        for _ in range(ROUNDS):
            done = ckpt.dump_process(job.pid, shared / "image", env=failing_criu(ckpt.folder))
            assert done.returncode == 1 and "its log is" in done.stdout, done.stdout
    assert job.process.poll() is None


@pytest.mark.parametrize("name", ["program", "foreign-children", "session.sock"])
def test_a_session_s_file_that_is_exchanged_all_the_time(ckpt, user, victim, name):
    """The user's own file, and one that leads to root's process, to root's socket."""
    roots = ckpt.run("sleep", "1000")
    theirs = wait_for(lambda: list(ckpt.runtime.glob("ckpt-*/session.sock")), "root's session")[0]
    keeper, session = user.keeper("sleep", "1000")
    program = int((session / "program").read_text())
    other = user.file("other", f"{victim.pid}\n")
    if name == "session.sock":
        other.unlink()
        other.symlink_to(theirs)
    with Exchanger(user, session / name, other):
        for i in range(ROUNDS // 3):
            subprocess.run([ckpt.tool("ckpt-ps")], env=ckpt.env, capture_output=True, timeout=60, check=True)
            ckpt.dump_process(program, f"image{i}", "--leave-running", "--timeout", "1", env=failing_criu(ckpt.folder))
            assert process_exists(program) and not (theirs.parent / "dump-under-way").exists()
    assert roots.process.poll() is None and not list(ckpt.folder.glob("image?"))
