# SPDX-License-Identifier: Apache-2.0
"""Images that carry the files that their program only reads (ckpt-dump --with-files): what is missing or differs where they
are restored comes from the image."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

import rootless
from carried import LINE, build_library, build_program, change, supplied_files
from conftest import BUILD, ROOT, image_manifest, receive_exactly, tree_of, wait_for
from test_kills import kill
from test_restore import refused

CHANGES = ["library", "executable", "data", "all"]


@pytest.fixture
def program(ckpt):
    return build_program(ckpt.folder)


def dumped(ckpt, program, *options):
    job = ckpt.run(program)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", *options)
    assert job.wait() == 85


def goes_on(ckpt, image):
    copy = ckpt.restore(image)
    copy.wait_lines(3)
    return copy


def ends(ckpt, *copies):
    ckpt.finish()
    for copy in copies:
        assert copy.wait() == 0, copy.error_text
        assert set(copy.lines) == {LINE}, copy.lines
    left = [p for p in ckpt.runtime.rglob("*") if p.is_file()]
    assert left == []


@pytest.mark.parametrize("what", ["library", "executable", "data"])
def test_without_carried_files_a_restore_is_refused_and_names_the_remedy(ckpt, program, what):
    dumped(ckpt, program)
    change(ckpt.folder, what)
    assert "--with-files" in refused(ckpt, "one")


@pytest.mark.parametrize("what", CHANGES)
def test_what_differs_or_is_missing_comes_from_the_image(ckpt, program, what):
    dumped(ckpt, program, "--with-files")
    change(ckpt.folder, what)
    copy = goes_on(ckpt, "one")
    assert "from the image" in copy.error_text
    ends(ckpt, copy)


def test_what_is_the_same_is_used_where_it_is(ckpt, program):
    dumped(ckpt, program, "--with-files")
    (ckpt.folder / "libanswer.so").touch()
    copy = goes_on(ckpt, "one")
    maps = pathlib.Path(f"/proc/{copy.program()}/maps").read_text()
    assert str(ckpt.folder / "libanswer.so") in maps and not supplied_files(copy.program())
    ends(ckpt, copy)
    assert "from the image" not in copy.error_text


def test_a_library_of_the_same_size_is_found_by_its_contents(ckpt, program):
    """CRIU would find another build ID, but only after it has begun."""
    dumped(ckpt, program, "--with-files")
    size = (ckpt.folder / "libanswer.so").stat().st_size
    build_library(ckpt.folder, 2)
    assert (ckpt.folder / "libanswer.so").stat().st_size == size
    ends(ckpt, goes_on(ckpt, "one"))


def test_two_restores_at_once(ckpt, program):
    dumped(ckpt, program, "--with-files")
    change(ckpt.folder, "all")
    ends(ckpt, goes_on(ckpt, "one"), goes_on(ckpt, "one"))


def test_from_an_encrypted_image_through_a_pipe(ckpt, program):
    key = ckpt.folder / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    job = ckpt.run(program)
    job.wait_lines(3)
    with open(ckpt.folder / "one", "wb") as image:
        dump = [ckpt.tool("ckpt-dump"), str(job.pid), "-o", "-", "--with-files", "--key-file", "key"]
        subprocess.run(dump, env=ckpt.env, cwd=ckpt.folder, stdout=image, check=True, timeout=120)
    assert job.wait() == 85
    change(ckpt.folder)
    with open(ckpt.folder / "one", "rb") as image:
        copy = ckpt.restore("-", "--key-file", "key", stdin=image)
        copy.wait_lines(3)
    ends(ckpt, copy)


def test_before_the_memory_is_loaded(ckpt, program):
    dumped(ckpt, program, "--with-files")
    change(ckpt.folder)
    copy = ckpt.restore("one", "--lazy")
    copy.wait_lines(3)
    ends(ckpt, copy)


@pytest.mark.parametrize("options", [[], ["--with-files"]])
def test_a_restored_program_can_be_dumped_again(ckpt, program, options):
    """Its files are in the folder of a session that ends, so the image carries them without being asked."""
    dumped(ckpt, program, "--with-files")
    change(ckpt.folder, "all")
    first = goes_on(ckpt, "one")
    ckpt.dump(first.pid, "two", *options)
    assert first.wait() == 85
    assert image_manifest(ckpt.folder / "two")["manifest"]["program"] == str(program)
    second = goes_on(ckpt, "two")
    ckpt.dump(second.pid, "three", "--parent", "two")
    assert second.wait() == 85
    ends(ckpt, goes_on(ckpt, "three"))


def test_a_killed_restore_leaves_no_files(ckpt, program):
    dumped(ckpt, program, "--with-files")
    change(ckpt.folder, "all")
    copy = goes_on(ckpt, "one")
    kill([copy.pid, *tree_of(copy.pid)])
    assert list(ckpt.runtime.rglob("libanswer.so"))
    ends(ckpt, goes_on(ckpt, "one"))


PYTHON = """
import ctypes, json, pathlib, sys, time
sys.path.insert(0, ".")
import own
while not pathlib.Path("finish").exists():
    print(ctypes.CDLL("./libanswer.so").answer(), json.dumps(own.text), flush=True)
    time.sleep(0.02)
"""


def test_python_with_its_modules(ckpt, program):
    (ckpt.folder / "own.py").write_text("text = 'module'")
    job = ckpt.run("/usr/bin/python3", "-c", PYTHON)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", "--with-files")
    assert job.wait() == 85
    change(ckpt.folder, "library")
    copy = goes_on(ckpt, "one")
    ckpt.finish()
    assert copy.wait() == 0 and set(copy.lines) == {'1 "module"'}, copy.error_text


def test_a_library_of_the_machines_driver_is_left_out(ckpt, program):
    """It works with the kernel module of its own version alone. NVML's may stay loaded in a dump."""
    driver = ckpt.folder / "libnvidia-ml.so.999.1"
    shutil.copy(ckpt.folder / "libanswer.so", driver)
    job = ckpt.run("env", f"LD_PRELOAD={driver}", program)
    job.wait_lines(3)
    why = {f["path"]: f["why"] for f in report_of_check(ckpt, job.pid, "--with-files")["carried"]["left_out"]}
    assert why == {str(driver): "it belongs to the driver of this machine"}
    ckpt.dump(job.pid, "one", "--with-files")
    assert job.wait() == 85
    change(ckpt.folder, "library")
    os.rename(ckpt.folder / "libanswer.so", driver)
    assert f"{driver}, which the program has mapped, has changed" in refused(ckpt, "one")
    driver.unlink()
    said = refused(ckpt, "one")
    assert "needs the version of NVIDIA's driver with which it was dumped" in said and "--with-files" not in said


def test_show_and_verify(ckpt, program):
    dumped(ckpt, program, "--with-files", "--with-files-up-to=0")
    carried = {f["path"] for f in image_manifest(ckpt.folder / "one")["manifest"]["carried_files"]}
    assert {str(program), str(ckpt.folder / "libanswer.so")} <= carried
    assert str(ckpt.folder / "data") not in carried  # it has no code
    tool = ckpt.tool("ckpt-image")
    if not os.path.exists(tool):
        tool = ckpt.tool("image/ckpt-image")
    shown = subprocess.run([tool, "show", "one"], cwd=ckpt.folder, capture_output=True, text=True, check=True).stdout
    assert f"{len(carried)} files" in shown and "libanswer.so" in shown
    subprocess.run([tool, "verify", "one"], cwd=ckpt.folder, check=True, stdout=subprocess.DEVNULL)


def test_ckpt_run_gives_the_option_to_its_images(ckpt, program):
    job = ckpt.run(program, options=["--every=1s", "--with-files", "--image-dir=."])
    wait_for(lambda: list(ckpt.folder.glob("ckpt-own-*.img")), "an image")
    image = sorted(ckpt.folder.glob("ckpt-own-*.img"))[0]
    ckpt.finish()
    assert job.wait() == 0
    assert image_manifest(image)["manifest"]["carried_files"]


def test_ckpt_run_gives_the_option_to_the_images_of_a_continued_batch_job(ckpt, program):
    for image in ("0001.img", "0002.img"):
        job = ckpt.run(program, options=["--image=series", "--with-files"])
        job.wait_lines(3)
        os.kill(job.pid, signal.SIGTERM)
        assert job.wait() == 85, job.error_text
        assert image_manifest(ckpt.folder / "series" / image)["manifest"]["carried_files"], image


def report_of_check(ckpt, pid, *options):
    r = subprocess.run([ckpt.tool("ckpt-dump"), "--check", "--json", str(pid), *options], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, timeout=120)
    assert r.stdout, r.stderr
    return json.loads(r.stdout)


def test_the_check_says_what_would_be_carried_and_what_would_not(ckpt, program):
    """The dump does as the check says, and reports it."""
    (ckpt.folder / "large").write_bytes(b"x" * (2 << 20))
    (ckpt.folder / "own-log").touch()
    (ckpt.folder / "others-log").touch()
    (ckpt.folder / "tool").write_text("x")
    (ckpt.folder / "tool").chmod(0o4755)
    with open(ckpt.folder / "others-log", "a"):
        job = ckpt.run("sh", "-c", "exec 4<tool 5<large 6>>own-log 7<own-log 8<others-log; ./own")
        job.wait_lines(3)
        options = ["--with-files", "--with-files-up-to=1"]
        before = sorted(os.listdir(ckpt.folder))
        assert "carried" not in report_of_check(ckpt, job.pid)
        carried = report_of_check(ckpt, job.pid, *options)["carried"]
        text = subprocess.run([ckpt.tool("ckpt-dump"), "--check", str(job.pid), *options], env=ckpt.env, cwd=ckpt.folder,
                              capture_output=True, text=True, timeout=120).stdout
        assert sorted(os.listdir(ckpt.folder)) == before
        report = ckpt.dump(job.pid, "one", *options)
        assert job.wait() == 85
    left_out = {os.path.basename(f["path"]): f["why"] for f in carried["left_out"]}
    assert set(left_out) == {"large", "own-log", "others-log", "tool"}, left_out
    assert left_out["large"] == "it has no code, and more than 1.0 MiB (--with-files-up-to)"
    assert left_out["own-log"] == "the program can write to it" and left_out["tool"] == "its mode is 4755"
    assert f"process {os.getpid()} (" in left_out["others-log"] and "can write to it" in left_out["others-log"]
    sizes = {f["path"]: f["size"] for f in image_manifest(ckpt.folder / "one")["manifest"]["carried_files"]}
    assert set(carried["files"]) == set(sizes) and carried["bytes"] == sum(sizes.values())
    assert (report["carried_files"], report["carried_bytes"]) == (len(sizes), carried["bytes"])
    assert f"carried  {len(sizes)} files, " in text and f"left out {ckpt.folder / 'tool'}: its mode is 4755" in text, text


def test_copies_of_a_template_have_them(ckpt, program):
    """Each in a session of its own; and the copies' own images."""
    dumped(ckpt, program, "--template", "--with-files")
    change(ckpt.folder)
    started = ckpt.start("ckpt-start", ["one", "-n", "2", "--output", "copy-%n.out"])
    started.wait_lines(2)
    copies = [int(re.search(r"PID (\d+)", line)[1]) for line in started.lines]
    supplied = [supplied_files(pid) for pid in copies]
    assert all(len(paths) == 2 for paths in supplied) and not supplied[0] & supplied[1], supplied
    assert "from the image" in started.error_text
    ckpt.dump(copies[0], "two")
    ckpt.finish()
    wait_for(lambda: started.process.poll() is not None, "the end of the copies")
    for number in (1, 2):
        assert set((ckpt.folder / f"copy-{number}.out").read_text().splitlines()) == {LINE}
    assert not list(ckpt.runtime.rglob("libanswer.so"))
    (ckpt.folder / "finish").unlink()
    ends(ckpt, goes_on(ckpt, "two"))


ASKS = """
#include <ckpt/ckpt.h>
#include <stdio.h>
int answer(void);
int main(void) {
  FILE *data = fopen("data", "r");
  char text[20] = "";
  int r = ckpt_checkpoint("self", CKPT_STOP | CKPT_WITH_FILES, NULL);
  if (r < 0) return fprintf(stderr, "%s\\n", ckpt_last_error()), 3;
  printf("%d %d %s\\n", r, answer(), fgets(text, sizeof text, data));
  return 0;
}
"""
LIBCKPT = BUILD / "libckpt"
needs_libckpt = pytest.mark.skipif(not (LIBCKPT / "libckpt.so").exists(), reason="libckpt.so is not built")


@pytest.fixture
def asks(ckpt):
    return build_program(ckpt.folder, ASKS, f"-I{ROOT}/include", f"-L{LIBCKPT}", "-lckpt", f"-Wl,-rpath,{LIBCKPT}")


@needs_libckpt
def test_a_program_asks_for_it(ckpt, asks):
    job = ckpt.run(asks)
    assert job.wait() == 85, job.error_text
    change(ckpt.folder)
    copy = ckpt.restore("self")
    assert copy.wait() == 0 and copy.lines == [f"1 {LINE}"], copy.text + copy.error_text


class Keeper(threading.Thread):
    """Of a session in which no tool runs. `answer`: to what asks which flags it knows; "": it hangs up."""

    def __init__(self, folder, answer):
        super().__init__(daemon=True)
        self.types, self.answer = [], answer
        self.path = str(folder / "session.sock")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen()
        self.start()

    def run(self):
        while True:
            try:
                peer = self.socket.accept()[0]
            except OSError:
                return
            with peer:
                size, number, _ = struct.unpack("<IHH", receive_exactly(peer, 8))
                receive_exactly(peer, size)
                self.types.append(number)
                peer.sendall(self.answer)


def text_fields(*texts):
    return b"".join(struct.pack("<I", len(t)) + t.encode() for t in texts)


OLDER = text_fields("this version of ckpt (protocol 1) does not support request 57", "")


@needs_libckpt
@pytest.mark.no_criu
@pytest.mark.parametrize("answer, why", [
    (rootless.frame(2, OLDER), "earlier version of ckpt-run or ckpt-restore, which does not know CKPT_WITH_FILES"),
    (rootless.frame(1, struct.pack("<I", 7)), "earlier version of ckpt-run"),
    (b"", "hung up"),
], ids=["an older one", "one without the flag", "none"])
def test_a_keeper_that_would_ignore_the_flag_is_not_asked_for_an_image(ckpt, asks, answer, why):
    keeper = Keeper(ckpt.runtime, answer)
    r = subprocess.run([asks], env=dict(ckpt.env, CKPT_SESSION=keeper.path), cwd=ckpt.folder, capture_output=True, text=True,
                       timeout=60)
    keeper.socket.close()
    assert r.returncode == 3 and why in r.stderr, r.stderr
    assert keeper.types == [57]
