# SPDX-License-Identifier: Apache-2.0
"""The measurements of the Mobile CUDA paper: Table 5 and the matrix of pairs."""

GPU_MB = 4800
CONTEXT_MB = 64
# Change of the makespan of 100 programs under its Manager, in percent of one program per GPU, by GPUs.
HEADLINES = {1: -19.3, 4: -13.1}

# name: (seconds, GB, kind)
PROGRAMS = {
    "matrixMul": (73.3, 2.0, "matrixMul"),
    "matrixMulSmall": (59.4, 1.5, "matrixMul"),
    "matrixMulLarge": (56.8, 2.5, "matrixMul"),
    "pcie": (54.3, 2.0, "pcie"),
    "pcieSmall": (72.0, 1.5, "pcie"),
    "pcieLarge": (50.7, 2.4, "pcie"),
    "bandWidth": (45.7, 2.0, "bandWidth"),
    "bandWidthSmall": (47.0, 1.5, "bandWidth"),
    "bandWidthLarge": (52.8, 2.4, "bandWidth"),
    "malloc_in_kernel": (30.7, 2.4, "malloc_in_kernel"),
    "devmem": (61.0, 2.0, "devmem"),
    "map": (46.4, 2.0, "map"),
}

# Percent that its library and Manager cost a program that runs alone.
OVERHEAD = dict(zip(PROGRAMS, [0.37, 0.41, 0.06, 0.49, 0.11, 0.18, 0.00, 0.42, 0.23, 0.06, 0.07, 0.11]))

PAIRED = ["matrixMul", "pcie", "bandWidth", "devmem", "map"]
_ROWS = [[1.94, 1.17, 1.24, 1.22, 5.01],
         [1.63, 1.88, 1.04, 1.03, 2.57],
         [3.97, 1.62, 2.03, 1.98, 3.00],
         [3.78, 1.54, 1.96, 2.07, 10.72],
         [1.10, 1.35, 1.33, 1.02, 1.60]]
# SLOWDOWN[a, b]: how many times longer a takes beside b than alone.
SLOWDOWN = {(a, b): _ROWS[i][j] for i, a in enumerate(PAIRED) for j, b in enumerate(PAIRED)}


def pairs():
    """Every pair once."""
    return [(a, b) for i, a in enumerate(PAIRED) for b in PAIRED[i:]]


def throughput(a, b):
    """Of two programs together, from their slowdowns. Sharing pays if it is above 1."""
    return 1 / a + 1 / b
