# SPDX-License-Identifier: Apache-2.0
"""Logs of what owners do with their machines, in the form of ckpt-idled --replay: synthetic ones, and real ones of
cluster nodes."""
import math
import random

HOUR = 3600
# Oka et al. (docs/PAPERS.md, CM): hours that each PC was on, and the success rate of guests' tasks when the keyboard
# counts, and when it does not. The gain of idle time is given as 4 to 40 points only: which PC had which is
# assumed.
PAPER = {"PC1": (135.1, 0.568, 0.942, 0.80), "PC2": (15.9, 0.845, 0.903, 0.95),
         "PC3": (197.0, 0.583, 0.969, 0.80), "PC4": (81.6, 0.388, 0.973, 0.59)}
SPELL = 0.5       # mean seconds of a load that counts, on the PCs
KEY_GAP = 0.4     # seconds between two keys while the owner is at the keyboard
WATCHED = 1       # seconds for which a key counts


class Log:
    """Lines of changes: at a time, the load; and moments of input."""

    def __init__(self):
        self.lines = []

    def load(self, at, percent):
        self.lines.append((at, f"cpu={percent}"))

    def key(self, at):
        self.lines.append((at, "input"))

    def text(self, end):
        """In order. A moment of input does not change the load."""
        load, out = "cpu=0", ["0 cpu=0"]
        for at, words in sorted(self.lines):
            if at >= end:
                break
            if words == "input":
                out.append(f"{at:.3f} {load} input")
            else:
                load = words
                out.append(f"{at:.3f} {load}")
        return "\n".join([*out, f"{end:.3f}", ""])


def paper_pc(name, task, rng):
    """A PC at which two things happen independently of each other, and of how long it has been quiet: loads
    that count (mean SPELL), and use of the keyboard. A guest's task of `task` seconds then
    succeeds with the probability exp(-rate * task), which gives both rates."""
    hours, old, new, old_idle = PAPER[name]
    end = hours * HOUR
    loads = -math.log(new) / task
    keys = -math.log(old) / task - loads
    log, at = Log(), 0.0
    while (at := at + rng.expovariate(loads)) < end:
        log.load(at, 60)
        at += rng.expovariate(1 / SPELL)
        log.load(at, 5)
    # Idle for 1 / keys on average, then at the keyboard for so long that old_idle of the time is idle.
    present = max(KEY_GAP, (1 - old_idle) / old_idle / keys - WATCHED - 1)
    at = 0.0
    while (at := at + WATCHED + 1 + rng.expovariate(keys)) < end:
        leaves = at + rng.expovariate(1 / present)
        log.key(at)
        while (at := at + KEY_GAP) < leaves:
            log.key(at)
    return log.text(end)


def office(days, rng):
    """Working days from 9 to 17: programs that count for 20 minutes, and then 40 minutes without, on average.
    Nights and two days of seven are quiet. An assumption, not a measurement."""
    log, end = Log(), days * 24 * HOUR
    for day in range(days):
        if day % 7 >= 5:
            continue
        at, evening = day * 24 * HOUR + 9 * HOUR, day * 24 * HOUR + 17 * HOUR
        while (at := at + rng.expovariate(1 / (40 * 60))) < evening:
            log.load(at, 70)
            at = min(evening, at + rng.expovariate(1 / (20 * 60)))
            log.load(at, 2)
    return log.text(end)


def cluster_nodes(swf, every, processors=2):
    """Nodes of a cluster, of which the log has the jobs (Standard Workload Format): the owner is the cluster. Jobs get
    the first nodes that are free, as the log does not say which they had. Every `every`-th node's log."""
    jobs = []
    total = 0
    for line in swf.read_text().splitlines():
        if line.startswith("; MaxProcs:"):
            total = int(line.split()[-1]) // processors
        if not line.strip() or line.startswith(";"):
            continue
        submit, wait, run, procs = (float(word) for word in line.split()[1:5])
        if run > 0 and wait >= 0 and procs > 0:
            jobs.append((submit + wait, run, -(-int(procs) // processors)))
    free_at, logs, end = [0.0] * total, [Log() for _ in range(total)], 0.0
    for start, run, nodes in sorted(jobs):
        free = [n for n in range(total) if free_at[n] <= start][:nodes]
        for n in free:
            free_at[n] = start + run
            logs[n].load(start, 100)
            logs[n].load(start + run, 0)
        end = max(end, start)
    return [logs[n].text(end) for n in range(0, total, every)]


def generator(seed, name):
    return random.Random(f"{seed} {name}")
