# SPDX-License-Identifier: Apache-2.0
"""What Slurm would print of a cluster with many nodes and jobs, and commands that print it: a squeue and a scontrol for
ckpt-schedd. Not recorded, but in the form of tests/unit/tools/slurm-24.11.

The mix: three classes of nodes in six partitions, some of which overlap; 3 % of the nodes are drained or down. Half of
the jobs have a constraint on a class, 1 in 100 excludes some of 24 bad nodes, 2 in 100 are arrays or parts of
heterogeneous jobs, 5 in 100 have no tag, 5 in 100 wait for another job or are held. Jobs run on 92 % of the nodes; the others
wait, as in a long queue. With `share`, that part of the jobs says what memory traffic it has, and may share its node."""
import pathlib
import random
import time

MARK = "@"
CLASSES = ("fast", "mid", "slow")
LIMITS = (600, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800)
FIELDS = ("JobID", "JobArrayID", "State", "SubmitTime", "StartTime", "EligibleTime", "TimeLimit", "NumNodes", "RestartCnt",
          "PriorityLong", "OverSubscribe", "NumTasks", "Partition", "NodeList", "ReqNodes", "Feature", "tres-alloc",
          "tres-per-job", "tres-per-node", "tres-per-task", "Reason", "Comment", "ExcNodes")
USUAL = {"RestartCnt": 0, "PriorityLong": 4294900000, "OverSubscribe": "OK", "NodeList": "", "ReqNodes": "", "Feature": "(null)",
         "tres-per-job": "N/A", "tres-per-node": "N/A", "tres-per-task": "N/A", "ExcNodes": ""}
# The mark is squeue's, in its environment (tools/schedd/slurm.cc).
SQUEUE = """#!/bin/sh
if [ "$1" = --version ]; then echo slurm 24.11.5; exit; fi
mark=${SQUEUE_FORMAT2#JobID:}
exec sed "s/@/${mark%%,*}/g" "$CKPT_BENCH_FOLDER/squeue.txt"
"""
SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then exec cat "$CKPT_BENCH_FOLDER/nodes.txt"; fi
[ $# != 0 ] || exec sed 's/^/scontrol: /'
"""


class Cluster:
    def __init__(self, nodes, jobs, share=0.0, seed=1):
        self.chance = random.Random(seed)
        self.now = int(time.time())
        self.names = [f"n{i:05d}" for i in range(nodes)]
        self.kinds = [self.kind_of(i / nodes) for i in range(nodes)]
        self.share = share
        self.bad = self.chance.sample(self.names, min(24, nodes))
        self.usable = [self.chance.random() > 0.03 for _ in self.names]
        self.used = {}
        self.jobs = {j["JobID"]: j for jobs in (self.running_jobs(jobs), self.waiting_jobs(jobs)) for j in jobs}

    def kind_of(self, part):
        """The class and the partitions of a node in this part of the cluster."""
        c = 0 if part < 0.3 else 1 if part < 0.7 else 2
        return c, ["all", f"p{c}", *(["debug"] if 0.29 < part < 0.31 else []), *(["long"] if part > 0.5 else [])]

    def node(self, i):
        c, partitions = self.kinds[i]
        state = "IDLE" if not self.used.get(i) else "ALLOCATED" if self.used[i] >= 32 else "MIXED"
        gpus = "gpu:4(S:0-1)" if c == 0 else "(null)"
        return (f"NodeName={self.names[i]} Arch=x86_64 CoresPerSocket=16  CPUAlloc={self.used.get(i, 0)} CPUEfctv=32 CPUTot=32 CPULoad=1.00 "
                f"AvailableFeatures={CLASSES[c]},ib ActiveFeatures={CLASSES[c]},ib Gres={gpus} NodeAddr={self.names[i]} NodeHostName={self.names[i]} "
                f"Version=24.11.5 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian  RealMemory=256000 AllocMem=0 FreeMem=250000 Sockets=2 Boards=1 "
                f"State={state}{'' if self.usable[i] else '+DRAIN'} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
                f"Partitions={','.join(partitions)}  BootTime=2026-11-25T03:33:14 SlurmdStartTime=2026-11-25T03:59:39 "
                f"CfgTRES=cpu=32,mem=250G,billing=32 AllocTRES=  CurrentWatts=0 AveWatts=0 \n")

    def record(self, number, **fields):
        return {**USUAL, "JobID": number, "JobArrayID": number, **{k.replace("_", "-"): v for k, v in fields.items()}}

    def start(self, number, nodes):
        """As Slurm does when ckpt-schedd has placed a job."""
        job = self.jobs[number]
        job.update(State="RUNNING", NodeList=",".join(nodes), StartTime=int(time.time()), Reason="None")
        for name in nodes:
            i = int(name[1:])
            self.used[i] = self.used.get(i, 0) + int(job["tres-alloc"].split(",")[0][4:]) // len(nodes)

    def demand(self):
        """Of a job, besides its nodes."""
        chance, limit = self.chance, self.chance.choice(LIMITS)
        seconds = int(limit * chance.uniform(0.3, 1))
        tag = "" if chance.random() < 0.05 else f"ckpt:seconds={seconds},mb={chance.randint(50, 20000)}"
        sharing = tag and chance.random() < self.share
        cores = chance.randint(1, 8) if sharing else 32
        if sharing:
            tag += f",memory_gb={seconds * chance.uniform(0, 5):.0f}"
        z = chance.random()
        count = 1 if sharing or z < 0.6 else chance.randint(2, 8) if z < 0.9 else chance.randint(8, 32) if z < 0.98 else chance.randint(32, 128)
        return {"TimeLimit": f"{limit // 86400}-{limit % 86400 // 3600:02d}:{limit % 3600 // 60:02d}:00", "Comment": tag + ",held" if tag else "", "NumNodes": count,
                "NumTasks": count, "tres_alloc": f"cpu={cores * count},mem={cores * count * 4}G,node={count},billing={cores * count}"}, count, cores

    def running_jobs(self, jobs):
        order = [i for i in range(len(self.names)) if self.usable[i]]
        self.chance.shuffle(order)
        at, limit = 0, int(len(order) * 0.92)
        self.last = 0
        while at < limit and self.last < jobs:
            self.last += 1
            demand, count, cores = self.demand()
            while sum(self.used.get(i, 0) for i in order[at:at + 1]) + cores > 32:
                at += 1
            on = order[at:at + count]
            if not on:
                break
            for i in on:
                self.used[i] = self.used.get(i, 0) + cores
            at += 0 if cores < 32 else len(on)
            start = self.now - self.chance.randint(10, 86400)
            demand["NumNodes"] = len(on)
            yield self.record(self.last, State="RUNNING", SubmitTime=start - 100, StartTime=start, EligibleTime=start - 100, Partition="all",
                              NodeList=",".join(self.names[i] for i in on), Reason="None", **{k: v for k, v in demand.items() if k != "NodeList"})

    def waiting_jobs(self, jobs):
        chance = self.chance
        for number in range(self.last + 1, jobs + 1):
            demand, _, _ = self.demand()
            more = {"Partition": chance.choice(("all", "p0", "p1", "p2", "long", "debug", "p0,p1", "all,long"))}
            if chance.random() < 0.5:
                more["Feature"] = chance.choice((*CLASSES, "fast|mid", "ib&slow"))
            if chance.random() < 0.01:
                more["ExcNodes"] = ",".join(chance.sample(self.bad, chance.randint(1, 4)))
            z = chance.random()
            if z < 0.01:
                more["JobArrayID"] = f"{number}_[1-50%5]"
            elif z < 0.02:
                more["JobArrayID"] = f"{number}+0"
            blocked = chance.random() < 0.05
            yield self.record(number, State="PENDING", SubmitTime=self.now - jobs + number, StartTime="N/A", EligibleTime=self.now + 100,
                              Reason="Dependency" if blocked else "BeginTime", **demand, **more)

    def write(self, folder):
        folder = pathlib.Path(folder)
        (folder / "squeue.txt").write_text("".join(MARK.join(str(j[f]) for f in FIELDS) + MARK + "\n" for j in self.jobs.values()))
        (folder / "nodes.txt").write_text("".join(self.node(i) for i in range(len(self.names))))
        for name, text in {"squeue": SQUEUE, "scontrol": SCONTROL, "scancel": SCONTROL}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
