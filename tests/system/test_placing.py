# SPDX-License-Identifier: Apache-2.0
"""Variables of CUDA code at fixed addresses (remote/cuda/placing/): what the pass prints assembles. That programs
work with it is tested in test_remote_cuda.py and test_remote_cuda_moves.py. Skipped where there is no CUDA toolkit."""
import subprocess

import pytest

from conftest import BUILD
from cuda_programs import NVCC, SOURCES, make  # noqa: F401 (fixture)
from test_slicing import check_sample, ptx_for_every_architecture, toolkit_library  # noqa: F401 (fixture)
from toolkit import WHY_NOT

pytestmark = pytest.mark.skipif(not NVCC, reason=WHY_NOT)

PLACE = BUILD / "tests" / "programs" / "placing" / "place-ptx"


def place(path, folder):
    """Returns the counts of modules, those that were changed, those that stay for a reason, and variables."""
    folder.mkdir(exist_ok=True)
    r = subprocess.run([str(PLACE), str(path), str(folder)], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    return [int(n) for n in r.stdout.splitlines()[-1].split()[1::2]]


def test_ptx_with_fixed_variables_assembles(make, tmp_path):  # noqa: F811
    modules, placed, left, variables = place(make("remote_variables.cu"), tmp_path / "out")
    assert (modules, placed, left) == (1, 1, 0) and variables == 8
    check_sample(tmp_path / "out")


@pytest.mark.full
def test_ptx_with_fixed_variables_assembles_for_every_architecture(tmp_path):
    for code, ptx in ptx_for_every_architecture("remote_variables.cu", tmp_path):
        assert place(ptx, tmp_path / code)[1:3] == [1, 0]
        check_sample(tmp_path / code)


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
