# SPDX-License-Identifier: Apache-2.0
"""Fixtures that compile tests/programs/cuda with nvcc, and install numba."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from toolkit import HOME, NVCC
from workers import make_once, shared_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()
SOURCES = ROOT / "tests" / "programs" / "cuda"
RUN = BUILD / "softcuda" / "softcuda-run"

SM_90 = ["-std=c++17", "-gencode=arch=compute_90,code=compute_90"]
FLAGS = {"differential.cu": ["-O2", "-std=c++17", "--fmad=false", "-Xcompiler", "-ffp-contract=off"],
         "barriers.cu": SM_90, "partitions.cu": SM_90, "hopper.cu": SM_90, "matrices.cu": SM_90,
         "remote_trips.cu": SM_90,
         "exclude.cu": [f"-I{ROOT}/include", f"-L{BUILD}/libckpt", "-lckpt", "-Xlinker", f"-rpath={BUILD}/libckpt"],
         "plugin.cu": ["-shared", "-Xcompiler", "-fPIC"],
         "nvml.cc": ["-ldl"], "future.cc": ["-ldl"],
         "launches.cu": ["-rdc=true", "-lcudadevrt"],
         "grid_calls.cu": ["-rdc=true", "-lcudadevrt"],
         "video.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "waiting.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver", "-ldl"],
         "checkpoint.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "captures.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "away.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver", "-ldl"],
         "both.cu": ["-lOpenCL"],
         "two_devices.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "mipmaps.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "linking.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "jit.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "nvrtc.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver", "-lnvrtc"],
         "rdma.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "histories.cc": ["-std=c++20", "-lcuda", f"-L{BUILD}/softcuda/driver", f"-I{ROOT}/include", f"-L{BUILD}/libckpt",
                          "-lckpt", "-Xlinker", f"-rpath={BUILD}/libckpt"],
         "managed.cu": ["-std=c++17", "-lcuda", f"-L{BUILD}/softcuda/driver", f"-I{ROOT}/include", f"-L{BUILD}/libckpt",
                        "-lckpt", "-Xlinker", f"-rpath={BUILD}/libckpt"],
         "segments.cu": ["-std=c++17", "-lcuda", f"-L{BUILD}/softcuda/driver"],
         "taken.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "shared_physical.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "forked.cc": ["-std=c++20", "-lcuda", f"-L{BUILD}/softcuda/driver", "-ldl", f"-I{ROOT}"],
         "late.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_graphs.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_captures.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_graph_rules.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_shared.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_textures.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_values.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_mappings.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_devices.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_unplaced.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_opaque.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "remote_arrays.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "graph_calls.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "ipc_memory.cu": ["-std=c++20", "-lcuda", f"-L{BUILD}/softcuda/driver"],
         "ipc_events.cu": ["-std=c++20"],
         "ipc.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "softcuda_graphs.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "slices.cu": ["-lcuda", f"-L{BUILD}/softcuda/driver"],
         "driver.cc": ["-lcuda", f"-L{BUILD}/softcuda/driver"]}


@pytest.fixture(scope="session")
def numba():
    """The command that runs numba_client.py, and the variables that it requires."""
    site = pathlib.Path("/opt/ckpt/numba")
    if not (site / "installed").exists():
        pytest.skip("numba is not installed (scripts/setup --full installs it)")
    # numba-cuda replaces numba.cuda by a .pth file. Python reads those in site folders only.
    start = f"import runpy, site; site.addsitedir({str(site)!r}); " \
            f"runpy.run_path({str(SOURCES / 'numba_client.py')!r}, run_name='__main__')"
    return [sys.executable, "-c", start], {"CUDA_HOME": HOME, "NUMBA_CUDA_USE_NVIDIA_BINDING": "0"}


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    """make("x.cu", flags…) compiles a program once and returns its path."""
    folder = shared_folder(tmp_path_factory, "cuda")

    def build(source, *flags, runtime="shared"):
        # nvcc misreads a "=" in a file name.
        name = "-".join([source, runtime, *flags])
        target = folder / re.sub("[^a-z0-9]", "_", name.lower())

        def compile():
            r = subprocess.run([NVCC, "-w", "-cudart", runtime, *FLAGS.get(source, []), *flags, f"-I{SOURCES}",
                                "-o", str(target), str(SOURCES / source)], capture_output=True, text=True, timeout=200)
            assert r.returncode == 0, r.stderr

        return make_once(target, compile)

    return build
