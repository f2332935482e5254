# SPDX-License-Identifier: Apache-2.0
"""Between a message and its answer neither side knows what the other one has done. For every message of
agent/protocol.h that is answered, and for those of a job, one side is killed at this moment: the program's own check of
its data is right, or its API told it; no program stays stopped or hangs; nothing is left behind.

A process stops or kills itself when it has sent or received a message (common/base/test_points.h). Before a tool is
killed, the side that is to answer is stopped, so that it answers a tool that is dead already.
"""
import os
import re
import signal

import pytest

from conftest import ROOT, wait_for
from cuda_programs import make  # noqa: F401
from test_jobs import Pair, nodes, restore_pair, stop_pair  # noqa: F401
from test_kills import Subject, below, clean, held, subject, tool  # noqa: F401
from test_opencl import devices  # noqa: F401
from toolkit import NVCC


def types():
    """The messages of agent/protocol.h: name → number."""
    text = (ROOT / "agent" / "protocol.h").read_text()
    text = text[text.index("enum class Type"):]
    return {name: int(number) for name, number in re.findall(r"^  (\w+) =\s+(\d+),", text[:text.index("\n};")], re.M)}


TYPES = types()

# Messages that are no requests: answers, and what a transfer consists of between a request and its answer.
NOT_ANSWERED = {"Ok", "Failed", "Welcome", "Reasons", "Saved", "Suspended", "Waits", "DepthIs", "Region", "SlotFull",
                "SlotFree", "RegionSame", "ContentsFile", "ContentsAt", "Surveyed", "ZerosAt", "ContentsIn",
                "ChunkKnown", "ContentsLater", "Traffic", "ContentsDue", "Drained", "StaysSuspended"}
# What the tools and programs of this version do not send.
OF_OLDER_VERSIONS = {"ProxyFor"}
# The same step as another one, for which there is a row, seen from its other side.
CHECKED_ELSEWHERE = {
    "CheckpointFailed": "test_library.py: a checkpoint that the program itself has requested",
    "CheckpointFlagsWanted": "test_carried_files.py: a keeper that hangs up; the image is asked for by the next message",
    "Adopt": "ProxyAgain, by which the keeper is asked for it",
    "ProxyDrop": "test_kills.py: the last step of a move away from a proxy",
    "ParentChunks": "test_cuda_survey.py: only for a program with CUDA whose image has a parent",
    "ChunkWanted": "test_cuda_survey.py: the process that answers is killed",
    **dict.fromkeys(["OwnerBegin", "MemoryGiven", "DrainWanted", "OwnerLeave", "MemoryWanted", "OwnerDrop"],
                    "test_cuda_owner.py: only for a program with a memory owner"),
    "ChosenWanted": "test_remote_cuda_moves.py: only CUDA on devices of other nodes and moves ask it",
    **dict.fromkeys(["ShareOffered", "ShareWanted", "ShareOwned", "ShareLoaded", "ShareAway", "ShareDone"],
                    "device_shares_test.cc and test_cuda_ipc.py: processes end at any time, and dumps at their steps"),
    "ContentsArrive": "test_lazy_devices.py: sent only with --lazy",
    **dict.fromkeys(["ArrivalWanted", "ArrivalDropped"],
                    "test_lazy_devices.py, arriving_contents_test.cc and device_contents_test.cc: either side ends at any time"),
    "EventBoardWanted": "event_board_test.cc and test_cuda_ipc_events.py: likewise",
}

# Sent only where there are several processes with CUDA, or by a process of the keeper's for the agent's own question.
NOT_KILLED_AT = {
    "Keep": "suspend_test.cc: a step that fails, or a tool that hangs up, undoes what was done",
    "Lock": "suspend_test.cc and depth_test.cc: likewise",
    "DeviceMap": "test_cuda.py: sent only where a CUDA program gets other devices",
    "GpuMemoryWanted": "test_cuda_strict.py: without an answer, the check of free memory is left out",
}

# What is done, and who answers: a program's agent, or the keeper.
TOOLS = {
    "Hello": ("dump", "agent"), "Preflight": ("dump", "agent"), "RemarksWanted": ("remarks", "agent"),
    "CallbacksWanted": ("remarks", "agent"), "DumpBegin": ("dump", "keeper"), "Prepare": ("dump", "agent"),
    "CopyAhead": ("copy-ahead", "agent"), "SurveyWanted": ("dump", "agent"), "Quiesce": ("dump", "agent"),
    "OwnerWanted": ("dump", "agent"), "OwedAllowed": ("dump", "agent"),
    "WaitsWanted": ("dump", "agent"),
    "Increment": ("dump", "agent"), "ContentsReadable": ("dump", "agent"), "Save": ("dump", "agent"),
    "Detach": ("dump", "agent"), "DumpDone": ("stop", "keeper"), "ImageWritten": ("dump", "keeper"),
    "LossWanted": ("dump", "agent"), "FilesWanted": ("files", "keeper"), "Suspend": ("suspend", "agent"),
    "SuspendMemory": ("suspend-memory", "agent"), "DepthWanted": ("suspend-memory", "agent"), "Deepen": ("deepen", "agent"),
    "RequirementsWanted": ("resume", "agent"), "DevicesChosen": ("resume", "keeper"), "Wake": ("resume", "agent"),
    "Attach": ("restore", "agent"), "CompileWanted": ("restore", "agent"),
    "ZerosLoadable": ("restore", "agent"), "ContentsLoadable": ("restore", "agent"), "Load": ("restore", "agent"),
    "LoadEnd": ("restore", "agent"), "Resume": ("restore", "agent"), "DevicesWanted": ("ps", "agent"),
    "TrafficWanted": ("dry-run", "agent"),
}
# What a dump asks once its image is complete: the image stays, whatever happens to the program then.
AFTER_THE_IMAGE = {"ImageWritten", "LossWanted"}
# Those of a program's agent to its keeper, and what makes the program send it.
PROGRAMS = {
    "ProxyIn": ("ocl", "start"), "ProxyAgain": ("ocl", "dump"), "ProxyWanted": ("cuda", "suspend"),
    "ContentsKept": ("cuda", "dump"), "ContentsWanted": ("cuda", "dump"),
    "CheckpointWanted": ("library", "start"), "Restored": ("ocl", "restore"),
}


def test_the_tables_have_every_message():
    rows = [set(TOOLS), set(PROGRAMS), NOT_ANSWERED, OF_OLDER_VERSIONS, set(CHECKED_ELSEWHERE),
            set(NOT_KILLED_AT)]
    assert set().union(*rows) == set(TYPES)
    assert sum(len(r) for r in rows) == len(TYPES)


# ---- requests of the tools

class Step:
    """A tool on a program, at the moment in question."""

    def __init__(self, subject, ckpt, name):
        self.subject, self.ckpt, self.number = subject, ckpt, TYPES[name]
        self.what, self.answers = TOOLS[name]
        self.job = self.program = None

    def command(self):
        """The tool, once the program is as it needs it."""
        pid = self.program
        if self.what == "resume":
            tool(self.ckpt, "ckpt-dump", pid, "--suspend").communicate(timeout=120)
            return "ckpt-restore", "--resume", pid, "--device", self.subject.ocl.device("basic")
        if self.what == "deepen":
            tool(self.ckpt, "ckpt-dump", pid, "--suspend=memory").communicate(timeout=120)
        dump = "ckpt-dump", pid, "-o", "image", "--leave-running"
        if self.what == "files":
            for folder in self.ckpt.runtime.glob("*/program"):
                folder.unlink()
        if self.what == "dry-run":
            return "ckpt-restore", "--resume", pid, "--dry-run", "--device", self.subject.ocl.device("basic")
        return {"ps": ("ckpt-ps",), "files": ("ckpt-ps",), "suspend": ("ckpt-dump", pid, "--suspend"),
                "suspend-memory": ("ckpt-dump", pid, "--suspend=memory"), "deepen": ("ckpt-dump", pid, "--suspend"),
                "stop": dump[:-1],
                "copy-ahead": (*dump, "--copy-ahead=1")}.get(self.what, dump)

    def start(self, points, of_program):
        """The tool, under the test points of its own or those of the program and its keeper."""
        self.ckpt.env.update(of_program)
        self.job = self.subject.start()
        for variable in of_program:
            del self.ckpt.env[variable]
        if self.what == "restore":
            self.ckpt.dump(self.job.pid, "image")
            assert self.job.wait() == 85
            # ContentsLoadable is sent only where contents were decompressed ahead, on idle cores.
            self.job = self.ckpt.restore("image", env={"CKPT_TEST_AHEAD": "2", **points})
            return self.job.process
        self.program = self.job.program()
        name, *arguments = self.command()
        return tool(self.ckpt, name, *arguments, **points)

    def check_copy_ends(self):
        """A copy whose restore was not finished runs until it calls its API, which tells it."""
        self.subject.go()
        self.subject.outcome(self.job)
        wait_for(lambda: not below(1, "ocl-objects"), "the end of the copy")

    def check_goes_on(self):
        """The program runs to its end, from wherever a killed tool has left it."""
        if self.what == "stop":
            assert self.job.wait() == 85
        if self.what in ("stop", "restore"):
            self.job = self.ckpt.restore("image")
        if self.what in ("suspend", "suspend-memory", "deepen", "resume"):
            tool(self.ckpt, "ckpt-restore", "--resume", self.job.pid).communicate(timeout=120)
        self.subject.go()
        assert self.subject.outcome(self.job) == "right"
        assert self.job.wait() == 0
        clean(self.ckpt)


def tool_rows(fast):
    for name in TOOLS:
        # OpenCL has one depth: nothing is left to give back.
        yield pytest.param("cuda" if TOOLS[name][0] in ("suspend-memory", "deepen") else "ocl", name, id=name, marks=[] if name in fast else [pytest.mark.full])


@pytest.mark.parametrize("subject,name", tool_rows({"DumpBegin", "DumpDone", "Detach", "Deepen"}), indirect=["subject"])
def test_a_tool_is_killed_before_it_is_answered(subject, ckpt, name):  # noqa: F811
    step = Step(subject, ckpt, name)
    points = {"CKPT_TEST_HOLD_AT": f"send-{step.number}", "CKPT_TEST_STOP_AT": f"sent-{step.number}"}
    process = step.start(points, {})
    assert held(process), f"{name} was not sent: {process.communicate()}"
    answers = {"keeper": step.job.pid, "agent": step.program}[step.answers]
    if answers:
        os.kill(answers, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(120) == -signal.SIGKILL
    if answers:
        os.kill(answers, signal.SIGCONT)
    else:
        step.check_copy_ends()
    step.check_goes_on()


@pytest.mark.parametrize("subject,name", tool_rows({"Save", "DumpDone"}), indirect=["subject"])
def test_who_is_to_answer_a_tool_is_killed(subject, ckpt, name):  # noqa: F811
    step = Step(subject, ckpt, name)
    process = step.start({}, {"CKPT_TEST_STOP_AT": f"got-{step.number}"})
    if step.what == "restore":
        code = step.job.wait(120)
    else:
        process.communicate(timeout=120)
        code = process.returncode
    # What ckpt-ps and the last steps of a dump ask is not needed for what they do.
    assert code != 0 or step.what in ("ps", "files", "stop") or name in AFTER_THE_IMAGE
    if step.answers == "keeper" and step.what != "stop":
        subject.go()
        subject.outcome(step.job)
    assert step.what == "restore" or step.job.wait() == -signal.SIGKILL
    wait_for(lambda: not below(1, "ocl-objects") and not below(1, "steps_cu"), "the end of the program")
    clean(ckpt)


# ---- requests of a program's agent to its keeper

def start_program(ckpt, request, api, points):
    ckpt.env.update(points)
    try:
        if api == "library":
            return None, ckpt.run("library", "image")
        if api == "cuda" and not NVCC:
            pytest.skip("there is no nvcc")
        subject = Subject(api, ckpt, request)
        return subject, subject.start() if api == "cuda" else subject.ocl.start("objects")
    finally:
        for variable in points:
            del ckpt.env[variable]


@pytest.mark.parametrize("victim", ["program", "keeper"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "CheckpointWanted" else [pytest.mark.full])
                                  for n in PROGRAMS])
def test_a_program_or_its_keeper_is_killed_between_request_and_answer(ckpt, request, name, victim):
    api, what = PROGRAMS[name]
    points = {"CKPT_TEST_STOP_AT": f"{'sent' if victim == 'program' else 'got'}-{TYPES[name]}"}
    subject, job = start_program(ckpt, request, api, points if what != "restore" or victim == "program" else {})
    if what == "dump":
        tool(ckpt, "ckpt-dump", job.pid, "-o", "image", "--leave-running").communicate(timeout=120)
    elif what == "suspend":
        tool(ckpt, "ckpt-dump", job.program(), "--suspend").communicate(timeout=120)
        tool(ckpt, "ckpt-restore", "--resume", job.pid).communicate(timeout=120)
    elif what == "restore":
        ckpt.dump(job.pid, "image")
        assert job.wait() == 85
        job = ckpt.restore("image", env=points if victim == "keeper" else {})
    if subject:
        subject.go()
    code = job.wait(120)
    assert code != 0
    if victim == "keeper":
        assert code == -signal.SIGKILL
        for reader in job.readers:
            reader.join(120)
            assert not reader.is_alive(), f"the program hangs: {job.text} {job.error_text}"
        if subject and what != "restore":
            subject.outcome(job)
    wait_for(lambda: not below(1, "ocl-objects") and not below(1, "steps_cu"), "the end of the program")
    clean(ckpt)


# ---- between the members of a job

JOB_MESSAGES = ["Begin", "Go", "Alive", "Abort", "Reached", "Failed", "Welcome"]


def job_numbers():
    text = (ROOT / "tools" / "job" / "messages.h").read_text()
    names = re.findall(r"^  (\w+)(?: = 1)?,", text[text.index("enum class JobMessage"):text.index("};")], re.M)
    return {name: number for number, name in enumerate(names, 1)}


def test_the_table_has_every_message_of_a_job():
    assert list(job_numbers()) == JOB_MESSAGES


# Alive and Abort are not answered; the steps of test_jobs.py have what follows Abort and Failed.
@pytest.mark.parametrize("name,side", [
    pytest.param(name, side, marks=[] if (name, side) == ("Go", "coordinator") else [pytest.mark.full])
    for name in ("Begin", "Go") for side in ("coordinator", "member")] + [
    pytest.param(name, side, marks=pytest.mark.full)
    for name in ("Welcome", "Reached") for side in ("coordinator", "member")])
def test_a_side_of_a_job_is_killed_between_message_and_answer(ckpt, nodes, name, side):  # noqa: F811
    """By the coordinator: Begin, Go; by a member: Welcome, Reached."""
    number, by_coordinator = job_numbers()[name], name in ("Begin", "Go")
    sender = (side == "coordinator") == by_coordinator
    points = {"CKPT_TEST_STOP_AT": f"{'sent' if sender else 'got'}-job-{number}"}
    pair = Pair(ckpt, nodes(2), client_env=points if side == "member" else None)
    r = pair.dump(env=points if side == "coordinator" else None)
    assert r.returncode == (-signal.SIGKILL if side == "coordinator" else 1), r.stderr
    if (name, side) == ("Begin", "member"):
        # The keeper itself accepts a task. Its program goes on without it.
        told = len(pair.client.lines)
        wait_for(lambda: len(pair.client.lines) >= told + 2, "lines of a program without its keeper")
        ckpt.finish()
        assert pair.server.wait() == 0, pair.server.error_text
        return
    pair.check_goes_on()
    assert not any("complete" in d.read_text() for d in pair.folder.glob("*/decision"))
    if side == "coordinator":
        stop_pair(pair)
        restore_pair(pair, pair.nodes)
        pair.client.wait_lines(1)
    pair.check_end()
