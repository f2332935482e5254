# SPDX-License-Identifier: Apache-2.0
"""The paper's programs as work for the software device, and the device model that goes with it.

Times are scaled by --scale: what took 73.3 s takes 3.7 s at 0.05. Memory is scaled by a factor of its
own, which is fixed, and the rate of copies by both, so that copying a program's memory out takes the
same share of its time as on the paper's node. Kernels touch a small part of the data, as they are
interpreted: compute and memory rates are scaled alike for that.
"""
import dataclasses
import pathlib
import random

import paper

HERE = pathlib.Path(__file__).resolve().parent
MIB_PER_GB = 15
GPU_MIB = paper.GPU_MB * MIB_PER_GB // 1000
CONTEXT_MIB = round(paper.CONTEXT_MB * MIB_PER_GB / 1000)
GRAIN = 2 << 20  # what devices give memory out in
# Work of the interpreter for a second of the model's.
WORK = 5e-5

# What bench/mobile/derive finds: lengths of steps, in units of the time in which the pcie program of
# 2 GB copies its three vectors.
KERNEL = {"matrixMul": 0.860, "bandWidth": 0.309, "devmem": 0.310, "pcie": 0.481, "map": 2.700, "malloc_in_kernel": 0.860}
GAP = {"map": 0.313}
# How a step's length grows with the memory: a product of matrices as its power of 1.5.
POWER = {"matrixMul": 1.5}

# What a unit of --work costs (docs/SOFTCUDA.md counts so): PTX instructions, bytes. Counted by a model
# with only that rate; they are facts of the compiled programs and not of any device.
COST = {"matrixMul": (38400, 6144), "pcie": (27.4, 12), "bandWidth": (27.4, 12), "devmem": (29.4, 12), "map": (28.4, 16),
        "malloc_in_kernel": (26.1, 5.7)}
# Vectors that are copied before and after the steps.
COPIES = {"matrixMul": 3, "pcie": 0, "bandWidth": 4, "devmem": 4, "map": 2, "malloc_in_kernel": 0}
SOURCE = {"matrixMul": "matrix_mul", "pcie": "pcie", "bandWidth": "band_width", "devmem": "devmem", "map": "map",
          "malloc_in_kernel": "malloc_in_kernel"}


def read_model():
    """k20c.model: {"compute": …}."""
    lines = (HERE / "k20c.model").read_text().splitlines()
    words = [line.split("#")[0].split() for line in lines]
    return {w[0]: float(w[1]) for w in words if w}


def changed(model, changes):
    """By "compute=+25%" and the like."""
    model = dict(model)
    for change in changes:
        name, _, amount = change.partition("=")
        if name not in model or not amount.endswith("%"):
            raise ValueError(f"{change}: not of the form compute=+25%; rates are {', '.join(model)}")
        model[name] *= 1 + float(amount[:-1]) / 100
    return model


def device_model(model, scale):
    """The file for CKPT_SOFTCUDA_MODEL."""
    rates = {"compute": model["compute"] * WORK, "memory": model["memory"] * WORK,
             "copy": model["copy"] * MIB_PER_GB * (1 << 20) / 1e9 / scale, "launch": model["launch"] * scale,
             "switch": model["switch"] * scale, "mapped": model["mapped"], "crowd": model["crowd"]}
    return "".join(f"{name} {rate:.6g}\n" for name, rate in rates.items())


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    kind: str
    mib: int
    work: int
    steps: int
    gap: float      # seconds, scaled
    seconds: float  # that it takes alone by the model, scaled
    kernels: float  # of these, those in which it needs the engine for kernels
    copies: float   # and the bus

    def arguments(self):
        return ["--mib", str(self.mib), "--work", str(self.work), "--steps", str(self.steps), "--gap", f"{self.gap:.6f}"]


def draw(count, seed, names=tuple(paper.PROGRAMS)):
    """The names of a mix in a random order: each of them equally often, the rest drawn."""
    chance, names = random.Random(seed), list(names)
    chosen = names * (count // len(names)) + chance.sample(names, count % len(names))
    chance.shuffle(chosen)
    return chosen


def mib_of(gb):
    return round(gb * MIB_PER_GB / 2) * 2


def step_times(kind, work, vector, model, scale):
    """Seconds of the paper's node: of a step's kernel, of its copies, and of all copies before and after."""
    instructions, moved = COST[kind]
    kernel = work / (WORK * scale) * max(instructions / model["compute"], moved / model["memory"])
    copy = vector / model["copy"] + model["launch"]
    return kernel + model["launch"], 3 * copy if kind == "pcie" else 0, COPIES[kind] * copy


def program(name, scale, model=None):
    """A program of the paper's mix. What it does is sized for the unchanged model; its times are by `model`."""
    seconds, gb, kind = paper.PROGRAMS[name]
    unchanged, mib = read_model(), mib_of(gb)
    vector = mib // 6 * GRAIN / (MIB_PER_GB * (1 << 20)) * 1e9  # bytes on the paper's node
    unit = 2e9 / unchanged["copy"] * (gb / 2) ** POWER.get(kind, 1)
    gap = GAP.get(kind, 0) * unit
    work = max(1, round(KERNEL[kind] * unit / step_times(kind, 1, vector, dict(unchanged, launch=0), scale)[0]))
    kernel, copy, others = step_times(kind, work, vector, unchanged, scale)
    steps = max(1, round((seconds - others) / (kernel + copy + gap)))
    model = model or unchanged
    kernel, copy, others = step_times(kind, work, vector, model, scale)
    bus = model["mapped"] * kernel if kind == "map" else copy
    return Program(name, kind, mib, work, steps, gap * scale, (others + steps * (kernel + copy + gap)) * scale,
                   steps * kernel * scale, (others + steps * bus) * scale)
