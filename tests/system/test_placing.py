# SPDX-License-Identifier: Apache-2.0
"""Variables of CUDA code at fixed addresses, and handles of textures that are looked up (remote/cuda/placing/): what
the pass prints assembles. That programs work with it is tested in test_remote_cuda.py and
test_remote_cuda_moves.py. Skipped where there is no CUDA toolkit."""
import subprocess

import pytest

from conftest import BUILD
from cuda_programs import NVCC, SOURCES, make  # noqa: F401 (fixture)
from test_slicing import assembles, check_sample, ptx_for_every_architecture, toolkit_library  # noqa: F401 (fixture)
from toolkit import WHY_NOT

pytestmark = pytest.mark.skipif(not NVCC, reason=WHY_NOT)

PLACE = BUILD / "tests" / "programs" / "placing" / "place-ptx"


def place(path, folder):
    """Returns the counts of modules, those that were changed, those that stay for a reason, and variables."""
    folder.mkdir(exist_ok=True, parents=True)
    r = subprocess.run([str(PLACE), str(path), str(folder)], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    return [int(n) for n in r.stdout.splitlines()[-1].split()[1::2]]


def test_ptx_with_fixed_variables_assembles(make, tmp_path):  # noqa: F811
    modules, placed, left, variables = place(make("remote_variables.cu"), tmp_path / "out")
    assert (modules, placed, left) == (1, 1, 0) and variables == 8
    check_sample(tmp_path / "out")


def test_ptx_with_textures_assembles(make, tmp_path):  # noqa: F811
    modules, placed, left, variables = place(make("textures.cu"), tmp_path / "textures")
    assert (modules, placed, left, variables) == (1, 1, 0, 0)
    check_sample(tmp_path / "textures")
    assert place(make("remote_textures.cu"), tmp_path / "both")[1:] == [1, 0, 2]
    check_sample(tmp_path / "both")


# PTX ISA, "Texture Instructions" and "Surface Instructions".
WITH_HANDLES = """
tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}];
tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %f5];
tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f5, %f6}];
tex.3d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2, %r3, %r3}];
tex.a1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f5}];
tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f5, %f6, %f6}];
tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6, %f1, %f1}];
tex.acube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f5, %f6, %f1}];
tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}], %f1;
tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}], {%f1, %f2}, {%f3, %f4};
tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p2, [%rd1, {%f5, %f6}];
tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
tld4.a.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f5, %f6}];
txq.width.b32 %r1, [%rd1];
txq.num_mipmap_levels.b32 %r1, [%rd1];
suld.b.1d.b32.trap {%r1}, [%rd1, {%r3}];
suld.b.2d.v2.b32.clamp {%r1, %r2}, [%rd1, {%r3, %r4}];
suld.b.3d.v4.b32.zero {%r1, %r2, %r3, %r4}, [%rd1, {%r1, %r2, %r3, %r3}];
suld.b.a2d.b64.trap {%rd2}, [%rd1, {%r1, %r2, %r3, %r3}];
sust.b.1d.b32.trap [%rd1, {%r1}], {%r4};
sust.b.2d.v4.b32.zero [%rd1, {%r1, %r2}], {%r1, %r2, %r3, %r4};
sust.p.2d.v4.b32.trap [%rd1, {%r1, %r2}], {%r1, %r2, %r3, %r4};
sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %r3;
sured.p.min.1d.b32.trap [%rd1, {%r1}], %r3;
suq.width.b32 %r1, [%rd1];
""".strip().splitlines()

KERNEL = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 t, .param .u64 o)
{{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .pred %p<4>;
ld.param.u64 %rd1, [t]; ld.param.u64 %rd3, [o];
setp.ne.u64 %p1, %rd3, 0;
{}
st.global.u32 [%rd3], %r1; st.global.f32 [%rd3+4], %f1;
ret;
}}
"""


def test_each_instruction_with_a_handle_assembles(tmp_path):
    """Without a predicate, with one, and with its opposite."""
    source = tmp_path / "kernel.ptx"
    source.write_text(KERNEL.format("\n".join(g + i for i in WITH_HANDLES for g in ("", "@%p1 ", "@!%p1 "))))
    assert place(source, tmp_path / "out") == [1, 1, 0, 0]
    [before], [after] = ((tmp_path / "out").glob(f"*.{name}.ptx") for name in ("before", "after"))
    assert after.read_text().count("ld.global.u64 %ckpt_place_h, [%rd1];") == 3 * len(WITH_HANDLES)
    assert "[%rd1, " not in after.read_text()
    for ptx in (before, after):
        assert assembles(ptx, "sm_80") == (True, ""), ptx


@pytest.mark.full
def test_ptx_with_fixed_variables_assembles_for_every_architecture(tmp_path):
    for source in ("remote_variables.cu", "remote_textures.cu"):
        for code, ptx in ptx_for_every_architecture(source, tmp_path):
            assert place(ptx, tmp_path / source / code)[1:3] == [1, 0]
            check_sample(tmp_path / source / code)


@pytest.mark.full
@pytest.mark.parametrize("source", sorted(p.name for p in SOURCES.glob("*.cu")))
def test_the_ptx_of_every_test_program(make, tmp_path, source):  # noqa: F811
    assert place(make(source), tmp_path / "out")[2] == 0
    check_sample(tmp_path / "out")


@pytest.mark.full
def test_the_ptx_of_the_toolkits_libraries(tmp_path, toolkit_library):  # noqa: F811
    modules, placed, left, variables = place(toolkit_library, tmp_path / "out")
    assert modules > 0 and left == 0
    check_sample(tmp_path / "out")
