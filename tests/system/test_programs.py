# SPDX-License-Identifier: Apache-2.0
"""ckpt-ps, ckpt-image list, ckpt-dump --all and ckpt-restore --all."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess

import pytest

import crafted
from conftest import BUILD, ROOT

STEPS = 100000


def run(ckpt, tool, *options, code=0):
    r = subprocess.run([ckpt.tool(tool), *map(str, options)], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, timeout=200)
    assert r.returncode == code, r.stdout + r.stderr
    return r.stdout


def own(ckpt, programs):
    """Other tests may run beside this one."""
    jobs = {job.pid for job in ckpt.jobs}
    return [p for p in programs if p["keeper"] in jobs or p["pid"] in ckpt.detached]


def ps(ckpt, *options):
    return own(ckpt, json.loads(run(ckpt, "ckpt-ps", "--json", *options)))


def start(ckpt):
    job = ckpt.run("counter", STEPS, 3)
    job.wait_lines(3)
    return job


@pytest.fixture
def alone(ckpt):
    """ckpt in a PID namespace of its own, so that --all finds the programs of this test only."""
    script = pathlib.Path(ckpt.folder / "script")

    def inside(text, code=0):
        script.write_text(text)
        command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-eu", script]
        env = {**ckpt.env, "PATH": f"{BUILD}/tools:{os.environ['PATH']}", "COUNTER": str(ckpt.programs / "counter")}
        r = subprocess.run(command, env=env, cwd=ckpt.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                           timeout=200)
        assert r.returncode == code, r.stdout + r.stderr
        return r.stdout

    return inside


def test_a_program_is_listed_with_its_last_image(ckpt):
    job = start(ckpt)
    (program,) = ps(ckpt)
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert program["pid"] == job.program() and program["user"] == user and program["state"] == "running"
    assert program["last_image"] is None and program["resident_bytes"] > 0 and "counter" in program["program"]
    ckpt.dump(job.pid, "one", "--leave-running")
    assert ps(ckpt)[0]["last_image"] == str(ckpt.folder / "one")
    text = run(ckpt, "ckpt-ps")
    assert text.split()[:3] == ["PID", "USER", "TIME"]
    line = next(line for line in text.splitlines() if line.startswith(f"{program['pid']} "))
    assert user in line and "counter" in line and " ago: " in line
    assert ps(ckpt, "--user", user) and not ps(ckpt, "--user", "nobody")
    run(ckpt, "ckpt-ps", "--user", "no-such-user", code=1)


def test_a_restored_program_is_listed_with_the_image_it_came_from(ckpt):
    job = start(ckpt)
    ckpt.dump(job.pid, "one")
    job.wait()
    pid = ckpt.restore_detached("one")
    (program,) = ps(ckpt)
    assert program["pid"] == pid and program["last_image"] == str(ckpt.folder / "one")


def test_images_are_listed(ckpt):
    job = start(ckpt)
    ckpt.dump(job.pid, "one", "--leave-running")
    ckpt.dump(job.pid, "two", "--leave-running", "--parent", "one")
    shutil.copytree(ckpt.folder / "one", ckpt.folder / "torn")
    with open(ckpt.folder / "torn" / "chunks.ckpt", "r+b") as f:
        f.truncate(100)
    shutil.copytree(ckpt.folder / "one", ckpt.folder / "flipped")
    with open(ckpt.folder / "flipped" / "chunks.ckpt", "r+b") as f:
        f.seek(5000)
        byte = f.read(1)
        f.seek(5000)
        f.write(bytes([byte[0] ^ 1]))
    (ckpt.folder / "three.partial-a1B2c3").mkdir()
    # Every byte is as it was written, but the description of the program lacks a part.
    crafted.write(ckpt.folder / "lacking", {"program": "/bin/true"}, streams=[crafted.stream("criu/pstree.img", 0, [])])

    def states(*options):
        listed = json.loads(run(ckpt, "ckpt-image", "list", "--json", *options, code=1))
        return {pathlib.Path(i["image"]).name: i["state"] for i in listed}, listed

    found, listed = states()
    assert found == {"one": "complete", "two": "complete", "torn": "damaged", "flipped": "complete", "lacking": "complete",
                     "three.partial-a1B2c3": "incomplete"}
    two = next(i for i in listed if i["image"].endswith("two"))
    assert two["parent"] == "one" and two["generation"] == 1 and "counter" in two["program"] and two["bytes"] > 0
    found, listed = states("--verify")
    assert found["flipped"] == "damaged" and found["one"] == "complete" and found["lacking"] == "cannot be restored"
    assert "manifest is damaged" in next(i["why"] for i in listed if i["image"].endswith("lacking"))
    text = run(ckpt, "ckpt-image", "list", code=1)
    assert text.splitlines()[0].split()[:2] == ["IMAGE", "CREATED"] and "damaged: " in text
    assert "there is no image" in run(ckpt, "ckpt-image", "list", ckpt.runtime)


START = """
"$COUNTER" 100000 3 >plain & ckpt-run "$COUNTER" 100000 3 >a & ckpt-run "$COUNTER" 100000 4 >b &
until [ "$(wc -l <a)" -ge 3 ] && [ "$(wc -l <b)" -ge 3 ]; do sleep 0.05; done
mkdir images
"""


def test_all_programs_are_dumped_and_restored(alone, ckpt):
    """Neither a program without ckpt-run, nor one that cannot be dumped, stops the others."""
    said = alone(START + """
ckpt-run python3 -c 'import os,time; fd = os.memfd_secret() if hasattr(os, "memfd_secret") else 0
import mmap, socket; a = socket.socket(socket.AF_VSOCK) ; print("up", flush=True); time.sleep(1000)' >c &
until grep -q up c; do sleep 0.05; done
ckpt-dump --all -o images && exit 1 || [ $? = 1 ]
ckpt-ps --json >left
ckpt-image list --json images >images.json
ckpt-restore --all images
ckpt-restore --all images
ckpt-ps --json >restored
touch finish
until [ "$(ckpt-ps --json | grep -c counter)" = 0 ]; do sleep 0.1; done
ckpt-restore --all images
""")
    lines = said.splitlines()
    assert [line.split()[0] for line in lines if line].count("dumped") == 2
    assert "FAILED" in said and "vsock" in said and "2 dumped, 1 failed" in said
    left = json.loads((ckpt.folder / "left").read_text())
    assert len(left) == 1 and "python3" in left[0]["program"]
    assert len(json.loads((ckpt.folder / "images.json").read_text())) == 2
    assert sum("counter" in p["program"] for p in json.loads((ckpt.folder / "restored").read_text())) == 2
    sums = [line for line in lines if " restored, " in line]
    assert sums == ["2 restored, 0 skipped, 0 failed", "0 restored, 2 skipped, 0 failed", "0 restored, 2 skipped, 0 failed"]
    assert said.count("the program is already running (PID ") == 2
    assert said.count("the program has ended by itself since") == 2
    for name in "ab":
        numbers = [int(n) for n in (ckpt.folder / name).read_text().split() if n.isdigit()]
        assert numbers == list(range(100000))


def test_the_newest_complete_image_of_a_program_is_restored(alone, ckpt):
    said = alone(START + """
keeper=$(pgrep -x ckpt-run | head -1)
for n in 1 2 3; do ckpt-dump "$keeper" -o images/$n --leave-running --quiet; sleep 1.1; done
pkill -KILL -x counter; wait
cp -r images/3 images/broken-3; mv images/broken-3 images/3.partial-a1B2c3
dd if=/dev/zero of=images/3/chunks.ckpt bs=1 seek=4500 count=20 conv=notrunc 2>/dev/null
ckpt-restore --all images --append-files
""")
    assert "1 restored, 3 skipped, 0 failed" in said
    assert "images/3 " in said and "damaged; the next older one is used" in said
    (restored,) = [line for line in said.splitlines() if line.startswith("restored ")]
    assert "images/2 " in restored
    assert "incomplete: its dump was killed" in said and "there is a newer one" in said


def test_older_images_of_the_same_programs_are_removed(alone, ckpt):
    alone(START + """
ckpt-dump --all -o images --leave-running --quiet
ls images >first
sleep 1.1
ckpt-dump --all -o images --leave-running --quiet --overwrite
ls images >second
""")
    first, second = ((ckpt.folder / name).read_text().split() for name in ("first", "second"))
    assert len(first) == len(second) == 2 and not set(first) & set(second)


def test_wrong_arguments_of_all(ckpt):
    run(ckpt, "ckpt-dump", "--all", code=125)
    run(ckpt, "ckpt-dump", "--all", "-o", "x", "1", code=125)
    run(ckpt, "ckpt-dump", "--user", "root", "-o", "x", code=125)
    run(ckpt, "ckpt-dump", "--all", "-o", "no-such-folder", code=1)
    run(ckpt, "ckpt-restore", "--all", "images", "image", code=125)
    run(ckpt, "ckpt-restore", "--all", "no-such-folder", code=1)


@pytest.mark.no_criu
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_the_unit_is_valid(tmp_path):
    text = (ROOT / "tools" / "ckpt-programs.service.in").read_text().replace("@BINDIR@", str(BUILD / "tools"))
    (tmp_path / "ckpt-programs.service").write_text(text)
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "ckpt-programs.service"], capture_output=True,
                       text=True, timeout=60)
    said = [line for line in (r.stdout + r.stderr).splitlines() if "ckpt-programs" in line]
    assert r.returncode == 0 and said == []
