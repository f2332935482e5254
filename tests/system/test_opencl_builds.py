# SPDX-License-Identifier: Apache-2.0
"""OpenCL programs that are built where their kernels' files are, and built again where they are not."""
import pathlib
import shutil

import pytest

from conftest import BUILD
from test_opencl import OPENCL, assert_no_driver, devices, finished, ocl, wait_until_computing  # noqa: F401
from test_opencl_width import EXTRA_OPTIONS
from tiers import parametrize

KERNEL = "kernel void k(global int *a) { a[get_global_id(0)] = VALUE; }\n"


def only_pocl(ocl):
    """POCL_DEVICES counts, and platform 0 is PoCL."""
    folder = ocl.ckpt.folder / "vendors"
    folder.mkdir(exist_ok=True)
    shutil.copy(BUILD / "testbed" / "vendors" / "pocl.icd", folder)
    ocl.ckpt.env["OCL_ICD_VENDORS"] = f"{folder}/"


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def dumped_at_ready(ocl, *args, image="image", **streams):
    job = ocl.start("build", *args, **streams)
    job.wait_text("READY")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, image)
    assert job.wait() == 85, job.error_text


def headers(folder):
    """A kernel that includes files in every way, and the value that it then writes."""
    write(folder / "work", {
        "first.h": '#include "sub/second.h"\n',
        "sub/second.h": '#include "../common/third.h"\n#define FIRST 1\n',
        "common/third.h": '#pragma once\n#define THIRD 20\n',
        "inc/angle.h": '#include "first.h"\n#define ANGLE 300\n',
        "far/absolute.h": "#define ABSOLUTE 4000\n",
        "inc/by_macro.h": "#define MACRO 50000\n",
        "inc/by_string.h": "#define STRING 600000\n",
        "inc/double.h": "#define REAL 0\n",
        "inc/single.h": "#define REAL 0\n",
    })
    (folder / "kernel.cl").write_text(f"""
#include "first.h"
#  include <angle.h> /* a comment */
#include "{folder}/work/far/absolute.h"
#define HEADER <by_macro.h>
#include HEADER
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#include TEXT_OF(NAME)
#ifdef cl_khr_fp64
#include "double.h"
#else
#include "single.h"
#endif
#if 0
#include "nowhere.h"
#endif
#define VALUE FIRST + THIRD + ANGLE + ABSOLUTE + MACRO + STRING + REAL
""" + KERNEL)
    return "-I. -I inc -DNAME=by_string.h", 654321


@pytest.mark.parametrize("how", [[], ["compile"]], ids=["build", "compile"])
def test_a_program_is_built_again_with_the_files_that_it_had(ocl, how):
    folder = ocl.ckpt.folder
    options, value = headers(folder)
    dumped_at_ready(ocl, folder / "kernel.cl", options, folder / "work", *how)
    # Edited, deleted, and there is a wrong one where the restore begins.
    (folder / "work" / "first.h").write_text("#define FIRST 7\n#define THIRD 7\n")
    shutil.rmtree(folder / "work" / "far")
    shutil.rmtree(folder / "work" / "inc")
    write(folder, {"first.h": "#define FIRST 8\n"})
    ocl.go()
    for target in ("rusticl", "pocl"):
        copy = ocl.restore("image", target)
        finished(copy)
        assert f"wrote {value}" in copy.text


def test_what_is_known_of_programs_stays_on_other_devices(ocl):
    """The log of a failed build, programs with a library, and one that prints: Oclgrind counts its formats as
    variables at program scope, which would refuse the last dump."""
    job = ocl.start("build_info")
    job.wait_text("READY")
    for n, target in enumerate(["oclgrind", "pocl"]):  # rusticl cannot link
        ocl.ckpt.dump(job.pid, f"image{n}")
        assert job.wait() == 85, job.error_text
        job = ocl.restore(f"image{n}", target)
        wait_until_computing(job)
    ocl.go()
    finished(job)


def test_a_file_that_was_not_found_refuses_the_dump(ocl):
    """The name arises only in the preprocessor: ckpt cannot find it, and the compiler needs it."""
    folder = ocl.ckpt.folder
    write(folder, {"pasted.h": "#define VALUE 3\n"})
    (folder / "kernel.cl").write_text("""
#define PASTE(a, b) a ## b
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#include TEXT_OF(PASTE(pas, ted).h)
""" + KERNEL)
    job = ocl.start("build", folder / "kernel.cl", "-I.")
    job.wait_text("READY")
    error = ocl.ckpt.dump_refused(job.pid, "image")
    assert "was not found" in error and "keeps running" in error
    ocl.go()
    finished(job)
    assert "wrote 3" in job.text


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_relative_name_means_what_it_means_in_the_program(ocl, where):
    """The working folder of ckpt-run is another one."""
    folder = ocl.ckpt.folder
    write(folder, {"inner/value.h": "#define VALUE 5\n", "kernel.cl": '#include "value.h"\n' + KERNEL})
    program = [str(OPENCL / "ocl-build"), f"{folder}/kernel.cl", "-I."]
    ocl.go()
    if where == "after":
        job = ocl.start("build", *program[1:], folder / "inner")
    else:
        job = ocl.ckpt.run("sh", "-c", f"cd {folder}/inner && exec {' '.join(program)}",
                           options=["--device", ocl.device("pocl")])
    finished(job)
    assert "wrote 5" in job.text


def test_the_driver_sees_the_environment_of_the_program(ocl):
    only_pocl(ocl)
    write(ocl.ckpt.folder, {"kernel.cl": "#define VALUE 1\n" + KERNEL})
    ocl.ckpt.env.pop("POCL_DEVICES", None)
    ocl.go()
    command = f"{OPENCL}/ocl-build {ocl.ckpt.folder}/kernel.cl ''"
    job = ocl.ckpt.run("sh", "-c", f"POCL_DEVICES='basic basic basic' {command}; {command}")
    assert job.wait() == 0
    assert [line for line in job.lines if line.startswith("devices")] == ["devices 3", "devices 1"]


def test_the_driver_works_in_the_folder_of_the_program(ocl):
    only_pocl(ocl)
    write(ocl.ckpt.folder, {"inner/kernel.cl": "#define VALUE 1\n" + KERNEL})
    ocl.go()
    job = ocl.ckpt.run("sh", "-c", f"cd inner && POCL_CACHE_DIR=cache exec {OPENCL}/ocl-build kernel.cl ''")
    finished(job)
    assert (ocl.ckpt.folder / "inner" / "cache").is_dir()


def test_a_restored_program_has_the_devices_of_the_restore(ocl):
    """What the job script of the first machine said of its devices means nothing on another one."""
    only_pocl(ocl)
    write(ocl.ckpt.folder, {"kernel.cl": "#define VALUE 1\n" + KERNEL})
    ocl.ckpt.env["POCL_DEVICES"] = "basic"
    job = ocl.ckpt.run("sh", "-c", f"POCL_DEVICES=pthread exec {OPENCL}/ocl-build {ocl.ckpt.folder}/kernel.cl ''")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    ocl.go()
    refused = ocl.ckpt.restore("image")
    assert refused.wait() == 1 and "pthread" in refused.error_text, refused.error_text
    finished(ocl.ckpt.restore("image", "--device", "ocl:basic"))


SOURCES = {
    "vendor's extension in an #elif": """
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#elif defined(cl_amd_fp64)
#pragma OPENCL EXTENSION cl_amd_fp64 : enable
#endif
""",
    "extension if the device has it": "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif\n",
    "double if the device has it": "#ifdef cl_khr_fp64\nkernel void kd(global double *a) { a[0] += 1; }\n#endif\n",
    "double in a branch that is not taken": "#ifdef USE_DOUBLE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n",
}


@parametrize("source", SOURCES, quick=2)
def test_the_compiler_decides_whether_a_program_can_move(ocl, source):
    write(ocl.ckpt.folder, {"kernel.cl": SOURCES[source] + "#define VALUE 9\n" + KERNEL})
    dumped_at_ready(ocl, ocl.ckpt.folder / "kernel.cl", "")
    ocl.go()
    finished(ocl.restore("image", "rusticl"))


def test_a_copy_without_its_devices_is_ended(ocl):
    write(ocl.ckpt.folder, {"kernel.cl": "#define VALUE 1\n" + KERNEL})
    dumped_at_ready(ocl, ocl.ckpt.folder / "kernel.cl", "")
    ocl.go()
    ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_NO_COMPILER="1")
    failed = ocl.restore("image", "pocl")
    assert failed.wait() == 1
    assert "wrote" not in failed.text and "OpenCL error" not in failed.text
    assert "cannot make program" in failed.error_text and "-cl-no-such-option" in failed.error_text
    assert "--continue-without-devices" in failed.error_text
    wanted = ocl.restore("image", "pocl", "--continue-without-devices")
    assert wanted.wait() == 1  # the program's own
    assert "OpenCL error" in wanted.text and "wrote" not in wanted.text
    for name in ("LD_PRELOAD", "CKPT_TEST_NO_COMPILER"):
        ocl.ckpt.env.pop(name)
    finished(ocl.restore("image", "pocl"))
