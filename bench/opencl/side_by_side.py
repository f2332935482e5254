# SPDX-License-Identifier: Apache-2.0
"""Runs a program natively on PoCL's pthread device, or under ckpt-run. Shared by the OpenCL benchmarks."""
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def testbed(build):
    out = subprocess.run([ROOT / "scripts" / "testbed", build], capture_output=True, text=True, check=True).stdout
    shell = subprocess.run(["bash", "-c", out + "\nenv -0"], capture_output=True, check=True).stdout.decode()
    return dict(entry.split("=", 1) for entry in shell.split("\0") if "=" in entry)


class SideBySide:
    def __init__(self, build, folder):
        self.build = build
        self.env = dict(testbed(build), POCL_DEVICES="pthread")
        vendors = folder / "vendors"
        vendors.mkdir()
        shutil.copy(build / "testbed" / "vendors" / "pocl.icd", vendors)
        # Natively and under ckpt-run, PoCL is the only driver.
        self.env["OCL_ICD_VENDORS"] = f"{vendors}/"

    def command(self, command, ours):
        # Without --device, hashcat would also find the software CUDA device and prefer it.
        return [str(self.build / "tools" / "ckpt-run"), "--device", "ocl:0", "--", *command] if ours else command
