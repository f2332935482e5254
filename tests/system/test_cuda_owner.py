# SPDX-License-Identifier: Apache-2.0
"""ckpt-run --device-owner: while a program is dumped, another process holds its device memory, and copies it meanwhile.
On the strict software device, where new memory holds what was there before, so that contents that are neither kept nor
loaded are noticed."""
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda
from test_kills import below, held, kill, state, tool
from test_kills_at_messages import TYPES
from tiers import parametrize
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
OWNER = ["--device-owner"]
MIB = 60


class Owned(Cuda):
    def __init__(self, ckpt, make):  # noqa: F811
        super().__init__(ckpt, make)
        self.faults = ckpt.folder / "faults"
        ckpt.env.update(CKPT_SOFTCUDA_DIRTY="1", CKPT_SOFTCUDA_FAULTS=str(self.faults))

    def order(self, *lines):
        self.faults.write_text("\n".join(lines))

    def started(self, *arguments, options=OWNER, **more):
        job = self.start(*(arguments or [MIB]), options=options, source=more.pop("source", "chunks.cu"), **more)
        job.wait_lines(1)
        return job

    def ends_well(self, job):
        self.pause.unlink(missing_ok=True)
        assert job.wait() == 0, job.text + job.error_text
        assert "same" in job.lines

    def two_processes(self):
        program = self.make("chunks.cu")
        self.pause.touch()
        job = self.ckpt.start("ckpt-run", [*OWNER, "--", "sh", "-c", f"{program} 20 & {program} 30; wait"])
        job.wait_lines(2)
        return job

    def change(self, job, lines=2):
        (self.ckpt.folder / "change").touch()
        job.wait_lines(lines)

    def both_end_well(self, job):
        self.pause.unlink()
        assert job.wait() == 0, job.error_text
        assert job.lines.count("same") == 2

    @staticmethod
    def owners(job):
        return below(job.pid, "ckpt-cuda-proxy\0--owner")

    def dump_held(self, job, step, *options):
        """A dump that waits at the beginning of a step, with its owner at work."""
        process = tool(self.ckpt, "ckpt-dump", job.pid, "-o", "image", *options, hold=step)
        assert held(process), process.communicate()
        return process

    @staticmethod
    def end(process):
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=120)
        return process.returncode, out + err


def drained(report):
    """Whether the contents came from an owner."""
    return any(phase["name"] == "drain" for phase in report["phases"])


@pytest.fixture
def owned(ckpt, make):  # noqa: F811
    return Owned(ckpt, make)


# ---- what holds without faults

def test_the_memory_comes_back_from_its_owner_and_is_never_copied_back(owned):
    """Twice: what has come back once is given away again."""
    job = owned.started()
    for image in "one", "two":
        report = owned.ckpt.dump(job.pid, image, "--leave-running")
        assert drained(report)
        wait_for(lambda: not owned.owners(job), "the end of the owner")
    owned.ends_well(job)
    for image in "one", "two":
        owned.pause.touch()
        copy = owned.ckpt.restore(image, "--device", "cuda:1")
        owned.ends_well(copy)


def test_no_contents_are_loaded_where_the_owner_gives_them_back(owned):
    """All copies to the device fail, so the program can only have what it had."""
    job = owned.started()
    process = owned.dump_held(job, "criu", "--leave-running")
    assert len(owned.owners(job)) == 1
    wait_for(lambda: owned.used_mib() == [MIB, 0], "the memory to be its owner's alone")
    owned.order("cuMemcpyHtoDAsync 999")
    code, text = owned.end(process)
    owned.order()
    assert code == 0, text
    owned.ends_well(job)


def test_a_dump_that_ends_the_program_leaves_no_owner_and_free_devices(owned):
    job = owned.started()
    report = owned.ckpt.dump(job.pid, "image")
    assert drained(report)
    assert owned.used_mib() == [0, 0]
    assert job.wait() == 85
    copy = owned.ckpt.restore("image", "--device", "cuda:1")
    owned.ckpt.dump(copy.pid, "again")  # the option holds in a restored program, too
    assert copy.wait() == 85
    owned.ends_well(owned.ckpt.restore("again"))


def test_the_copies_go_on_while_criu_works(owned):
    """The copies begin only when CRIU has ended, and the dump waits for them."""
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running")
    os.kill(process.pid, signal.SIGCONT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    owned.order()
    assert process.wait(60) == 0, process.communicate()
    owned.ends_well(job)
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("image"))


@parametrize("source, arguments", [("segments.cu", [5]), ("steps.cu", [6])], quick=1)
def test_the_programs_own_memory_and_pools_go_the_same_way(owned, source, arguments):
    expected = owned.expected(*arguments, source=source, options=OWNER)
    job = owned.started(*arguments, source=source)
    for image in "one", "two":
        report = owned.ckpt.dump(job.pid, image, "--leave-running")
        assert drained(report)
    owned.go_on()
    assert job.wait() == 0, job.text
    assert job.lines[-2:] == expected
    copy = owned.ckpt.restore("two", "--device", "cuda:1")
    assert copy.wait() == 0, copy.text
    assert copy.lines[-2:] == expected


def test_increments_and_zeros_go_the_same_way(owned):
    job = owned.started()
    owned.ckpt.dump(job.pid, "one", "--leave-running")
    (owned.ckpt.folder / "change").touch()
    job.wait_lines(2)
    report = owned.ckpt.dump(job.pid, "two", "--parent", "one")
    assert report["device_zero_bytes"] == MIB // 3 << 20 and report["unchanged_bytes"] > 0
    assert job.wait() == 85
    owned.ends_well(owned.ckpt.restore("two"))


def test_a_small_device_has_room_for_the_driver_s_share_beside_the_owner_s_memory(owned):
    """The program gets its memory back from the owner, so it needs no more room than it had."""
    owned.ckpt.env.update(CKPT_SOFTCUDA="1x160M", CKPT_SOFTCUDA_CONTEXT="8")
    job = owned.started()
    for image in "one", "two":
        owned.ckpt.dump(job.pid, image, "--leave-running")
    owned.ends_well(job)
    copy = owned.ckpt.restore("two")
    assert copy.wait() == 0 and "same" in copy.lines, copy.error_text


def test_suspends_and_moves_need_no_owner(owned):
    job = owned.started()
    owned.ckpt.dump(job.pid, "image", "--leave-running")  # so that its memory is another process's
    assert owned.suspend(job).returncode == 0
    assert owned.used_mib() == [0, 0]
    assert owned.resume(job, "--device", "cuda:1").returncode == 0
    owned.ends_well(job)


def test_two_processes_have_an_owner_each(owned):
    job = owned.two_processes()
    process = owned.dump_held(job, "criu", "--leave-running")
    assert len(owned.owners(job)) == 2
    code, text = owned.end(process)
    assert code == 0, text
    owned.both_end_well(job)


# ---- while the program runs

def test_the_program_goes_on_while_its_memory_is_copied(owned):
    """No byte reaches the host before the program has changed its memory."""
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running")
    owned.change(job)
    owned.order()
    code, text = owned.end(process)
    assert code == 0, text
    wait_for(lambda: not owned.owners(job), "the end of the owner")
    owned.ckpt.dump(job.pid, "again")
    assert job.wait() == 85
    for image in "image", "again":
        owned.ends_well(owned.ckpt.restore(image, "--device", "cuda:1"))
        owned.pause.touch()


def test_the_program_waits_for_what_has_no_room_on_the_device(owned):
    """It has 60 MiB, 40 of them not zero, and room for copies of 15."""
    owned.ckpt.env["CKPT_SOFTCUDA"] = "1x80M"
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running")
    (owned.ckpt.folder / "change").touch()
    time.sleep(0.5)
    assert (owned.ckpt.folder / "change").exists()
    owned.order()
    job.wait_lines(2)
    code, text = owned.end(process)
    assert code == 0, text
    assert re.search(r"no room for a copy of \d+ MiB of device memory on the device", job.error_text)
    owned.ends_well(job)
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("image"))


def test_a_program_that_needs_the_memory_of_the_copies_waits_for_them(owned):
    owned.ckpt.env["CKPT_SOFTCUDA"] = "1x100M"
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started(30, 80, source="grows.cu")
    process = owned.dump_held(job, "drain", "--leave-running")
    (owned.ckpt.folder / "change").touch()
    wait_for(lambda: not (owned.ckpt.folder / "change").exists(), "the program")
    time.sleep(0.3)
    assert len(job.lines) == 1, job.lines
    owned.order()
    assert owned.end(process)[0] == 0
    job.wait_lines(2)
    owned.ends_well(job)
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("image"))


@pytest.mark.parametrize("killed", ["owner", "tool"])
def test_a_kill_while_the_program_runs_costs_only_the_dump(owned, killed):
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running")
    owned.change(job)
    kill(owned.owners(job) if killed == "owner" else [process.pid])
    if killed == "owner":
        code, text = owned.end(process)
        assert code == 1 and "has ended before it had copied all of it" in text, text
    else:
        process.communicate()
        wait_for(lambda: not owned.owners(job), "the end of the owner")
    owned.order()
    assert not (owned.ckpt.folder / "image").exists()
    owned.ckpt.dump(job.pid, "again", "--leave-running")
    owned.ends_well(job)
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("again"))


def test_a_program_that_is_killed_meanwhile_leaves_a_whole_image(owned):
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running")
    kill(p for p in tree_of(job.pid) if "chunks" in open(f"/proc/{p}/comm").read())
    owned.order()
    code, text = owned.end(process)
    assert code == 0, text
    job.wait()
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("image"))


@pytest.mark.parametrize("moment", ["send-ProxyAgain", "sent-ProxyAgain", "sent-MemoryWanted"])
def test_a_program_that_is_killed_as_it_takes_its_memory_back_leaves_a_whole_image(owned, moment):
    """The copies go on in the owner, whose program has ended before it had its memory again."""
    owned.order("cuMemcpyDtoHAsync late")
    when, message = moment.split("-")
    owned.ckpt.env["CKPT_TEST_STOP_AT"] = f"{when}-{TYPES[message]}"
    job = owned.started()
    del owned.ckpt.env["CKPT_TEST_STOP_AT"]
    process = owned.dump_held(job, "drain", "--leave-running")
    wait_for(lambda: not [p for p in tree_of(job.pid) if "chunks" in open(f"/proc/{p}/comm").read()], "the program's end")
    owned.order()
    code, text = owned.end(process)
    assert code == 0, text
    job.wait()
    owned.pause.touch()
    owned.ends_well(owned.ckpt.restore("image"))


def test_two_processes_go_on_while_their_memory_is_copied(owned):
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.two_processes()
    process = owned.dump_held(job, "drain", "--leave-running")
    owned.change(job, 3)
    owned.order()
    code, text = owned.end(process)
    assert code == 0, text
    owned.both_end_well(job)
    owned.pause.touch()
    owned.both_end_well(owned.ckpt.restore("image"))


# ---- where there is none

def test_without_the_option_there_is_no_owner(owned):
    job = owned.started(options=[])
    process = owned.dump_held(job, "criu", "--leave-running")
    assert owned.owners(job) == []
    assert owned.end(process)[0] == 0
    owned.ends_well(job)


def test_an_owner_that_cannot_start_is_named_and_the_dump_goes_on(owned):
    owned.ckpt.env["CKPT_TEST_STOP_AT"] = "owner-request"
    job = owned.started()
    del owned.ckpt.env["CKPT_TEST_STOP_AT"]
    r = owned.tool("ckpt-dump", str(job.pid), "-o", "image", "--leave-running")
    assert r.returncode == 0 and "device memory can have no owner" in r.stderr, r.stderr
    owned.ends_well(job)


def test_memory_that_cannot_be_shared_is_copied_as_without_an_owner(owned):
    owned.order("cuMemExportToShareableHandle 801")
    job = owned.started()
    report = owned.ckpt.dump(job.pid, "image", "--leave-running")
    assert not drained(report)
    assert "cannot share device memory with its owner: CUDA_ERROR_NOT_SUPPORTED" in job.error_text
    owned.ends_well(job)


def test_copies_that_fail_undo_the_dump_and_lose_nothing(owned):
    owned.order("cuMemcpyDtoHAsync 999")
    job = owned.started()
    r = owned.tool("ckpt-dump", str(job.pid), "-o", "image", "--leave-running")
    owned.order()
    assert r.returncode == 1 and "cannot copy device memory: CUDA_ERROR_UNKNOWN" in r.stderr, r.stderr
    owned.ends_well(job)


# ---- kills

@pytest.mark.parametrize("step", ["quiesce", "save", "detach", "criu", "record", "drain", "write"])
def test_a_killed_dump_leaves_the_program_its_memory(owned, step):
    job = owned.started()
    process = owned.dump_held(job, step, "--leave-running")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not owned.owners(job), "the end of the owner")
    owned.ends_well(job)


def test_a_dump_killed_between_lock_and_detach_leaves_both_processes_their_memory(owned):
    job = owned.two_processes()
    r = owned.ckpt.dump_process(job.pid, "image", env={"CKPT_TEST_STOP_AT": "send-17"})
    assert r.returncode == -signal.SIGKILL
    wait_for(lambda: not owned.owners(job), "the end of the owners")
    owned.both_end_well(job)


@parametrize("step, code", [("quiesce", 0), ("save", 0), ("detach", 1), ("write", 0)], quick=2)
def test_an_owner_killed_while_the_program_has_its_memory_costs_the_dump_at_most(owned, step, code):
    job = owned.started()
    process = owned.dump_held(job, step, "--leave-running")
    kill(owned.owners(job))
    assert owned.end(process)[0] == code
    owned.ends_well(job)


@pytest.mark.parametrize("message, code", [("OwnerBegin", 0), ("DrainWanted", 1), ("OwnerLeave", 1), ("MemoryWanted", 0)])
def test_an_owner_that_dies_of_a_request_loses_nothing(owned, message, code):
    """With the last one it has copied everything, because the program waits for that, and loads the contents from the
    file."""
    owned.ckpt.env["CKPT_TEST_STOP_AT"] = f"got-{TYPES[message]}"
    job = owned.started()
    del owned.ckpt.env["CKPT_TEST_STOP_AT"]
    r = owned.tool("ckpt-dump", str(job.pid), "-o", "image", "--leave-running", "--stop-the-world")
    assert r.returncode == code, r.stderr
    owned.ends_well(job)


def test_an_owner_killed_before_the_contents_are_copied_loses_them_and_that_is_said(owned):
    owned.order("cuMemcpyDtoHAsync late")
    job = owned.started()
    process = owned.dump_held(job, "drain", "--leave-running", "--stop-the-world")
    kill(owned.owners(job))
    code, text = owned.end(process)
    owned.order()
    assert code == 1 and "has ended before it had copied all of it" in text, text
    owned.pause.unlink()
    assert job.wait() != 0
    assert "same" not in job.lines and "different" not in job.lines, job.text  # an error, never wrong data
    assert "the process that held the device memory during the dump has ended" in job.error_text


def test_an_owner_killed_after_the_copies_costs_nothing(owned):
    """The contents are in the file, and the program loads them from there."""
    owned.order("cuMemcpyDtoHAsync late")
    owned.ckpt.env["CKPT_TEST_HOLD_AT"] = "owner-copied"
    job = owned.started()
    process = owned.dump_held(job, "check", "--leave-running")
    owned.order()
    wait_for(lambda: [state(p) for p in owned.owners(job)] == ["T"], "the end of the copies")
    kill(owned.owners(job))
    code, text = owned.end(process)
    assert code == 0, text
    assert "device memory does not come back from its owner" in job.error_text
    owned.ends_well(job)


@pytest.mark.parametrize("step", ["save", "criu"])
def test_a_killed_keeper_ends_the_owner_and_leaves_no_wrong_data(owned, step):
    job = owned.started()
    process = owned.dump_held(job, step, "--leave-running")
    owners = owned.owners(job)
    assert len(owners) == 1
    kill([job.pid])
    code, text = owned.end(process)
    owned.pause.unlink()
    for reader in job.readers:
        reader.join(60)
        assert not reader.is_alive(), job.text + job.error_text
    assert "different" not in job.lines
    assert "same" in job.lines or code != 0, text
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in owners), "the end of the owner")


def test_a_killed_program_ends_its_owner(owned):
    job = owned.started()
    process = owned.dump_held(job, "criu", "--leave-running")
    owners = owned.owners(job)
    kill(p for p in tree_of(job.pid) if "chunks" in open(f"/proc/{p}/comm").read())
    assert owned.end(process)[0] != 0
    job.wait()
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in owners), "the end of the owner")
