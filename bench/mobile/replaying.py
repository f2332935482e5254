# SPDX-License-Identifier: Apache-2.0
"""An order of programs as input of the replay (replayer/script.h), and its result."""
import hashlib
import json
import subprocess

import experiment
import mix
import paper

BYTES_PER_MIB = 1e9 / mix.MIB_PER_GB  # of the scaled experiment, on the paper's node
KERNELS = {"map": "m"}


def operations(kind, program, model):
    """The operations before the steps, of a step, and after them: in seconds of the paper's node."""
    vector = program.mib // 6 * mix.GRAIN / (mix.MIB_PER_GB * (1 << 20)) * 1e9
    kernel, copies, _ = mix.step_times(kind, program.work, vector, model, 1)
    copy = f"c{vector / model['copy'] + model['launch']:.9f}:{vector:.0f}"
    run = f"{KERNELS.get(kind, 'k')}{kernel:.9f}"
    step = [copy, copy, run, copy] if copies else [run]
    if program.gap:
        step.append(f"h{program.gap:.9f}")
    after = mix.COPIES[kind] // 2
    return [copy] * (mix.COPIES[kind] - after), step, [copy] * after


def line_of(program, model):
    kind = program.kind
    vector, total = program.mib // 6 * 2 * BYTES_PER_MIB, program.mib * BYTES_PER_MIB
    held = 0 if kind == "devmem" else 3 * vector
    allocations = [vector] * 3 if held else []
    if total - 3 * vector > 1:
        allocations.append(total - 3 * vector)
    lists = [[f"{a:.0f}" for a in allocations], *operations(kind, program, model)]
    ahead = 1 if kind == "pcie" or program.gap else 8
    workload = int(hashlib.sha256(program.name.encode()).hexdigest()[:15], 16)
    return (f"program {program.name} {workload} {int(kind == 'malloc_in_kernel')} "
            f"{3 * vector if kind == 'devmem' else 0:.0f} {ahead} {program.steps} "
            + " ".join(",".join(x) or "-" for x in lists))


def text_of(programs, gpus, model, settings):
    node = (f"node {gpus} {mix.GPU_MIB * BYTES_PER_MIB:.0f} {mix.CONTEXT_MIB * BYTES_PER_MIB:.0f} {model['copy']} "
            f"{model['switch']} {model['crowd']} {model['mapped']}")
    limits = {name.removeprefix("--"): seconds for name, seconds in experiment.MANAGER_SECONDS.items()}
    lines = [f"set {name} {value}" for name, value in ({"placement": "demand", **limits} | settings).items()]
    return "\n".join([node, *lines, *(line_of(p, model) for p in programs)]) + "\n"


def replay(tool, programs, gpus, model, settings=None, spans=False):
    """Runs the programs, which mix.program() made for a scale of 1. Returns the tool's result."""
    text = text_of(programs, gpus, model, settings or {})
    r = subprocess.run([tool, *(["--spans"] if spans else [])], input=text, capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(f"{tool}: exit code {r.returncode}: {r.stderr[-1000:]}{r.stdout[-300:]}")
    return json.loads(r.stdout)
