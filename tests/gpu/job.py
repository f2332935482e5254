#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program without ckpt, and then under it: undisturbed, or saved in its middle, where it pauses. Compares the
results. tests/gpu/run calls it.

  job.py run|dump|suspend TOOLS PROGRAM…     in an empty working folder

Exit codes: 77: the program cannot run on this machine. 78: it fails without ckpt.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

PAUSE = pathlib.Path("pause")
SKIPPED, FAILS_ALONE = 77, 78


def run(*command):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if r.returncode != 0:
        sys.exit(f"{pathlib.Path(command[0]).name} failed with {r.returncode}: {(r.stderr or r.stdout).strip()[-600:]}")
    return r.stdout


def alone(program):
    """The output without ckpt."""
    seconds = float(os.environ.get("CKPT_GPU_SECONDS", 90)) / 2
    try:
        r = subprocess.run(program, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"without ckpt, the program does not end within {seconds:.0f} s")
        sys.exit(FAILS_ALONE)
    said = (r.stderr.strip() or r.stdout.strip())[-600:]
    if r.returncode == SKIPPED:
        print(said)
        sys.exit(SKIPPED)
    if r.returncode != 0:
        print(f"without ckpt, the program ends with {r.returncode}: {said or 'it has printed nothing'}")
        sys.exit(FAILS_ALONE)
    return r.stdout


def ended(job):
    """Ends this script as the program has ended."""
    said = (pathlib.Path("errors").read_text().strip() or pathlib.Path("out").read_text().strip())[-600:]
    sys.exit(f"the program ended with {job.returncode}: {said or 'it has printed nothing'}")


def start(tools, program):
    PAUSE.touch()
    job = subprocess.Popen([tools / "ckpt-run", *program], stdout=open("out", "w"), stderr=open("errors", "w"), stdin=subprocess.DEVNULL)
    while not re.search("^step 1$", pathlib.Path("out").read_text(), re.M):
        if job.poll() is not None:
            ended(job)
        time.sleep(0.05)
    return job


def saved(way, tools, program):
    """The output of a program that was saved in its middle."""
    job = start(tools, program)
    if way == "dump":
        run(tools / "ckpt-dump", job.pid, "-o", "image")
        job.wait()
        PAUSE.unlink()
        run(tools / "ckpt-restore", "--truncate-files", "image")
    else:
        run(tools / "ckpt-dump", job.pid, "--suspend")
        run(tools / "ckpt-restore", "--resume", job.pid)
        PAUSE.unlink()
        if job.wait() != 0:
            ended(job)
    return pathlib.Path("out").read_text()


def main():
    way, tools, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    expected = alone(program).splitlines()[-2:]
    output = run(tools / "ckpt-run", "--managed-on-host", *program) if way == "run" else saved(way, tools, program)
    result = output.splitlines()[-2:]
    if result != expected:
        sys.exit(f"its result is {result}, and without ckpt it is {expected}")
    print("same result as without ckpt")


main()
