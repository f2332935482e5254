# SPDX-License-Identifier: Apache-2.0
"""The rows of tests/gpu/run, the most important first."""
import dataclasses
import importlib.util
import pathlib
import shutil

CUDA_OF = {"580": 13000, "570": 12080}  # what programs for a driver need it to report


@dataclasses.dataclass
class Row:
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0  # 0: the limit of all rows
    needs: list = dataclasses.field(default_factory=list)  # files
    module: str = ""  # of Python
    tool: str = ""  # a command of the driver
    skip: str = ""  # why it is not run here
    alone: bool = False  # it measures, or needs the whole device

    def missing(self):
        """Why this row is not run; empty: it is."""
        if self.skip:
            return self.skip
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
          ("graph", "graphs use memory that was mapped anew"),
          ("texture", "textures use memory that was mapped anew"),
          ("peers", "copies between GPUs without peer access"),
          ("opencl", "checkpoint keeps OpenCL buffers of the same process"),
          ("map-none", "restore without a map"),
          ("map-visible", "restore with a map of the visible devices"),
          ("map-full", "restore with a map of all GPUs"),
          ("map-swapped", "restore with two GPUs swapped"),
          ("cold", "restore after an idle time"),
          ("out-of-memory", "restore without room, and again with room"),
          ("holes", "device ranges that a checkpoint unmaps"),
          ("descriptors", "what a checkpoint leaves open"),
          ("calls-away", "calls while it is checkpointed"),
          ("reservation", "flags of a large reservation"),
          ("rdma", "memory for GPUDirect RDMA"),
          ("pinned-file", "page-locked memory file"),
          ("times", "seconds of the driver's own calls")]

ALONE = ("cold", "out-of-memory", "pinned-file", "times")

WAYS = [("dump", "dump, kill, restore"), ("suspend", "suspend, resume")]


@dataclasses.dataclass
class Pack:
    """The folder that tests/gpu/pack made, on this machine."""
    folder: pathlib.Path
    software: pathlib.Path | None  # softcuda-run
    cuda: int  # what the driver reports, as 12080; 0: nothing

    @property
    def run(self):
        return self.tools / "ckpt-run"

    @property
    def tools(self):
        return self.folder / "build/tools"

    def programs(self, version):
        return self.folder / "programs" / version

    @property
    def newest(self):
        """The programs for rows that need one version only."""
        return "570" if 0 < self.cuda < CUDA_OF["580"] else "580"

    def skip(self, version, runtime="shared"):
        """Why programs for this driver and with this runtime cannot run here."""
        if self.software and runtime == "static":
            return "NVIDIA's static runtime refuses the software device"
        if not self.software and 0 < self.cuda < CUDA_OF[version]:
            return f"its code needs driver {version}; this driver has CUDA {self.cuda // 1000}.{self.cuda % 1000 // 10}"
        return ""

    def environment(self, version):
        return {"CKPT_SOFTCUDA_DRIVER": version} if self.software else {}


def all_rows(folder, software=None, cuda=0):
    pack = Pack(folder, software, cuda)
    criu = folder / "criu/bin/criu"
    rows = [Row("criu check", [criu, "check"], needs=[criu])] + driver_rows(pack)
    rows.append(Row("ckpt: the devices of all APIs", [pack.run, "--list-devices"], needs=[pack.run]))
    for version in ("580", "570"):
        rows += program_rows(pack, version)
    return rows + library_rows(pack) + opencl_rows(pack) + cost_rows(pack) + speed_rows(pack) + [manager_row(pack)]


def driver_rows(pack):
    """The probe has no code for one driver only, and one binary serves all."""
    probe = pack.programs("580") / "probe"
    rows = [Row(f"driver: {text}", [probe, question], needs=[probe], alone=question in ALONE)
            for question, text in PROBES]
    rows.append(Row("driver: restore with a map of all GPUs, one visible", [probe, "map-full"],
                    {"CUDA_VISIBLE_DEVICES": "0"}, needs=[probe]))
    heap = pack.programs(pack.newest) / "heap"
    rows.append(Row("driver: checkpoint keeps the device's heap", [heap], needs=[heap]))
    return rows


def program_rows(pack, version):
    rows = []
    for runtime in "static", "shared":
        common = {"environment": pack.environment(version), "skip": pack.skip(version, runtime)}
        where = f"{runtime} runtime, binary for {version}"
        for name in "vector_add", "kernels", "streams":
            program = pack.programs(version) / f"{name}-{runtime}"
            rows.append(job(pack, f"{name}, {where}", "run", program, needs=[program], **common))
        program = pack.programs(version) / f"steps-{runtime}"
        rows += [job(pack, f"{text}, {where}", way, program, "6", needs=[program], **common) for way, text in WAYS]
    return rows


def job(pack, text, way, *program, needs=(), **other):
    script = pack.folder / "job.py"
    return Row(f"ckpt: {text}", [script, way, pack.tools, *program], needs=[script, *needs], **other)


def library_rows(pack):
    why = "its runtime is NVIDIA's, which refuses the software device" if pack.software else ""
    train = pack.folder / "train.py"
    return [job(pack, f"{text}, training with {module}", way, "python3", train, module, "6", needs=[train], module=module, skip=why)
            for module in ("torch", "cupy", "jax") for way, text in WAYS]


def opencl_rows(pack):
    script = pack.folder / "opencl.py"
    find = Row("ckpt: the machine's OpenCL loader finds ckpt (OCL_ICD_VENDORS)", [pack.run, "python3", script, "platform"],
               needs=[script])
    return [find] + [job(pack, f"{text}, OpenCL", way, "python3", script, "6", needs=[script]) for way, text in WAYS]


def cost_rows(pack):
    overhead = pack.programs(pack.newest) / "overhead"
    return [Row("cost of a call, without ckpt", [overhead], needs=[overhead], alone=True),
            Row("cost of a call, under ckpt-run", [pack.run, overhead], needs=[overhead], alone=True)]


def speed_rows(pack):
    """The peers' rows beside ours. cuda-checkpoint is NVIDIA's; a user may have it."""
    speed, programs = pack.folder / "speed.py", pack.programs(pack.newest)
    mib = 128 if pack.software else 4096
    ways = [("suspend", "suspend, resume"), ("dump", "dump, restore"), ("own", "the driver's own calls"),
            ("peer", "cuda-checkpoint and CRIU")]
    return [Row(f"speed: {text}, {mib} MiB of {content}", [speed, pack.tools, programs, mib, way, content], alone=True,
                needs=[speed, programs / "hold"], tool="cuda-checkpoint" if way == "peer" else "")
            for content in ("smooth", "random", "zeros") for way, text in ways if way != "peer" or content == "smooth"] + \
        [Row(f"speed: {text}, {mib} MiB", [speed, pack.tools, programs, mib, way, content], alone=True,
             needs=[speed, programs / "hold"])
         for way, content, text in (("survey", "zeros", "a device looks at zeros, none are read"),
                                    ("second", "random", "second image, 1 % of chunks changed"))]


def manager_row(pack):
    on_gpu, programs = pack.folder / "mobile/on_gpu", pack.folder / "mobile" / pack.newest
    count, size = ("3", ["--mib-per-gb", "15", "--scale", "0.01", "--work", "4096", "--software", pack.software.parents[1]]) \
        if pack.software else ("20", ["--mib-per-gb", "512", "--scale", "0.05"])
    return Row(f"the Manager: {count} programs with a quota of memory", [on_gpu, pack.tools, programs, "--programs", count, *size],
               seconds=180, alone=True, needs=[on_gpu, programs / "map"], tool="" if pack.software else "nvidia-smi")
