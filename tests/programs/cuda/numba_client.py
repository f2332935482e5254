# SPDX-License-Identifier: Apache-2.0
"""A third-party client of the driver API: numba compiles Python to PTX and launches it."""
import os
import sys
import time
import warnings

import numpy as np
from numba import cuda
from numba.core.errors import NumbaPerformanceWarning

warnings.simplefilter("ignore", NumbaPerformanceWarning)


@cuda.jit
def saxpy(y, x, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def total(out, x):
    tile = cuda.shared.array(128, dtype=np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


def main():
    x, y = np.arange(1024, dtype=np.float32), np.ones(1024, dtype=np.float32)
    on_device, sums = cuda.to_device(x), cuda.to_device(y)
    stream = cuda.stream()
    saxpy[8, 128, stream](sums, on_device, np.float32(2))
    stream.synchronize()
    assert (sums.copy_to_host() == 2 * x + 1).all()
    out = cuda.to_device(np.zeros(1, dtype=np.float32))
    total[8, 128](out, on_device)
    assert out.copy_to_host()[0] == x.sum()
    steps(sums, on_device, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(cuda.get_current_device().name.decode(), "PASSED")


def steps(sums, x, count):
    """As in steps.cu: a test may stop the program after any step."""
    for i in range(count):
        saxpy[8, 128](sums, x, np.float32(1))
        print("step", i + 1, flush=True)
        while os.path.exists("pause"):
            time.sleep(0.01)
    assert (sums.copy_to_host() == (2 + count) * x.copy_to_host() + 1).all()


main()
