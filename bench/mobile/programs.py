# SPDX-License-Identifier: Apache-2.0
"""The paper's twelve programs (Table 5): what each is, how much memory it has and how long it took on a Tesla
K20c of 4800 MB. Scaled to another GPU, their memory keeps its share and their time its ratio."""
import math
import pathlib
from dataclasses import dataclass

SOURCES = pathlib.Path(__file__).resolve().parent / "programs"
K20C_MB = 4800


@dataclass(frozen=True)
class Program:
    name: str
    source: str
    gb: float
    seconds: float

    def mib(self, gpu_mib):
        return max(4, math.floor(self.gb * 1000 / K20C_MB * gpu_mib))

    def arguments(self, gpu_mib, rounds_per_second):
        return [str(self.mib(gpu_mib)), str(max(1, round(self.seconds * rounds_per_second)))]

    def flags(self, gpu_mib):
        """What the compiler must be told."""
        return [f"-DDEVMEM_MIB={self.mib(gpu_mib)}"] if self.source == "devmem.cu" else []


PROGRAMS = [
    Program("matrixMul", "matrixMul.cu", 2.0, 73.3),
    Program("matrixMulSmall", "matrixMul.cu", 1.5, 59.4),
    Program("matrixMulLarge", "matrixMul.cu", 2.5, 56.8),
    Program("pcie", "pcie.cu", 2.0, 54.3),
    Program("pcieSmall", "pcie.cu", 1.5, 72.0),
    Program("pcieLarge", "pcie.cu", 2.4, 50.7),
    Program("bandWidth", "bandWidth.cu", 2.0, 45.7),
    Program("bandWidthSmall", "bandWidth.cu", 1.5, 47.0),
    Program("bandWidthLarge", "bandWidth.cu", 2.4, 52.8),
    Program("malloc_in_kernel", "malloc_in_kernel.cu", 2.4, 30.7),
    Program("devmem", "devmem.cu", 2.0, 61.0),
    Program("map", "map.cu", 2.0, 46.4),
]
