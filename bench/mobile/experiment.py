# SPDX-License-Identifier: Apache-2.0
"""The experiments: the same programs under both schedulers, and programs in pairs."""
import json

import mix
import paper
from node import Node

# The Manager's time limits, in seconds of the paper's node; scaled like all times.
MANAGER_SECONDS = {"--rebalance-after": 10, "--min-residency": 1, "--starvation-limit": 30,
                   "--progress-interval": 1, "--pairing-limit": 300}


def order(count, seed, scale, model=None, names=tuple(paper.PROGRAMS)):
    """`count` programs in the order that mix.draw() gives for this seed."""
    return [mix.program(name, scale, model) for name in mix.draw(count, seed, names)]


def one_per_gpu(build, gpus, scale, model, programs):
    """The paper's simple scheduler: the next program starts when a GPU is free. Returns runs in order of their ends, and
    the energy of the GPUs in joules."""
    with Node(build, gpus, scale, model) as node:
        waiting, done = list(programs), []
        for gpu in range(min(gpus, len(waiting))):
            node.start_alone(waiting.pop(0), gpu)
        while node.children:
            run = node.wait_one()
            run.spans = [("running", run.gpu, run.begun, run.ended)]
            done.append(run)
            if waiting:
                node.start_alone(waiting.pop(0), run.gpu)
        return done, node.energy.joules()


def managed(build, gpus, scale, model, programs, options=()):
    """All programs at once under ckptd, with these options. Returns runs in order of their ends, and the energy of the
    GPUs in joules."""
    chosen = {option.split("=")[0] for option in options}
    scaled = [word for name, seconds in MANAGER_SECONDS.items() if name not in chosen
              for word in (name, f"{seconds * scale:.4f}")]
    with Node(build, gpus, scale, model, [*scaled, *options]) as node:
        node.start_manager()
        for program in programs:
            node.start_managed(program)
        done = [node.wait_one() for _ in programs]
        joules = node.energy.joules()
        node.stop_manager()
        add_spans(done, node.journal())
        return done, joules


# The journal has the state in which a message finds a program; these messages change it. A program that
# asks for a GPU is pending until it gets one, also if it asks again, for a device variable (MC-14).
AFTER = {"Connect": "pending", "SuspendDone": "evicted", "MigDone": "running"}


def leaves(event):
    """The program has left its GPU. An evicted one says Evicted, too, when it has given its context back."""
    return event.get("from") in ("SuspendDone", "Evicted") and event["state"] == "evicting"


def add_spans(runs, journal):
    """Fills the runs' spans from ckptd's journal, up to each program's message that it ends."""
    by_pid, now = {run.pid: run for run in runs if run.pid}, {}
    for line in journal:
        event = json.loads(line)
        run, message = by_pid.get(event.get("pid")), event.get("from")
        if run is None:
            continue
        state = "evicted" if leaves(event) else AFTER.get(message, event["state"])
        moment, place = event["us"] / 1e6, (state, event["gpu"])
        old, since = now.pop(run.pid, (place, moment))
        if old[0] == state == "evicted":
            place = old  # whatever of it stays on the GPU
        if old != place or message == "Fin":
            run.spans.append((*old, since, moment))
            since = moment
        now[run.pid] = place, since
        if message == "Fin":
            del now[run.pid], by_pid[run.pid]  # later messages change nothing
        run.evictions += leaves(event)
    for pid, (place, since) in now.items():
        by_pid[pid].spans.append((*place, since, by_pid[pid].ended))


def makespan(runs):
    return max(r.ended for r in runs) - min(r.begun for r in runs)


def by_the_model(programs, gpus):
    """When each program would end with one program per GPU and no time lost in starting and waking up."""
    free, ends = [0.0] * gpus, []
    for p in programs:
        first = free.index(min(free))
        free[first] += p.seconds
        ends.append(free[first])
    return ends


def least(programs, gpus):
    """A lower bound of any makespan: the work of the busier kind of engine, spread over all GPUs."""
    return max(sum(p.kernels for p in programs), sum(p.copies for p in programs)) / gpus


def compare(build, gpus, scale, model, programs, options=(), with_manager=True, with_baseline=True):
    """Runs one order of programs under both schedulers: {"simple": (runs, joules), "managed": (runs, joules)}."""
    result = {"simple": one_per_gpu(build, gpus, scale, model, programs)} if with_baseline else {}
    if with_manager:
        result["managed"] = managed(build, gpus, scale, model, programs, options)
    return result


# ---- pairs


def alone(build, scale, model, name):
    """The run of one program alone on a GPU."""
    with Node(build, 1, scale, model) as node:
        node.start_alone(mix.program(name, scale), 0)
        return checked(node.wait_one())


def checked(run):
    """`run`, or an exception if the program failed."""
    if run.failure:
        raise RuntimeError(f"{run.program.name}: {run.failure}")
    return run


def rate_beside(run, other):
    """How many times longer than alone the steps of `run` took beside `other`.

    The program that ends first was never alone. The other one was alone for the rest of its time, and its
    work went at full speed then.
    """
    begin = max(run["begin"], other["begin"])
    shared = min(run["end"], other["end"]) - begin
    if run["end"] <= other["end"]:
        return shared / (run["alone"] - (begin - run["begin"]))
    lone = (run["end"] - other["end"]) + (begin - run["begin"])
    return shared / max(run["alone"] - lone, 1e-9)


def pair(build, scale, model, first, second, lone):
    """The slowdowns of two programs on one GPU, without a Manager."""
    with Node(build, 1, scale, model) as node:
        programs = [mix.program(name, scale) for name in (first, second)]
        started = [node.start_alone(p, 0) for p in programs]
        for _ in programs:
            checked(node.wait_one())
        facts = [{"begin": r.moments["started"], "end": r.moments["checked"], "alone": lone[r.program.name]} for r in started]
        return rate_beside(facts[0], facts[1]), rate_beside(facts[1], facts[0])


def matrix(build, scale, model):
    """Returns {(a, b): slowdown of a beside b} and {a: seconds alone}."""
    lone = {name: alone(build, scale, model, name).own for name in paper.PAIRED}
    slowdown = {}
    for a, b in paper.pairs():
        slowdown[a, b], slowdown[b, a] = pair(build, scale, model, a, b, lone)
    return slowdown, lone


# ---- the cost of the Manager for a program that is alone


def overhead(build, scale, model, name, rounds):
    """The least seconds of one program alone on a GPU, without ckptd and under it, run in turns."""
    times = [], []
    for _ in range(rounds):
        times[0].append(alone(build, scale, model, name).own)
        times[1].append(checked(managed(build, 1, scale, model, [mix.program(name, scale)])[0][0]).own)
    return [min(t) for t in times]
