# SPDX-License-Identifier: Apache-2.0
"""The rows of tests/gpu/run, the most important first."""
import dataclasses
import importlib.util
import pathlib
import shutil


@dataclasses.dataclass
class Row:
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0  # 0: the limit of all rows
    needs: list = dataclasses.field(default_factory=list)  # files
    module: str = ""  # of Python
    tool: str = ""  # a command of the driver

    def missing(self):
        """Why this row is not run; empty: it is."""
        if self.module and importlib.util.find_spec(self.module) is None:
            return f"{self.module} is not installed here"
        if self.tool and shutil.which(self.tool) is None:
            return f"{self.tool} is not installed here"
        absent = [pathlib.Path(f).name for f in self.needs if not pathlib.Path(f).exists()]
        return f"{', '.join(absent)} is not in this folder" if absent else ""


# What docs/CUDA.md calls not known on hardware: the questions that tests/gpu/probe*.cc put to the driver itself.
PROBES = [("start", "the driver and its devices"),
          ("empty-reservation", "checkpoint beside an empty reservation"),
          ("mapped-memory", "checkpoint keeps memory of cuMemCreate"),
          ("allocated-memory", "checkpoint keeps memory of cuMemAlloc"),
          ("fixed-address", "an address is reserved again"),
          ("new-memory", "copies use memory that was mapped anew"),
          ("map-none", "restore without a map"),
          ("map-visible", "restore with a map of the visible devices"),
          ("map-full", "restore with a map of all GPUs"),
          ("map-swapped", "restore with two GPUs swapped"),
          ("cold", "restore after an idle time"),
          ("out-of-memory", "restore without room, and again with room"),
          ("holes", "device ranges that a checkpoint unmaps"),
          ("descriptors", "what a checkpoint leaves open"),
          ("reservation", "flags of a large reservation"),
          ("rdma", "memory for GPUDirect RDMA"),
          ("pinned-file", "page-locked memory file"),
          ("times", "seconds of the driver's own calls")]


def all_rows(folder, software):
    tools, criu = folder / "build/tools", folder / "criu/bin/criu"
    native = [software] if software else []
    rows = [Row("criu check", [criu, "check"], needs=[criu])]
    for version in ("580", "570"):
        programs = folder / "programs" / version
        rows += driver_rows(version, programs, native) + ckpt_rows(version, folder, programs, tools)
    rows += speed_rows(folder, tools, folder / "programs/580")
    on_gpu = folder / "mobile/on_gpu"
    rows.append(Row("the Manager: 20 programs with a quota of memory",
                    [on_gpu, tools, folder / "mobile", "--programs", "20", "--mib-per-gb", "512", "--scale", "0.05"],
                    seconds=180, needs=[on_gpu], tool="nvidia-smi"))
    return rows


def driver_rows(version, programs, native):
    """The probe has no device code, and one binary serves all drivers."""
    if version != "580":
        return []
    probe = programs / "probe"
    rows = [Row(f"driver: {text}", [*native, probe, question], needs=[probe]) for question, text in PROBES]
    rows.append(Row("driver: restore with a map of all GPUs, one visible", [*native, probe, "map-full"],
                    {"CUDA_VISIBLE_DEVICES": "0"}, needs=[probe]))
    heap = programs / "heap"
    rows.append(Row("driver: checkpoint keeps the device's heap", [*native, heap], needs=[heap]))
    return rows


def ckpt_rows(version, folder, programs, tools):
    rows, run = [], tools / "ckpt-run"
    if version == "580":
        rows.append(Row("ckpt: the devices of all APIs", [run, "--list-devices"], needs=[run]))
    for runtime in ("static", "shared") if version == "580" else ("static",):
        for name in ("vector_add", "kernels", "streams") if version == "580" else ("vector_add", "streams"):
            program = programs / f"{name}-{runtime}"
            rows.append(Row(f"ckpt: {name}, {runtime} runtime, binary for {version}", [run, "--managed-on-host", program], needs=[program]))
        program = programs / f"steps-{runtime}"
        for way, text in ("dump", "dump, kill, restore"), ("suspend", "suspend, resume"):
            rows.append(Row(f"ckpt: {text}, {runtime} runtime, binary for {version}",
                            [folder / "job.py", way, tools, program, "6"], needs=[program, folder / "job.py"]))
    if version != "580":
        return rows
    for module in ("torch", "cupy", "jax"):
        for way, text in ("dump", "dump, kill, restore"), ("suspend", "suspend, resume"):
            rows.append(Row(f"ckpt: {text}, training with {module}",
                            [folder / "job.py", way, tools, "python3", folder / "train.py", module, "6"], module=module))
    overhead = programs / "overhead"
    rows += [Row("cost of a call, without ckpt", [overhead], needs=[overhead]),
             Row("cost of a call, under ckpt-run", [run, overhead], needs=[overhead])]
    return rows


def speed_rows(folder, tools, programs):
    speed = folder / "speed.py"
    return [Row(f"speed: {text}, 4 GiB of {content}", [speed, tools, programs, "4096", way, content], needs=[speed, programs / "hold"])
            for content in ("smooth", "random", "zeros")
            for way, text in (("own", "the driver's own calls"), ("suspend", "suspend, resume"), ("dump", "dump, restore"))]
