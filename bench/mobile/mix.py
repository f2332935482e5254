# SPDX-License-Identifier: Apache-2.0
"""The paper's programs as work for the software device, and the device model that goes with them.

The problem. On the paper's node a program takes a minute and 2 GB; an experiment with a hundred of
them must fit into minutes and into the memory of a small machine, while what it measures (which
program waits for which, what an eviction costs) keeps its proportions.

The scales. There are three, and they are independent:

  time     --scale: what took 73.3 s takes 3.7 s at 0.05
  memory   15 MiB for each GB, so that a K20c has 72 MiB
  work     kernels touch a small part of their data, because the software device interprets them:
           compute and memory rates are multiplied by WORK

The rate of copies is scaled by time and memory together, so that copying all memory of a program, as
an eviction does, takes the same share of its time as on the paper's node.

An example, matrixMul at --scale 0.05. bench/mobile/derive says that a kernel takes 0.86 units, which
is 0.57 s on the paper's node. program() chooses --work so that the modelled kernel takes 0.05 times
that, and as many steps as fill the 73.3 s of Table 5 after its copies: 127, or 3.7 s in all.

If a rate is changed (--rates), programs keep their work and their steps, and only their times change.
"""
import dataclasses
import pathlib
import random

import paper

HERE = pathlib.Path(__file__).resolve().parent
MIB_PER_GB = 15
GPU_MIB = paper.GPU_MB * MIB_PER_GB // 1000
CONTEXT_MIB = round(paper.CONTEXT_MB * MIB_PER_GB / 1000)
GRAIN = 2 << 20  # devices allocate multiples of this
WORK = 5e-5  # modelled rates to rates of the paper's node

# The result of bench/mobile/derive: lengths of kernels and host work in a step, in units of the time in
# which the pcie program of 2 GB copies its three vectors.
KERNEL = {"matrixMul": 0.860, "bandWidth": 0.309, "devmem": 0.310, "pcie": 0.481, "map": 2.700, "malloc_in_kernel": 0.860}
GAP = {"map": 0.313}
# The length of a step grows with this power of the memory: 1.5 for a product of matrices.
POWER = {"matrixMul": 1.5}

# The cost of one unit of --work: PTX instructions and bytes, as docs/SOFTCUDA.md defines them. Each was
# counted by a model with only that rate. They depend on the compiled programs, not on a device.
COST = {"matrixMul": (38400, 6144), "pcie": (27.4, 12), "bandWidth": (27.4, 12), "devmem": (29.4, 12), "map": (28.4, 16),
        "malloc_in_kernel": (26.1, 5.7)}
# How many vectors are copied before and after the steps.
COPIES = {"matrixMul": 3, "pcie": 0, "bandWidth": 4, "devmem": 4, "map": 2, "malloc_in_kernel": 0}
SOURCE = {"matrixMul": "matrix_mul", "pcie": "pcie", "bandWidth": "band_width", "devmem": "devmem", "map": "map",
          "malloc_in_kernel": "malloc_in_kernel"}


def read_model():
    """The rates of k20c.model: {"compute": …}."""
    lines = (HERE / "k20c.model").read_text().splitlines()
    words = [line.split("#")[0].split() for line in lines]
    return {w[0]: float(w[1]) for w in words if w}


def changed(model, changes):
    """The model with changes such as "compute=+25%"."""
    model = dict(model)
    for change in changes:
        name, _, amount = change.partition("=")
        if name not in model or not amount.endswith("%"):
            raise ValueError(f"'{change}' is not of the form compute=+25%; the rates are {', '.join(model)}")
        model[name] *= 1 + float(amount[:-1]) / 100
    return model


def device_model(model, scale):
    """The contents of the file that CKPT_SOFTCUDA_MODEL names."""
    rates = {"compute": model["compute"] * WORK, "memory": model["memory"] * WORK,
             "copy": model["copy"] * MIB_PER_GB * (1 << 20) / 1e9 / scale, "launch": model["launch"] * scale,
             "switch": model["switch"] * scale, "mapped": model["mapped"], "crowd": model["crowd"],
             **{name: model[name] for name in ("idle", "active", "copying")}}
    return "".join(f"{name} {rate:.6g}\n" for name, rate in rates.items())


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    kind: str
    mib: int
    work: int
    steps: int
    gap: float      # seconds, scaled
    seconds: float  # alone, by the model; scaled
    kernels: float  # of these, with the engine for kernels
    copies: float   # of these, with the bus

    def arguments(self):
        return ["--mib", str(self.mib), "--work", str(self.work), "--steps", str(self.steps), "--gap", f"{self.gap:.6f}"]


def draw(count, seed, names=tuple(paper.PROGRAMS)):
    """Names in random order: each equally often, and the remainder drawn."""
    chance, names = random.Random(seed), list(names)
    chosen = names * (count // len(names)) + chance.sample(names, count % len(names))
    chance.shuffle(chosen)
    return chosen


def mib_of(gb):
    return round(gb * MIB_PER_GB / 2) * 2


def step_times(kind, work, vector, model, scale):
    """Seconds on the paper's node: the kernel of a step, its copies, and all copies before and after."""
    instructions, moved = COST[kind]
    kernel = work / (WORK * scale) * max(instructions / model["compute"], moved / model["memory"])
    copy = vector / model["copy"] + model["launch"]
    return kernel + model["launch"], 3 * copy if kind == "pcie" else 0, COPIES[kind] * copy


def program(name, scale, model=None):
    """A program of the paper's mix. Its work fits the unchanged model; its times are those of `model`."""
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
