# SPDX-License-Identifier: Apache-2.0
"""The C API as other build systems and languages find it: find_package() of CMake, and the module for Fortran."""
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

pytestmark = pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("gfortran"), reason="there is no cmake or no gfortran")

PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(user C CXX Fortran)
find_package(ckpt 0.1 REQUIRED)
add_executable(in_c in_c.c)
target_link_libraries(in_c ckpt::ckpt)
add_executable(in_fortran {root}/examples/selfcheckpoint.f90)
target_link_libraries(in_fortran ckpt::fortran)
"""
IN_C = """
#include <ckpt/ckpt.h>
#include <stdio.h>
int main(void) { return puts(ckpt_version()) < 0; }
"""


def run(*command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=200, **more)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installed, and then moved."""
    folder = tmp_path_factory.mktemp("installed")
    r = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder / "first")
    if r.returncode != 0:
        pytest.skip(f"not everything is built: {r.stderr[-200:]}")
    (folder / "first/usr/local").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def project(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))
    (folder / "in_c.c").write_text(IN_C)
    for command in (("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed}"),
                    ("cmake", "--build", folder / "build")):
        r = run(*command)
        assert r.returncode == 0, r.stdout + r.stderr
    return folder / "build"


@pytest.mark.no_criu
def test_a_program_of_cmake_finds_the_library(project):
    r = run(project / "in_c")
    assert r.returncode == 0 and r.stdout.count(".") == 2, r.stderr


@pytest.mark.no_criu
def test_another_version_is_not_accepted(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(ckpt 0.9 REQUIRED)\n")
    r = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    assert r.returncode != 0 and "0.9" in r.stderr


def test_a_program_in_fortran_checkpoints_itself(project, ckpt):
    plain = run(project / "in_fortran")
    assert plain.returncode == 0 and plain.stdout.count("no checkpoint: this program has no session") == 3, plain.stdout
    result = plain.stdout.splitlines()[-1]
    job = ckpt.run(project / "in_fortran", env={"STOP": "1"})
    assert job.wait() == 85, job.text + job.error_text
    copy = ckpt.restore("self.ckpt")
    assert copy.wait() == 85 and copy.lines == ["step 10: restored"], copy.text + copy.error_text
    assert ckpt.restore("self.ckpt").wait() == 85
    last = ckpt.restore("self.ckpt")
    assert last.wait() == 0 and last.lines == ["step 30: restored", result], last.text + last.error_text
