# SPDX-License-Identifier: Apache-2.0
"""The CUDA toolkit that compiles the test programs, as scripts/find-cuda finds it."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = subprocess.run([str(ROOT / "scripts" / "find-cuda")], capture_output=True, text=True).stdout.strip()
NVCC = f"{HOME}/bin/nvcc" if HOME else None
WHY_NOT = "there is no CUDA toolkit (scripts/get-cuda fetches one)"
