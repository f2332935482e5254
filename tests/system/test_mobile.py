# SPDX-License-Identifier: Apache-2.0
"""The paper's twelve programs (bench/mobile), all at once under ckptd: none fails, all are right."""
import random
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from manager import Node
from toolkit import WHY_NOT

sys.path.insert(0, str(ROOT / "bench" / "mobile"))
from programs import PROGRAMS, SOURCES  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
    pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists(), reason="ckptd is not built"),
]

GPU_MIB = 96


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program of each name."""
    folder = tmp_path_factory.mktemp("mobile")
    compilers = {}
    for p in PROGRAMS:
        target = folder / p.source.removesuffix(".cu")
        if target not in compilers:
            compilers[target] = subprocess.Popen([NVCC, "-w", "-std=c++17", "-cudart", "shared", *p.flags(GPU_MIB),
                                                  "-o", str(target), str(SOURCES / p.source)])
    assert all(c.wait() == 0 for c in compilers.values())
    return {p.name: folder / p.source.removesuffix(".cu") for p in PROGRAMS}


def test_the_table_is_the_papers():
    assert len(PROGRAMS) == 12
    assert sum(p.source == "matrixMul.cu" for p in PROGRAMS) == 3
    # Three of them want more memory than a GPU of the paper has.
    assert sum(sorted(p.gb for p in PROGRAMS)[:3]) > 4.8 * 0.9


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_all_twelve_at_once(ckpt, make, built, seed):  # noqa: F811
    node = Node(ckpt, make, f"2x{GPU_MIB}M", context_mib=1).start()
    order = random.Random(seed).sample(PROGRAMS, len(PROGRAMS))
    jobs = [(p, ckpt.start("ckpt-run", ["--managed", "--", str(built[p.name]), *p.arguments(GPU_MIB, 0.2)])) for p in order]
    for p, job in jobs:
        assert job.wait() == 0, f"{p.name}: {job.text} {job.error_text}"
        assert job.lines == ["PASSED"], p.name
    said = node.messages()
    assert said.count("Fin") == 12
    wait_for(lambda: node.free_mib() == [GPU_MIB] * 2, "all memory")
