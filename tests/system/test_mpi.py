# SPDX-License-Identifier: Apache-2.0
"""MPI jobs on one node: `ckpt-run mpirun -n 4 PROGRAM` with Open MPI and with MPICH. Where one of them is missing,
its tests are skipped (scripts/setup --full installs both)."""
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import PROGRAMS

# Ranks that wait for a message spin, and there are more of them than cores.
pytestmark = pytest.mark.alone

KINDS = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpirun.mpich"]}
RANKS = 4
# Small enough for a round of seconds, long enough to be dumped in the middle.
STEPS = 150
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def last_value(steps, ranks=RANKS):
    """What tests/system/programs/mpi/ranks.c computes."""
    values = list(range(ranks))
    for k in range(steps):
        total = sum(values)
        values = [(total * 3 + rank + k) % 1000003 for rank in range(ranks)]
    return values[0]


@pytest.fixture(scope="session", params=KINDS)
def mpi(request, tmp_path_factory):
    """The command up to the program, and the program."""
    kind = request.param
    compiler = shutil.which(f"mpicc.{kind}")
    if not compiler or not shutil.which(f"mpirun.{kind}"):
        pytest.skip(f"{kind} is not installed (scripts/setup --full installs it)")
    program = tmp_path_factory.mktemp(kind) / "ranks"
    subprocess.run([compiler, str(PROGRAMS / "mpi" / "ranks.c"), "-o", str(program)], check=True)
    return [*KINDS[kind], "-n", str(RANKS)], str(program)


def start(ckpt, mpi):
    mpirun, program = mpi
    job = ckpt.run(*mpirun, program, str(STEPS), env=ENV)
    job.wait_lines(3)
    return job


def check_end(job):
    assert job.wait() == 0, job.error_text
    assert job.lines[-1] == f"end {last_value(STEPS)}", job.text


def round_trip(ckpt, mpi, n=0):
    job = start(ckpt, mpi)
    ckpt.dump(job.pid, f"img{n}")
    assert job.wait() == 85
    check_end(ckpt.restore(f"img{n}"))


def test_job_continues_from_its_image(ckpt, mpi):
    round_trip(ckpt, mpi)


def test_job_continues_after_its_dump(ckpt, mpi):
    job = start(ckpt, mpi)
    ckpt.dump(job.pid, "img", "--leave-running")
    check_end(job)


@pytest.mark.full
def test_job_where_a_pid_is_taken(ckpt, mpi, blocker):
    job = start(ckpt, mpi)
    report = ckpt.dump(job.pid, "img")
    assert job.wait() == 85
    blocker.take(report["pid"])
    check_end(ckpt.restore("img"))


@pytest.mark.full
def test_fifty_rounds(ckpt, mpi):
    for n in range(50):
        round_trip(ckpt, mpi, n)
        shutil.rmtree(ckpt.folder / f"img{n}")


# A rank alone has connections to mpirun and to the other ranks.
def test_ranks_under_one_ckpt_run_each_are_refused(ckpt, mpi):
    mpirun, program = mpi
    job = ckpt.start_shell(f"{' '.join(mpirun)} {ckpt.tool('ckpt-run')} {program} {STEPS}".replace(
        "mpirun", f"env {' '.join(f'{k}={v}' for k, v in ENV.items())} mpirun", 1))
    job.wait_lines(2)
    keepers = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and
               is_child_keeper(p, ckpt.tool("ckpt-run"))]
    assert len(keepers) >= RANKS
    error = ckpt.dump_refused(keepers[0], "img")
    assert "ckpt-run mpirun" in error, error
    check_end(job)


def is_child_keeper(process, tool):
    try:
        return os.readlink(process / "exe") == os.path.realpath(tool)
    except OSError:
        return False
