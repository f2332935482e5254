# SPDX-License-Identifier: Apache-2.0
"""OpenCL programs in SPIR-V, in slices. The sources of test programs become modules of clang and llvm-spirv. Debian
12's implementations take none, so a library in front of PoCL translates them to SPIR (tests/programs/opencl/
extra_options.cc), as PoCL does it where it is built with SPIR-V."""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD
from test_opencl import devices, ocl  # noqa: F401 (fixtures)
from test_opencl_width import EXTRA_OPTIONS
from test_slicing_opencl import output, slices
from tiers import parametrize

REWRITE = BUILD / "tests" / "programs" / "slicing" / "rewrite-spirv"
SOURCE = """
__attribute__((noinline)) ulong deep(uint d) { return get_group_id(d) + get_global_offset(d) + get_global_linear_id(); }
__kernel void every(__global ulong *out, uint d) {
  size_t i = get_global_id(0);
  out[i] = get_global_id(d) + get_global_size(d) * 3 + get_num_groups(d) * 5 + get_work_dim() + get_local_id(d) + deep(d);
}
__kernel void none(__global int *out) { out[get_local_id(0)] = 1; }
"""
VERSIONS = [n for n in range(25, 13, -1) if shutil.which(f"llvm-spirv-{n}") and shutil.which(f"clang-{n}")]
needs_tools = pytest.mark.skipif(not VERSIONS, reason="clang-N and llvm-spirv-N are not installed")


@pytest.fixture
def spirv(ocl, tmp_path):  # noqa: F811
    """Programs' sources are SPIR-V modules to ckpt and to the driver."""
    ocl.ckpt.env.update({"XDG_CACHE_HOME": str(tmp_path / "cache"), "LD_PRELOAD": EXTRA_OPTIONS,
                         "CKPT_TEST_CLANG": shutil.which(f"clang-{VERSIONS[0]}"),
                         "CKPT_TEST_LLVM_SPIRV": shutil.which(f"llvm-spirv-{VERSIONS[0]}")})
    return ocl


@needs_tools
@parametrize("size", ["1", "3", "1000000"], quick=1)
def test_numbers_in_spirv_are_those_of_the_whole_launch(spirv, size):
    """The program checks every number that a work-item can ask for, with global offsets and without."""
    expected, _ = output(spirv, "global_offsets")
    sliced, log = output(spirv, "global_offsets", options=[f"--slice={size}"], debug=True)
    assert sliced == expected and expected.endswith("OK\n")
    if size == "3":
        found = slices(log)
        assert {name: found[name] for name in ("line", "plane", "cube", "far_cube", "fixed_groups")} == {
            "line": (12, 4), "plane": (60, 20), "cube": (80, 40), "far_cube": (80, 40), "fixed_groups": (32, 16)}
        # One launch is too large for slices, as in OpenCL C.
        assert log.count("runs whole") == 1


@needs_tools
@pytest.mark.full
@pytest.mark.parametrize("size", ["1", "3", "1000000", "1ms"])
@pytest.mark.parametrize("program", ["events", "images", "queued", "slices", "subdevices", "threads"])
def test_every_program_in_spirv_in_slices(spirv, program, size):
    """Those that need no compiler's options and no names of arguments, which the modules do not have."""
    expected, _ = output(spirv, program)
    assert output(spirv, program, options=[f"--slice={size}"])[0] == expected


@needs_tools
def test_a_checkpoint_inside_a_kernel_in_spirv(spirv):
    """The copy continues with the next slice; the sliced module is built again."""
    arguments = ["5000"]
    expected, _ = output(spirv, "long_grid", *arguments, options=["--slice=10ms"])
    job = spirv.start("long_grid", *arguments, options=["--slice=10ms"])
    job.wait_lines(1)
    spirv.ckpt.dump(job.pid, "image")
    assert job.wait() == 85 and "hash" not in job.text
    copy = spirv.restore("image", "pocl")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected.splitlines()[-2:]


@needs_tools
def test_a_barrier_made_by_hand_in_spirv_is_caught(spirv):
    options = ["--slice=1", "--guest-tuning=patience=300"]
    text, log = output(spirv, "barrier_by_hand", options=options)
    assert text.endswith("OK\n") and log.count("kernel meet runs whole") == 1
    text, log = output(spirv, "barrier_by_hand", options=options, debug=True)
    assert text.endswith("OK\n") and "meet" not in slices(log)


def test_a_module_that_is_none_runs_whole(ocl, tmp_path):  # noqa: F811
    """The test driver's language is not SPIR-V behind the header."""
    ocl.ckpt.env.update({"XDG_CACHE_HOME": str(tmp_path / "cache"), "LD_PRELOAD": EXTRA_OPTIONS})
    ocl.go()
    text, log = output(ocl, "il", options=["--slice=1"])
    assert text.endswith("OK\n")
    assert log.count("kernel f runs whole, not in slices: an instruction exceeds the module") >= 1


@needs_tools
@pytest.mark.parametrize("form", range(4))
def test_what_the_pass_prints_is_valid(spirv, form, tmp_path):
    """By spirv-val, for modules with functions that are not inlined and every number."""
    validate, rewrite = shutil.which("spirv-val"), REWRITE
    if not validate:
        pytest.skip("spirv-val is not installed")
    (tmp_path / "k.cl").write_text(SOURCE)
    n = VERSIONS[0]
    subprocess.run([f"clang-{n}", "-w", "-cl-std=CL2.0", "-target", "spir64", "-O0", "-Xclang", "-finclude-default-header",
                    "-emit-llvm", "-c", tmp_path / "k.cl", "-o", tmp_path / "k.bc"], check=True)
    subprocess.run([f"llvm-spirv-{n}", "--spirv-max-version=1.0", tmp_path / "k.bc", "-o", tmp_path / "k.spv"], check=True)
    r = subprocess.run([rewrite, tmp_path / "k.spv", str(form), tmp_path / "out.spv"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout
    subprocess.run([validate, "--target-env", "opencl2.1", tmp_path / "out.spv"], check=True)
    text = subprocess.run(["spirv-dis", tmp_path / "out.spv"], capture_output=True, text=True, check=True).stdout
    # Only what a slice does not change, and its offset, is still loaded; the dimensions in form 0 only.
    loaded = set(re.findall(r"OpLoad %\S+ %__spirv_BuiltIn(\w+)", text))
    assert loaded - {"WorkDim"} <= {"GlobalOffset", "WorkgroupId", "WorkgroupSize", "LocalInvocationId"}
    assert ("WorkDim" in loaded) == (form == 0)
