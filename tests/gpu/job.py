#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that pauses in the middle, and saves it there, in one of these ways. Compares its result with that
of an uninterrupted run. tests/gpu/run calls it.

  job.py dump|suspend TOOLS PROGRAM…     in an empty working folder
"""
import pathlib
import re
import subprocess
import sys
import time

PAUSE = pathlib.Path("pause")
SKIPPED = 77  # of a program that this machine cannot run


def run(*command):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if r.returncode != 0:
        sys.exit(f"{pathlib.Path(command[0]).name} failed with {r.returncode}: {(r.stderr or r.stdout).strip()[-600:]}")
    return r.stdout


def ended(job):
    """Ends this script as the program has ended."""
    said = (pathlib.Path("errors").read_text().strip() or pathlib.Path("out").read_text().strip())[-600:]
    if job.returncode == SKIPPED:
        print(said)
        sys.exit(SKIPPED)
    sys.exit(f"the program ended with {job.returncode}: {said or 'it has printed nothing'}")


def start(tools, program):
    PAUSE.touch()
    job = subprocess.Popen([tools / "ckpt-run", *program], stdout=open("out", "w"), stderr=open("errors", "w"), stdin=subprocess.DEVNULL)
    while not re.search("^step 1$", pathlib.Path("out").read_text(), re.M):
        if job.poll() is not None:
            ended(job)
        time.sleep(0.05)
    return job


def main():
    way, tools, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
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
    result = pathlib.Path("out").read_text().splitlines()[-2:]
    expected = run(tools / "ckpt-run", *program).splitlines()[-2:]
    if result != expected:
        sys.exit(f"its result is {result}, and that of an uninterrupted run is {expected}")
    print("same result as an uninterrupted run")


main()
