# SPDX-License-Identifier: Apache-2.0
"""Images that carry the files that their program only reads (ckpt-dump --with-files): what is missing or differs where they
are restored comes from the image."""
import os
import pathlib
import subprocess

import pytest

from conftest import image_manifest, tree_of, wait_for
from test_kills import kill
from test_restore import refused

MAIN = """
#include <stdio.h>
#include <unistd.h>
int answer(void);
int main(void) {
  FILE *data = fopen("data", "r");
  char text[20] = "";
  for (;; usleep(20000)) {
    rewind(data);
    if (!fgets(text, sizeof text, data)) return 2;
    printf("%d %s\\n", answer(), text);
    fflush(stdout);
    if (access("finish", F_OK) == 0) return 0;
  }
}
"""
CHANGES = ["library", "executable", "data", "all"]


def build_library(folder, answer, padding=0):
    """Under a new inode, as a package manager does it."""
    source, new = folder / "answer.c", folder / "new"
    source.write_text(f"int answer(void) {{ return {answer}; }} char padding[{padding + 1}] = {{1}};")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(new)], check=True)
    os.rename(new, folder / "libanswer.so")


@pytest.fixture
def program(ckpt):
    build_library(ckpt.folder, 1)
    (ckpt.folder / "main.c").write_text(MAIN)
    (ckpt.folder / "data").write_text("as it was")
    own = ckpt.folder / "own"
    subprocess.run(["cc", "main.c", "-o", "own", "-L.", "-lanswer", f"-Wl,-rpath,{ckpt.folder}"], cwd=ckpt.folder, check=True)
    return own


def dumped(ckpt, program, *options):
    job = ckpt.run(program)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", *options)
    assert job.wait() == 85


def change(ckpt, what):
    if what in ("library", "all"):
        build_library(ckpt.folder, 2, padding=9000)
    if what in ("executable", "all"):
        (ckpt.folder / "own").unlink()
    if what in ("data", "all"):
        (ckpt.folder / "data").write_text("something else")


def goes_on(ckpt, image):
    copy = ckpt.restore(image)
    copy.wait_lines(3)
    return copy


def ends(ckpt, *copies):
    ckpt.finish()
    for copy in copies:
        assert copy.wait() == 0, copy.error_text
        assert set(copy.lines) == {"1 as it was"}, copy.lines
    left = [p for p in ckpt.runtime.rglob("*") if p.is_file()]
    assert left == []


@pytest.mark.parametrize("what", ["library", "executable", "data"])
def test_without_carried_files_a_restore_is_refused_and_names_the_remedy(ckpt, program, what):
    dumped(ckpt, program)
    change(ckpt, what)
    assert "--with-files" in refused(ckpt, "one")


@pytest.mark.parametrize("what", CHANGES)
def test_what_differs_or_is_missing_comes_from_the_image(ckpt, program, what):
    dumped(ckpt, program, "--with-files")
    change(ckpt, what)
    copy = goes_on(ckpt, "one")
    assert "from the image" in copy.error_text
    ends(ckpt, copy)


def test_what_is_the_same_is_used_where_it_is(ckpt, program):
    dumped(ckpt, program, "--with-files")
    (ckpt.folder / "libanswer.so").touch()
    copy = goes_on(ckpt, "one")
    maps = pathlib.Path(f"/proc/{copy.program()}/maps").read_text()
    assert str(ckpt.folder / "libanswer.so") in maps and "/files/" not in maps
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
    change(ckpt, "all")
    ends(ckpt, goes_on(ckpt, "one"), goes_on(ckpt, "one"))


@pytest.mark.parametrize("options", [[], ["--with-files"]])
def test_a_restored_program_can_be_dumped_again(ckpt, program, options):
    """Its files are in the folder of a session that ends, so the image carries them without being asked."""
    dumped(ckpt, program, "--with-files")
    change(ckpt, "all")
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
    change(ckpt, "all")
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
    change(ckpt, "library")
    copy = goes_on(ckpt, "one")
    ckpt.finish()
    assert copy.wait() == 0 and set(copy.lines) == {'1 "module"'}, copy.error_text


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
