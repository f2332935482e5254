# SPDX-License-Identifier: Apache-2.0
"""Random OpenCL programs: dumped at a random point and restored on another device, they must compute the
same result as natively."""
import pytest

from test_opencl import assert_no_driver, devices, finished, ocl  # noqa: F401
from tiers import parametrize

WAYS = [("pocl", "rusticl"), ("rusticl", "pocl"), ("pocl", "basic"), ("rusticl", "rusticl")]


def moves(ocl, seed, *options):
    """Moves program `seed`, which runs under ckpt-run with these options."""
    native = ocl.native("random", str(seed))
    assert native.returncode == 0, native.stdout
    source, target = WAYS[seed % len(WAYS)]
    job = ocl.start("random", str(seed), device=source, options=options)
    job.wait_text("READY")
    assert_no_driver(job)
    image = f"image-{seed}"
    ocl.ckpt.dump(job.pid, image)
    assert job.wait() == 85
    ocl.go()
    copy = ocl.restore(image, target)
    finished(copy)
    assert copy.lines[-2] == native.stdout.splitlines()[-2], f"seed {seed}"
    ocl.go_file.unlink()


@parametrize("seed", range(20), quick=3)
def test_a_random_program_moves(ocl, seed):
    moves(ocl, seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(20, 510, 49))
def test_many_random_programs_move(ocl, first):
    for seed in range(first, first + 49):
        moves(ocl, seed)
