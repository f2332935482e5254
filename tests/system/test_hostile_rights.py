# SPDX-License-Identifier: Apache-2.0
"""Programs of a hostile user with one right that the user has not. Root's tools, whose CRIU would open files by names that
the user can change, give them nothing: each field of an identity by itself, before the dump and during it."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
import xxhash

from conftest import PROGRAMS, process_exists, tree_of, wait_for
from hostile_user import UID, user  # noqa: F401
from test_hostile_all import every

GID = 12345
# What is said about a process of which one field differs.
FIELDS = {"real_gid": f"has gid {GID} instead of {UID}", "effective_gid": f"has gid {GID}", "saved_gid": f"has gid {GID}",
          "file_system_gid": f"has gid {GID}", "group": f"has the groups {GID} instead of no groups",
          "thread_gid": f"thread %d of process %d has gid {GID}", "saved_uid": f"has the rights of uid 0 and {UID}",
          "inheritable": "has capabilities (CAP_KILL)", "permitted": "has capabilities (CAP_KILL)",
          "ambient": "has capabilities (CAP_KILL)", "user_namespace": "another user namespace",
          "securebits": "has the securebits 0x40"}  # which only CRIU's own files show


@pytest.fixture(scope="module")
def rights():
    """programs/hostile/rights.c, setuid."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rights-"))
    folder.chmod(0o755)
    program = folder / "rights"
    subprocess.run(["cc", "-o", program, PROGRAMS / "hostile" / "rights.c", "-lpthread"], check=True)
    program.chmod(0o4755)
    yield program
    shutil.rmtree(folder)


def names_below(pid):
    found = {}
    for p in tree_of(pid):
        try:
            found[p] = pathlib.Path(f"/proc/{p}/comm").read_text().strip()
        except OSError:
            pass
    return found


def started(user, rights, field):
    """The keeper, and the process with the right below a shell of the user's alone."""
    keeper, _ = user.keeper("sh", "-c", f"{rights} {field} & wait")
    pid = wait_for(lambda: [p for p, name in names_below(keeper.pid).items() if name == "rights" and is_ready(p)],
                   f"the process with {field}")[0]
    return keeper, pid


def is_ready(pid):
    """It has given up what it had as a setuid program, but for one field."""
    try:
        fields = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        wait = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except (OSError, ValueError):
        return False
    return fields["Uid"].split()[0] == str(UID) and wait == "34"  # pause


def test_a_right_that_the_user_has_not_is_refused(ckpt, user, rights):
    """One row a field: root's ckpt-dump --all leaves the program alone, and says which process has what."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    programs = {field: started(user, rights, field) for field in FIELDS}
    code, text = every(ckpt, "ckpt-dump", "-o", folder)
    assert code == 1 and f"0 dumped, {len(FIELDS)} failed" in text, text
    assert list(folder.iterdir()) == []
    for field, (keeper, pid) in programs.items():
        assert keeper.poll() is None and process_exists(pid), field
        said = next((part for part in text.split("FAILED") if re.search(rf"process {pid}\b", part)), "")
        pattern = re.escape(FIELDS[field]).replace("%d", r"\d+")
        assert re.search(pattern, said), (field, text)


def test_a_right_that_is_gained_during_the_dump_undoes_it(ckpt, user, rights):
    """Another group does not keep the user's CRIU from the process, and only CRIU's own files show it."""
    keeper, _ = user.keeper("sh", "-c", f"until [ -e {user.folder}/now ]; do sleep 0.05; done; {rights} group")
    dump = subprocess.Popen([ckpt.tool("ckpt-dump"), str(keeper.pid), "-o", "image"], cwd=ckpt.folder, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=dict(ckpt.env, CKPT_TEST_HOLD_AT="criu"))
    stat = pathlib.Path(f"/proc/{dump.pid}/stat")
    wait_for(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "the step criu")
    user.file("now")
    wait_for(lambda: "rights" in [name for p, name in names_below(keeper.pid).items() if is_ready(p)], "the new right")
    dump.send_signal(signal.SIGCONT)
    text, _ = dump.communicate(timeout=90)
    assert dump.returncode == 1 and "got other rights in the middle" in text and f"has the groups {GID}" in text, text
    assert keeper.poll() is None and not (ckpt.folder / "image").exists()
    wait_for(lambda: [p for p in names_below(keeper.pid) if is_ready(p)], "the program to go on")


def test_all_leaves_what_it_could_not_restore(ckpt):
    """Root has started it for a user: only --as-root could restore it."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    job = ckpt.run("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "sleep", "1000")
    wait_for(lambda: "sleep" in names_below(job.pid).values(), "the change of the user")
    code, text = every(ckpt, "ckpt-dump", "-o", folder)
    assert code == 1 and "--as-root can restore it" in text and f"belongs to uid {UID}" in text, text
    assert job.process.poll() is None and list(folder.iterdir()) == []
    code, text = every(ckpt, "ckpt-restore", folder, "--as-root")
    assert code == 125 and "--as-root cannot be combined with --all" in text, text


def change_manifest(image, old, new):
    """Of the same length, so that only the checksum of the index changes too."""
    index = image / "index.ckpt"
    data = index.read_bytes()[:-8].replace(old, new)
    index.write_bytes(data + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little"))


def test_root_s_rights_need_as_root(ckpt, user):
    """An image of a user's program whose owner is gone, or is said to be another one."""
    keeper, _ = user.keeper("sleep", "1000")
    done = subprocess.run([ckpt.tool("ckpt-dump"), str(keeper.pid), "-o", "a.img", "--json"], cwd=ckpt.folder, env=ckpt.env,
                          capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout
    owner = json.dumps({"gid": UID, "groups": [], "uid": UID}, separators=(",", ":")).encode()
    for new, says in ((owner.replace(b"uid", b"uix"), None),
                      (owner.replace(b'"uid":61234', b'"uid":00000'), None),
                      (owner.replace(b'"uid":61234', b'"uid":61235'), "names uid 61235 as its owner"),
                      (owner.replace(b'"gid":61234', b'"gid":61235'), "its processes have other groups")):
        image = ckpt.folder / "b.img"
        shutil.copytree(ckpt.folder / "a.img", image)
        change_manifest(image, owner, new)
        restore = subprocess.run([ckpt.tool("ckpt-restore"), "--detach", image], cwd=ckpt.folder, env=ckpt.env,
                                 capture_output=True, text=True, timeout=90)
        assert restore.returncode == 1, (new, restore.stdout)
        if says:
            assert says in restore.stderr and "add --as-root" in restore.stderr, restore.stderr
        shutil.rmtree(image)
    image = ckpt.folder / "b.img"
    shutil.copytree(ckpt.folder / "a.img", image)
    change_manifest(image, b'"owner"', b'"ownez"')
    restore = subprocess.run([ckpt.tool("ckpt-restore"), "--detach", image], cwd=ckpt.folder, env=ckpt.env,
                             capture_output=True, text=True, timeout=90)
    assert restore.returncode == 1 and f"names no owner, and its processes belong to uid {UID}" in restore.stderr, restore.stderr


def test_an_image_of_root_without_an_owner_is_restored(ckpt):
    """As images of earlier versions, of programs of root with other groups."""
    job = ckpt.run("setpriv", "--groups", "12345", "sleep", "1000")
    ckpt.dump(job.pid, "a.img")
    change_manifest(ckpt.folder / "a.img", b'"owner"', b'"ownez"')
    done = subprocess.run([ckpt.tool("ckpt-restore"), "--detach", "a.img"], cwd=ckpt.folder, env=ckpt.env,
                          capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout)
    ckpt.detached.append(pid)
    assert dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status"))["Groups"].split() == ["12345"]
