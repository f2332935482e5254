#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves a GPU's memory out and in again with ckpt, with the driver's own checkpoint calls (which keep everything
uncompressed in the memory of the process), with NVIDIA's cuda-checkpoint and CRIU, and with plain copies; in GB/s.

  speed.py TOOLS PROGRAMS MIB own|suspend|dump|peer|survey|second zeros|smooth|random     prints a line; tests/gpu/run calls it
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOOLS, PROGRAMS = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MIB = int(sys.argv[3])
GB = MIB * 2**20 / 1e9
WORK = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-speed-"))


def run(*command):
    begin = time.monotonic()
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=WORK, timeout=120)
    if r.returncode != 0:
        sys.exit(f"speed.py: {command[0]} failed: {(r.stderr or r.stdout).strip()[-300:]}")
    return r.stdout, time.monotonic() - begin


class Holder:
    """A program that holds MIB of device memory, natively or under ckpt-run."""

    def __init__(self, what, *runner):
        self.out = WORK / "held"
        self.process = subprocess.Popen([*map(str, runner), str(PROGRAMS / "hold"), str(MIB), what], stdin=subprocess.DEVNULL,
                                        stdout=self.out.open("w"), stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        while "held" not in (text := self.out.read_text()):
            if self.process.poll() is not None:
                sys.exit(f"speed.py: hold ended unexpectedly: {text}")
            time.sleep(0.02)
        self.plain = float(text.split("out")[1].split()[0])
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def row(out, back, beside=""):
    print(f"{out:.2f} GB/s out, {back:.2f} GB/s in; {beside}", flush=True)


def drivers_own(what):
    with Holder(what) as h:
        seconds = [float(run(PROGRAMS / "driver", "--order", h.process.pid, way)[0].split()[1]) for way in ("down", "up")]
        row(GB / seconds[0], GB / seconds[1], f"plain copy out {h.plain:.2f} GB/s")


def suspended(what):
    with Holder(what, TOOLS / "ckpt-run") as h:
        out = json.loads(run(TOOLS / "ckpt-dump", "--json", "--suspend", h.process.pid)[0])["seconds"]
        _, back = run(TOOLS / "ckpt-restore", "--resume", h.process.pid)
        row(GB / out, GB / back, f"plain copy out {h.plain:.2f} GB/s")


def dumped(what):
    with Holder(what, TOOLS / "ckpt-run") as h:
        report = json.loads(run(TOOLS / "ckpt-dump", "--json", "-o", "image", h.process.pid)[0])
        output, back = run(TOOLS / "ckpt-restore", "--detach", "image")
        os.kill(int(output.split()[-1]), signal.SIGKILL)
        row(GB / report["pause_seconds"], GB / back,
            f"durable {GB / report['durable_seconds']:.2f} GB/s, {report['stored_bytes'] / 2**20:.0f} of {MIB} MiB")
    shutil.rmtree(WORK / "image")


def dump(pid, image, *options):
    report = json.loads(run(TOOLS / "ckpt-dump", "--json", "-o", image, *options, pid)[0])
    if report["not_looked_at"]:
        sys.exit(f"speed.py: the device did not look: {report['not_looked_at'][0]}")
    return report


def surveyed(what):
    with Holder(what, TOOLS / "ckpt-run") as h:
        report = dump(h.process.pid, "image", "--leave-running")
        if report["device_read_bytes"] >> 20:
            sys.exit(f"speed.py: {report['device_read_bytes'] >> 20} MiB of zeros were read")
        print(f"pause {report['pause_seconds']:.2f} s, {report['device_zero_bytes'] >> 20} MiB of zeros not read", flush=True)


def second(what):
    with Holder(what, TOOLS / "ckpt-run") as h:
        dump(h.process.pid, "first", "--leave-running")
        os.kill(h.process.pid, signal.SIGUSR1)
        while "changed" not in h.out.read_text():
            time.sleep(0.02)
        report = dump(h.process.pid, "image", "--parent", "first")
        read = report["device_read_bytes"] / 2**20
        if read > MIB / 20:
            sys.exit(f"speed.py: {read:.0f} of {MIB} MiB were read")
        print(f"pause {report['pause_seconds']:.2f} s, {read:.0f} of {MIB} MiB read", flush=True)


def peers(what):
    """What a user does without ckpt: cuda-checkpoint moves the device's memory into the process, and CRIU dumps that."""
    prefixes = [TOOLS.parents[1] / "criu", pathlib.Path("/opt/ckpt/criu")]
    criu = next((p / "bin/criu" for p in prefixes if (p / "bin/criu").exists()), "criu")
    images = WORK / "images"
    images.mkdir()
    with Holder(what) as h:
        toggle = lambda: run("cuda-checkpoint", "--toggle", "--pid", h.process.pid)[1]
        left, dump = toggle(), run(criu, "dump", "-t", h.process.pid, "-D", images, "-o", "log")[1]
        h.process.wait()  # its PID is free then
        stored = sum(f.stat().st_size for f in images.iterdir())
        restore = run(criu, "restore", "-D", images, "-d", "-o", "log")[1]
        back = restore + toggle()
        row(GB / (left + dump), GB / back, f"cuda-checkpoint alone {GB / left:.2f} GB/s out, {GB / (back - restore):.2f} in, "
            f"{stored / 2**20:.0f} of {MIB} MiB")
    shutil.rmtree(images)


try:
    {"own": drivers_own, "suspend": suspended, "dump": dumped, "peer": peers, "survey": surveyed,
     "second": second}[sys.argv[4]](sys.argv[5])
finally:
    shutil.rmtree(WORK, ignore_errors=True)
