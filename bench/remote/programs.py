# SPDX-License-Identifier: Apache-2.0
"""Programs for the benchmarks of devices of other nodes: what they compute, and how they are compiled."""
import dataclasses
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "bench" / "remote", ROOT / "tests" / "programs" / "cuda", ROOT / "bench" / "mobile" / "programs"]


def source_of(name):
    return next(folder / f"{name}.cu" for folder in SOURCES if (folder / f"{name}.cu").exists())


def compile_cuda(build, name):
    """With nvcc and the shared runtime, once for each version of the source."""
    source, target = source_of(name), build / "bench" / "remote" / "programs" / name
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    toolkit = subprocess.run([ROOT / "scripts" / "find-cuda"], check=True, capture_output=True, text=True).stdout.strip()
    if not toolkit:
        raise SystemExit("there is no CUDA toolkit; scripts/get-cuda downloads one")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([f"{toolkit}/bin/nvcc", "-w", "-O2", "-std=c++17", "-cudart", "shared", "-o", target, source], check=True)
    return target


def compile_opencl(build, name):
    """One of bench/mobile/programs."""
    source, target = SOURCES[2] / f"{name}.cc", build / "bench" / "remote" / "programs" / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["c++", "-O2", "-std=c++17", "-o", target, source, "-lOpenCL"], check=True)
    return target


@dataclasses.dataclass(frozen=True)
class Program:
    """`steps` steps, of which the benchmark knows when they end: `step` matches a line with the number of the last one."""
    api: str
    title: str
    command: list
    steps: int
    step: str = ""  # none: a line TIMES has the moments (bench/mobile/programs/mobile.h)

    def seconds_a_step(self, job):
        """Of a job that has ended."""
        if not self.step:
            line = next(text for _, text in job.lines if text.startswith("TIMES"))
            at = dict(zip(line.split()[3::2], map(float, line.split()[4::2])))
            return (at["computed"] - at["loaded"]) / self.steps
        seen = [(when, int(m[1])) for when, text in job.lines if (m := re.search(self.step, text))]
        (first, n), (last, m) = seen[0], seen[-1]
        return (last - first) / (m - n)


def middle(values):
    return statistics.median(values)
