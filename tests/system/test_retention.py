# SPDX-License-Identifier: Apache-2.0
"""ckpt-image rm, keep and list of a tree: what goes, and what must stay."""
import fcntl
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

import crafted
from conftest import BUILD, DEADLINE
from test_storage import counter, counts_on

DAY = 86400


def image_tool(folder, *words, **more):
    return subprocess.run([BUILD / "tools/ckpt-image", *map(str, words)], cwd=folder, capture_output=True, text=True,
                          timeout=DEADLINE, **more)


def names(folder):
    return sorted(p.name for p in folder.iterdir() if p.is_dir())


def refused(folder, *words):
    """The reasons; everything is still there."""
    before = names(folder)
    r = image_tool(folder, *words, "--json")
    assert r.returncode == 1 and names(folder) == before, r.stdout + r.stderr
    error = json.loads(r.stdout)["error"]
    assert error["code"] == 1 and error["kind"] == ("refused" if error["reasons"] else "failed")
    return error


@pytest.fixture
def chain(ckpt):
    """A running program, and three images of it: one, and the increments two and three."""
    folder = ckpt.folder / "images"
    folder.mkdir()
    job = counter(ckpt)
    ckpt.dump(job.pid, "images/one", "--leave-running")
    ckpt.dump(job.pid, "images/two", "--leave-running", "--parent", "images/one")
    ckpt.dump(job.pid, "images/three", "--leave-running", "--parent", "images/two")
    return ckpt, job, folder


def parents(folder, name):
    """An increment needs only those of the images before it that have chunks for it."""
    return {p["name"] for p in json.loads(image_tool(folder, "show", "--json", name).stdout)["parents"]}


def test_an_image_is_removed_after_its_increments(chain):
    ckpt, job, folder = chain
    assert "one" in parents(folder, "two") & parents(folder, "three")
    assert refused(folder, "rm", "one")["reasons"] == ["one is needed by the increment three", "one is needed by the increment two"]
    assert "one is needed by the increment three" in refused(folder, "rm", "one", "two")["reasons"]
    said = image_tool(folder, "rm", "-n", "three")
    assert said.stdout.startswith("would remove  ./three\nwould free  ") and "three" in names(folder)
    report = json.loads(image_tool(folder, "rm", "--json", "three/").stdout)
    assert report["removed"] == ["./three"] and report["bytes"] > 0 and report["dry_run"] is False
    assert names(folder) == ["one", "two"]
    (folder / "two.ended").touch()
    # However the folder is called.
    r = image_tool(folder, "rm", "two", f"{folder}/one")
    assert r.returncode == 0 and r.stdout.startswith("removed  ./one\nremoved  ./two\nfreed  "), r.stderr
    assert list(folder.iterdir()) == []


def test_what_is_left_of_a_chain_is_restored(chain):
    ckpt, job, folder = chain
    assert image_tool(folder, "rm", "three").returncode == 0
    counts_on(ckpt.restore("images/two"), 3)


def test_mistakes_remove_nothing(chain):
    ckpt, job, folder = chain
    (folder / "notes").mkdir()
    (folder / "notes/text").touch()
    (folder / "link").symlink_to("three")
    (folder / "torn.partial-a1B2c3").mkdir()
    shutil.copytree(folder / "one", folder / "full")
    (folder / "full/mine").touch()
    for name, why in (("notes", "notes is not an image: it has no index.ckpt"), ("absent", "there is no ./absent"),
                      ("link", "./link is a link"), ("torn.partial-a1B2c3", "is incomplete"), (".", "is not an image"),
                      ("full", "contains files that do not belong to an image"), ("..", "is not an image")):
        reasons = refused(folder, "rm", "three", name)["reasons"]
        assert len(reasons) == 1 and why in reasons[0], reasons
    assert "cannot read the folder" in refused(folder, "rm", "nowhere/x")["what"]
    for words in (["rm"], ["keep", "."], ["keep", "--last", "0", "."], ["keep", "--within", "soon", "."], ["keep", "--last", "1"]):
        r = image_tool(folder, *words)
        assert r.returncode in (1, 125) and names(folder), words
    assert "no rule says" in image_tool(folder, "keep", ".").stderr
    assert "is not a duration" in image_tool(folder, "keep", "--within", "soon", ".").stderr


def test_an_image_in_use_stays(chain):
    """A dump holds a shared lock on its parents (storage/chunk/chunk_files.cc)."""
    ckpt, job, folder = chain
    lock = os.open(folder / "three", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    assert refused(folder, "rm", "three")["reasons"] == ["three is the parent of a dump in progress"]
    time.sleep(1.1)  # an image says in which second it was written
    ckpt.dump(job.pid, "images/four", "--leave-running")
    report = json.loads(image_tool(folder, "keep", "--last", "1", "--json", ".").stdout)
    kept = {pathlib.Path(k["image"]).name: k["reasons"] for k in report["kept"]}
    needed = dict.fromkeys(parents(folder, "three"), ["needed by an increment"])
    assert kept == {"four": ["last"], "three": ["parent of a dump in progress"], **needed}
    assert names(folder) == sorted(kept)
    os.close(lock)
    assert image_tool(folder, "keep", "--last", "1", "--json", ".").returncode == 0 and names(folder) == ["four"]


def test_another_user_s_images_stay(chain):
    """Also for root: a command that runs as the owner removes them."""
    ckpt, job, folder = chain
    other = pwd.getpwnam("daemon")
    for path in (folder / "three", *(folder / "three").iterdir()):
        os.chown(path, other.pw_uid, other.pw_gid)
    assert "belongs to daemon" in refused(folder, "rm", "three")["reasons"][0]
    report = json.loads(image_tool(folder, "keep", "--last", "1", "--json", ".").stdout)
    assert [pathlib.Path(i["image"]).name for i in report["left"]] == ["three"] and report["removed"] == []


@pytest.mark.no_criu
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_user_removes_none_of_root_s_images():
    """Even in a folder that all may write to."""
    other = pwd.getpwnam("daemon")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o1777)
        crafted.write(folder / "one", crafted.MANIFEST)
        crafted.write(folder / "two", crafted.MANIFEST)
        for path in (folder / "two", *(folder / "two").iterdir()):
            os.chown(path, other.pw_uid, other.pw_gid)
        shutil.copy(BUILD / "tools/ckpt-image", folder / "tool")

        def as_other(*words):
            return subprocess.run([folder / "tool", *words], cwd=folder, user=other.pw_uid, group=other.pw_gid, extra_groups=[],
                                  capture_output=True, text=True, timeout=DEADLINE)

        r = as_other("rm", "one", "two")
        assert r.returncode == 1 and "./one belongs to root" in r.stderr and names(folder) == ["one", "two"], r.stderr
        assert as_other("rm", "two").returncode == 0 and names(folder) == ["one"]


def test_a_damaged_image_goes_first(chain):
    """It may need any other image, so that these stay until it is gone."""
    ckpt, job, folder = chain
    os.truncate(folder / "three/chunks.ckpt", 100)
    assert "three cannot be read, and may need two" in refused(folder, "rm", "two")["reasons"][0]
    error = refused(folder, "keep", "--last", "1", ".")
    assert "cannot be read, and may need others" in error["what"] and error["hint"].endswith("ckpt-image rm ./three")
    assert image_tool(folder, "rm", "three").returncode == 0
    assert image_tool(folder, "keep", "--last", "1", ".").returncode == 0
    assert names(folder) == sorted({"two"} | parents(folder, "two"))


def test_an_image_of_a_job_belongs_to_its_checkpoint(ckpt):
    folder = ckpt.folder / "job/0001"
    folder.mkdir(parents=True)
    (ckpt.folder / "job/members").mkdir()
    (ckpt.folder / "job/key").touch()
    crafted.write(folder / "a.img", crafted.MANIFEST)
    for words in (["rm", "a.img"], ["keep", "--last", "1", "."]):
        assert "checkpoint of a job" in refused(folder, *words)["what"]
    r = image_tool(ckpt.folder, "keep", "-r", "--last", "1", ".")
    assert r.returncode == 0 and r.stdout.startswith("0 of 0 images removed")


def aged(folder, name, days, pid=100, **more):
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_744_804_800 - days * DAY))
    return crafted.write(folder / name, dict(crafted.MANIFEST, created=when, root_pid=pid, **more))


def test_rules_apply_to_each_program(ckpt):
    folder = ckpt.folder / "images"
    folder.mkdir()
    for days in range(10):
        aged(folder, f"a{days}", days)
    for days in (0, 3):
        aged(folder, f"b{days}", days, pid=200)
    words = ["keep", "--last", "1", "--daily", "3", "--monthly", "1", "--json"]
    report = json.loads(image_tool(folder, *words, "-n", ".").stdout)
    kept = {pathlib.Path(k["image"]).name: k["reasons"] for k in report["kept"]}
    assert kept == {"a0": ["last", "daily", "monthly"], "a1": ["daily"], "a2": ["daily"],
                    "b0": ["last", "daily", "monthly"], "b3": ["daily"]}
    assert report["dry_run"] and len(names(folder)) == 12
    by_folder = json.loads(image_tool(folder, *words, "-n", "--by", "folder", ".").stdout)
    assert {pathlib.Path(k["image"]).name for k in by_folder["kept"]} == {"b0", "a1", "a2"}
    within = json.loads(image_tool(folder, "keep", "--within", "2d", "-n", "--json", ".").stdout)
    assert {pathlib.Path(k["image"]).name for k in within["kept"]} == {"a0", "a1", "a2", "b0"}
    assert image_tool(folder, *words, ".").returncode == 0
    assert names(folder) == ["a0", "a1", "a2", "b0", "b3"]


def test_images_of_programs_that_write_no_more(ckpt):
    folder = ckpt.folder / "images"
    folder.mkdir()
    today = (time.time() - 1_744_804_800) / DAY  # aged() counts from another day
    for name, days, pid in (("a0", 1, 100), ("a1", 40, 100), ("b0", 31, 200), ("b1", 45, 200)):
        aged(folder, name, days - today, pid)
    report = json.loads(image_tool(folder, "keep", "--last", "1", "--unused", "30d", "-n", "--json", ".").stdout)
    assert {pathlib.Path(k["image"]).name: k["reasons"] for k in report["kept"]} == {"a0": ["last"]}
    assert image_tool(folder, "keep", "--unused", "46d", ".").returncode == 0 and len(names(folder)) == 4
    assert "is not a duration" in image_tool(folder, "keep", "--unused", "soon", ".").stderr
    report = json.loads(image_tool(folder, "keep", "--unused", "30d", "--json", ".").stdout)
    assert {pathlib.Path(k["image"]).name: k["reasons"] for k in report["kept"]} == {"a0": ["used"], "a1": ["used"]}
    assert names(folder) == ["a0", "a1"]


def test_room_is_made_by_the_oldest(ckpt):
    folder = ckpt.folder / "images"
    folder.mkdir()
    for days in range(4):
        aged(folder, f"a{days}", days)
    aged(folder, "b9", 9, pid=200)
    each = max(i["disk_bytes"] for i in json.loads(image_tool(folder, "list", "--json", ".").stdout))

    def kept(*words):
        report = json.loads(image_tool(folder, "keep", "-n", "--json", *words, ".").stdout)
        return {pathlib.Path(k["image"]).name: k["reasons"] for k in report["kept"]}

    assert set(kept("--max-size", 5 * each)) == {"a0", "a1", "a2", "a3", "b9"}
    # b9 is the oldest, and the newest of its program.
    assert kept("--max-size", 3 * each) == dict.fromkeys(["a0", "a1", "b9"], ["max-size"])
    assert kept("--max-size", 3 * each, "--by", "folder").keys() == {"a0", "a1", "a2"}
    assert kept("--last", "2", "--max-size", 3 * each).keys() == {"a0", "a1", "b9"}
    assert kept("--last", "2", "--max-size", 2 * each).keys() == {"a0", "b9"}
    r = image_tool(folder, "keep", "--max-size", each // 2, "--json", ".")
    report = json.loads(r.stdout)
    assert r.returncode == 1 and names(folder) == ["a0", "b9"] and len(report["removed"]) == 3
    assert "more than --max-size, because each is the newest" in report["failures"][0] and report["failures"][0] in r.stderr
    for wrong in ("0", "-1", "much"):
        assert image_tool(folder, "keep", "--max-size", wrong, ".").returncode == 125


def test_room_is_not_made_by_what_an_increment_needs(chain):
    ckpt, job, folder = chain
    needed = parents(folder, "three")
    r = image_tool(folder, "keep", "--max-size", "1", "--json", ".")
    assert r.returncode == 1 and names(folder) == sorted(needed | {"three"})
    counts_on(ckpt.restore("images/three"), 3)


def test_a_tree(ckpt):
    top = ckpt.folder / "tree"
    for user in ("ada", "bob/deep"):
        (top / user).mkdir(parents=True)
        for days in range(3):
            aged(top / user, f"i{days}", days)
    (top / "loop").symlink_to(".")
    os.truncate(top / "bob/deep/i2/index.ckpt", 10)
    listed = json.loads(image_tool(top, "list", "-r", "--json", ".").stdout)
    assert len(listed) == 6 and all(i["disk_bytes"] > 0 for i in listed)
    assert [i["age_seconds"] > DAY for i in listed] == [True] * 5 + [False]  # what cannot be read is as old as its files
    text = image_tool(top, "list", "--recursive", ".").stdout
    assert text.count("\n\n") == 2 and "./ada:\nIMAGE" in text and "./bob/deep:\nIMAGE" in text
    assert text.splitlines()[-1].startswith("6 images, ") and text.splitlines()[-1].endswith(" on the disk")
    # A folder with a damaged image is left, and the others are done.
    r = image_tool(top, "keep", "-r", "--last", "1", "--json", ".")
    report = json.loads(r.stdout)
    assert r.returncode == 1 and "bob/deep/i2" in report["failures"][0] and "bob/deep/i2" in r.stderr
    assert names(top / "ada") == ["i0"] and names(top / "bob/deep") == ["i0", "i1", "i2"]
    assert image_tool(top, "list", "-r", "nowhere").returncode == 1
