# SPDX-License-Identifier: Apache-2.0
"""The tools below limits of the machine: address space, file size, descriptors, threads. Whatever the limit
is, a dump is complete or there is none, no incomplete image is left, and the program runs on."""
import os
import resource
import signal
import subprocess

import pytest

from conftest import DEADLINE, fair_share, wait_for

MIB = 1 << 20


def counter(ckpt, mib=8):
    job = ckpt.run("counter", 100000, 7, mib)
    job.wait_lines(3)
    return job


def keeps_running(job):
    job.wait_lines(len(job.lines) + 3)


def tool_below(ckpt, limit, value, tool, *arguments):
    def lower():
        resource.setrlimit(limit, (value, value))

    # Output through pipes, which have no limit of their size.
    return subprocess.run([ckpt.tool(tool), *map(str, arguments)], env=ckpt.env, cwd=ckpt.folder, preexec_fn=lower,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE / fair_share())


def died(code):
    return code < 0 or code in (128 + signal.SIGABRT, 128 + signal.SIGXFSZ)


def check_dump(ckpt, job, limit, value, name):
    """Returns whether the limit was too low."""
    r = tool_below(ckpt, limit, value, "ckpt-dump", job.pid, "-o", name, "--leave-running")
    what = f"{name}: {r.returncode}: {r.stderr}"
    if r.returncode == 127 and "shared librar" in r.stderr:
        return True  # the dynamic linker itself had too little
    assert not died(r.returncode), what
    assert "terminate called" not in r.stderr and "unexpected failure" not in r.stderr, what
    assert r.returncode == (0 if (ckpt.folder / name).exists() else 1), what
    assert r.returncode == 0 or len(r.stderr.strip()) > 20, what
    assert not ckpt.partials(), what
    keeps_running(job)
    return r.returncode != 0


LIMITS = {
    "address-space": (resource.RLIMIT_AS, [24 * MIB, 64 * MIB, 96 * MIB, 128 * MIB, 160 * MIB, 256 * MIB, 1024 * MIB]),
    "file-size": (resource.RLIMIT_FSIZE, [0, 4096, 65536, MIB, 64 * MIB]),
    "descriptors": (resource.RLIMIT_NOFILE, [4, 6, 8, 12, 16, 24, 64]),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_dump_below_a_limit_is_complete_or_undone(ckpt, name):
    limit, values = LIMITS[name]
    job = counter(ckpt)
    too_low = [check_dump(ckpt, job, limit, v, f"{name}-{i}") for i, v in enumerate(values)]
    assert too_low[0] and not too_low[-1]
    # The program is as it was: an image without a limit is complete and can be restored.
    ckpt.dump(job.pid, "whole")
    assert job.wait() == 85
    copy = ckpt.restore("whole")
    copy.wait_lines(3)


@pytest.mark.parametrize("name", LIMITS)
def test_a_restore_below_a_limit_works_or_leaves_nothing(ckpt, name):
    limit, values = LIMITS[name]
    job = counter(ckpt)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    for value in values[:-1]:
        r = tool_below(ckpt, limit, value, "ckpt-restore", "--detach", "--output", "out", "one")
        what = f"{value}: {r.returncode}: {r.stderr}"
        assert not died(r.returncode), what
        assert "terminate called" not in r.stderr, what
        if r.returncode == 0:
            ckpt.detached.append(int(r.stdout))
            os.kill(ckpt.detached.pop(), signal.SIGKILL)
    copy = ckpt.restore("one")
    copy.wait_lines(3)


def test_the_hint_names_the_limit(ckpt):
    job = counter(ckpt)
    r = tool_below(ckpt, resource.RLIMIT_FSIZE, MIB, "ckpt-dump", job.pid, "-o", "one")
    assert r.returncode == 1 and "File too large" in r.stderr and "ulimit -f" in r.stderr, r.stderr
    keeps_running(job)
    ckpt.dump(job.pid, "two")


PIDS = "/sys/fs/cgroup/pids"


@pytest.fixture
def pids_cgroup(tmp_path):
    path = os.path.join(PIDS, f"ckpt-test-{os.getpid()}")
    try:
        os.mkdir(path)
    except OSError:
        pytest.skip("cgroups cannot be made here")
    yield path
    wait_for(lambda: not open(os.path.join(path, "cgroup.procs")).read(), "an empty cgroup")
    os.rmdir(path)


def test_a_refused_thread_is_an_error(ckpt, pids_cgroup):
    """ckpt-dump in a cgroup of 1, 2, … processes and threads, up to the first that suffices."""
    job = counter(ckpt)
    codes = []
    for most in list(range(1, 24)) + [4096]:
        with open(os.path.join(pids_cgroup, "pids.max"), "w") as f:
            f.write(str(most))

        def enter():
            with open(os.path.join(pids_cgroup, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))

        r = subprocess.run([ckpt.tool("ckpt-dump"), str(job.pid), "-o", f"one-{most}", "--leave-running"], env=ckpt.env,
                           cwd=ckpt.folder, preexec_fn=enter, capture_output=True, text=True,
                           timeout=DEADLINE / fair_share())
        assert r.returncode in (0, 1) and "terminate called" not in r.stderr, (most, r.returncode, r.stderr)
        assert not ckpt.partials()
        keeps_running(job)
        codes.append(r.returncode)
        if r.returncode == 0:
            break
    assert codes[0] == 1 and codes[-1] == 0, codes


MEMORY = "/sys/fs/cgroup/memory"


@pytest.fixture
def memory_cgroup():
    path = os.path.join(MEMORY, f"ckpt-test-{os.getpid()}")
    try:
        os.mkdir(path)
    except OSError:
        pytest.skip("cgroups cannot be made here")
    yield path
    wait_for(lambda: not open(os.path.join(path, "cgroup.procs")).read(), "an empty cgroup")
    os.rmdir(path)


@pytest.mark.parametrize("limit", [8, 64])
def test_a_dump_in_a_small_cgroup(ckpt, memory_cgroup, limit):
    """The kernel may kill ckpt-dump or CRIU. The program keeps running, and the next dump removes the left-overs."""
    job = counter(ckpt, mib=64)
    with open(os.path.join(memory_cgroup, "memory.limit_in_bytes"), "w") as f:
        f.write(str(limit * MIB))

    def enter():
        with open(os.path.join(memory_cgroup, "cgroup.procs"), "w") as f:
            f.write(str(os.getpid()))

    r = subprocess.run([ckpt.tool("ckpt-dump"), str(job.pid), "-o", "one", "--leave-running"], env=ckpt.env,
                       cwd=ckpt.folder, preexec_fn=enter, capture_output=True, text=True, timeout=DEADLINE / fair_share())
    assert r.returncode in (0, 1, -signal.SIGKILL), (r.returncode, r.stderr)
    assert r.returncode == 0 or not (ckpt.folder / "one").exists()
    keeps_running(job)
    ckpt.dump(job.pid, "one", "--overwrite")
    assert job.wait() == 85
    assert not ckpt.partials()
    ckpt.restore("one").wait_lines(3)


def test_a_full_dev_shm_does_not_matter(ckpt):
    """Staging memory and contents are memfds, which the size of /dev/shm does not limit."""
    job = ckpt.start_shell(
        "exec unshare --mount sh -c 'mount -t tmpfs -o size=4k tmpfs /dev/shm && echo full >/dev/shm/a && "
        f"exec {ckpt.tool('ckpt-run')} -- {ckpt.programs}/counter 100000 7 8 </dev/null'")
    job.wait_lines(3)
    inside = ["nsenter", "--mount", "--target", str(job.pid), f"--wd={ckpt.folder}"]
    r = subprocess.run([*inside, ckpt.tool("ckpt-dump"), str(job.pid), "-o", "one"], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, timeout=DEADLINE / fair_share())
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    ckpt.restore("one").wait_lines(3)
