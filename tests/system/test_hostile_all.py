# SPDX-License-Identifier: Apache-2.0
"""Root's ckpt-dump --all and ckpt-restore --all on several users' programs, one of them hostile: nothing runs with root's
rights, and nothing of the others is replaced, removed or left out."""
import json
import os
import re
import subprocess
import time

import crafted
import pytest

from conftest import commands_of, process_exists, tree_of, wait_for
from hostile_user import OTHER_UID, UID, other, user  # noqa: F401
from test_hostile_names import HOSTILE, harmless, named, start_named


def every(ckpt, tool, *arguments):
    done = subprocess.run([ckpt.tool(tool), "--all", *map(str, arguments)], env=ckpt.env, cwd=ckpt.folder, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=120)
    text = done.stdout + done.stderr
    assert harmless(text), text
    for pid in re.findall(r"PID (\d+)$", text, flags=re.M):
        ckpt.detached.append(int(pid))
    return done.returncode, text


def uids(pid):
    line = next(x for x in open(f"/proc/{pid}/status") if x.startswith("Uid"))
    return {int(x) for x in line.split()[1:]}


def manifest_of(ckpt, image):
    done = subprocess.run([ckpt.tool("ckpt-image"), "show", "--json", image], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_programs_of_several_users_are_restored_as_these_users(ckpt, user, other):
    """The hostile one has a name and a command line that lead elsewhere and look like options."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    start_named(user, *named("../../-x;id", HOSTILE, "--trust-image", "--output=/etc/passwd"))
    start_named(other, *named("quiet"))
    programs = {uid: next(p for p in tree_of(u.started[0].pid)) for uid, u in ((UID, user), (OTHER_UID, other))}
    code, text = every(ckpt, "ckpt-dump", "-o", folder)
    assert code == 0 and "2 dumped, 0 failed" in text, text
    names = sorted(p.name for p in folder.iterdir())
    assert len(names) == 2 and all(re.fullmatch(r"ckpt-[\w.-]+\.img", n) for n in names), names
    assert sorted(p.name for p in ckpt.folder.iterdir() if "x" in p.name) == []
    wait_for(lambda: not any(process_exists(p) for p in programs.values()), "the programs' end")
    # What is in the folder besides: names like options, links, and another user's image.
    crafted.write(folder / "--trust-image")
    (folder / "-o;touch forged").mkdir()
    theirs = crafted.write(folder / ("theirs" + HOSTILE.replace("/", "_")))
    for path in (theirs, *theirs.iterdir()):
        os.chown(path, UID, UID)
    (folder / "link.img").symlink_to(theirs)
    code, text = every(ckpt, "ckpt-restore", folder)
    assert "2 restored" in text and text.count("another user") >= 1, text
    assert not list(ckpt.folder.glob("**/forged"))
    owners = [uids(pid) for pid in ckpt.detached]
    assert sorted(owners, key=min) == [{UID}, {OTHER_UID}], owners


def test_a_program_that_names_another_session_does_not_keep_that_one_from_its_restore(ckpt, user):
    """$CKPT_SESSION of the hostile program is the victim's session, and it has the victim's PID."""
    theirs = "/tmp/ckpt-61235-abcdef"
    keeper, _ = user.keeper("env", f"CKPT_SESSION={theirs}/session.sock", "sleep", "1000")
    pid = wait_for(lambda: [p for p in tree_of(keeper.pid) if os.path.realpath(f"/proc/{p}/exe").endswith("sleep")], "sleep")[0]
    image = dict(crafted.MANIFEST, session_dir=theirs, root_pid=pid,
                 processes=[{"pid": pid, "group": pid, "session": pid, "threads": [pid]}])
    (ckpt.folder / "images").mkdir()
    crafted.write(ckpt.folder / "images" / "victim.img", manifest=image)
    _, text = every(ckpt, "ckpt-restore", "images")
    assert "the program is already running" not in text and "FAILED" in text, text  # crafted: CRIU finds nothing


def test_images_of_another_user_are_not_older_ones_of_a_program(ckpt, user):
    """A session folder and a PID that are free again may be another user's later."""
    keeper, session = user.keeper("sleep", "1000")
    pid = int((session / "program").read_text())
    folder = ckpt.folder / "images"
    folder.mkdir()
    for name, uid in (("mine.img", UID), ("victim.img", OTHER_UID)):
        crafted.write(folder / name, manifest=dict(crafted.MANIFEST, session_dir=str(session), root_pid=pid,
                                                   owner={"uid": uid, "gid": uid, "groups": []}))
    code, text = every(ckpt, "ckpt-dump", "-o", folder, "--overwrite")
    assert code == 0 and "1 dumped" in text, text
    left = sorted(p.name for p in folder.iterdir() if not p.name.startswith("ckpt-"))
    assert left == ["victim.img"], left


def test_programs_that_hang_do_not_delay_the_dumps_of_other_users(ckpt, user, other):
    """The first user's programs are more than are dumped at a time, and none of their dumps ends by itself. Users take turns,
    and what is not dumped in its user's time goes on."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    hanging = [user.keeper("sleep", "1000") for _ in range(5)]
    lock = "import fcntl, sys, time\nall = [open(n) for n in sys.argv[1:]]\nfor f in all: fcntl.flock(f, fcntl.LOCK_EX)\n" \
           "open('named', 'w')\ntime.sleep(1000)"
    user.start(["/usr/bin/python3", "-c", lock, *(session / "program" for _, session in hanging)])
    wait_for((user.folder / "named").exists, "the locks")
    programs = [next(p for p in tree_of(keeper.pid)) for keeper, _ in hanging]
    theirs = [other.keeper("sleep", "1000")[0] for _ in range(2)]
    for keeper in theirs:
        assert process_exists(keeper.pid)
    job = ckpt.start("ckpt-dump", ["--all", "--user-time=20", "-o", str(folder)])
    assert job.wait() == 1
    assert job.text.count("the time for the programs of its user is over") == 5 and "2 dumped, 5 failed" in job.text, job.text
    assert all(process_exists(p) for p in programs) and len(list(folder.glob("*.img"))) == 2


WAITS = "import fcntl, sys, time\nf = open(sys.argv[1], 'a')\nfcntl.flock(f, fcntl.LOCK_EX)\nopen(sys.argv[1] + '.has', 'w')\ntime.sleep(1000)"


@pytest.mark.full
def test_programs_that_never_become_ready_do_not_delay_the_restores_of_other_users(ckpt, user, other):
    """The first user's restores wait for locks that another process of this user holds. What is not restored in the user's time
    is given up, nothing is left of it, and it can be restored later."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    other.keeper("sleep", "1000")
    code, text = every(ckpt, "ckpt-dump", "-o", folder)
    assert code == 0 and "1 dumped" in text, text
    time.sleep(1.1)  # the newest images come first, and their time has seconds
    for name in "ab":
        user.keeper("/usr/bin/python3", "-c", WAITS, user.folder / name)
        wait_for((user.folder / f"{name}.has").exists, "the lock")
    code, text = every(ckpt, "ckpt-dump", "-o", folder)
    assert code == 0 and "2 dumped" in text, text
    holder = "import fcntl, sys, time\nall = [open(n) for n in sys.argv[1:]]\nfor f in all: fcntl.flock(f, fcntl.LOCK_EX)\n" \
             "open('held', 'w')\ntime.sleep(1000)"
    holds = user.start(["/usr/bin/python3", "-c", holder, user.folder / "a", user.folder / "b"])
    wait_for((user.folder / "held").exists, "the locks")
    code, text = every(ckpt, "ckpt-restore", folder, "--user-time=25")
    assert code == 1 and "1 restored, 0 skipped, 2 failed" in text, text
    assert text.count("the time for the programs of its user is over") == 2, text
    assert [uids(pid) for pid in ckpt.detached] == [{OTHER_UID}]
    wait_for(lambda: [p for p in os.listdir("/proc") if p.isdigit() and user.owns(p) and commands_of([int(p)])] == [str(holds.pid)],
             "the end of the restores")
    holds.kill()
    holds.wait()
    code, text = every(ckpt, "ckpt-restore", folder)
    assert code == 0 and "2 restored, 1 skipped, 0 failed" in text, text
