#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The energy of the GPUs, by NVML's counter. As a program: prints that of each GPU, in joules, for each line of its
standard input, or "none" if the GPUs have no counter."""
import ctypes
import os
import subprocess
import sys


class Energy:
    """A process that reads the counters. With `runner` softcuda-run: those of the software device, which counts from
    now on, because the process is connected to its broker."""

    def __init__(self, runner, env):
        self.process = subprocess.Popen([*map(str, runner), sys.executable, __file__], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.begin = self._read()

    def _read(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().split()
        return None if not line or line[0] == "none" else [float(word) for word in line]

    def joules(self):
        """Of all GPUs since the beginning; None: there is no counter."""
        now = self._read()
        return None if self.begin is None or now is None else sum(now) - sum(self.begin)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def counters(nvml):
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    values = []
    for index in range(count.value):
        device, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
        nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
        if nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(millijoules)) != 0:
            return None
        values.append(millijoules.value / 1000)
    return values


def main():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0:
        sys.exit("energy.py: NVML does not start")
    if "CKPT_SOFTCUDA" in os.environ:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
    for _ in sys.stdin:
        values = counters(nvml)
        print("none" if values is None else " ".join(f"{v:.3f}" for v in values), flush=True)


if __name__ == "__main__":
    main()
