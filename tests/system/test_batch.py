# SPDX-License-Identifier: Apache-2.0
"""ckpt-run --image: a batch job goes on from its newest image, and a signal of the batch system checkpoints it."""
import json
import os
import shlex
import signal
import socket
from contextlib import suppress

import pytest

from conftest import tree_of, wait_for
from test_opencl import OPENCL, Programs, devices, finished, wait_until_computing  # noqa: F401 (a fixture)


def batch(ckpt, *command, options=(), env=None):
    return ckpt.run(*command, options=["--image", "series", *options], env=env or {})


def numbers(*jobs):
    return [int(line) for job in jobs for line in job.lines if line.isdigit()]


def images(ckpt, folder="series"):
    return sorted(p.name for p in (ckpt.folder / folder).glob("*.img"))


def preempted(ckpt, job, name="TERM"):
    job.wait_lines(3)
    os.kill(job.pid, getattr(signal, "SIG" + name))
    return job.wait()


def damage(image):
    data = max((p for p in image.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    with open(data, "r+b") as f:
        f.seek(data.stat().st_size // 2)
        f.write(b"damage" * 20)


def damage_index(image):
    with open(image / "index.ckpt", "r+b") as f:
        f.seek((image / "index.ckpt").stat().st_size // 2)
        f.write(b"damage")


@pytest.mark.parametrize("name,code", [("TERM", 85), ("USR1", 85), ("USR2", 86)])
def test_a_signal_checkpoints_the_program(ckpt, name, code):
    first = batch(ckpt, "counter", 100)
    assert preempted(ckpt, first, name) == code
    last = batch(ckpt, "counter", 100)
    assert last.wait() == 0, last.error_text
    assert numbers(first, last) == list(range(100))


def test_signals_to_all_processes_of_the_job(ckpt, devices):  # noqa: F811
    """As Slurm sends them, twice: to the program, the proxy, ckpt-dump and CRIU too."""
    ocl = Programs(ckpt, *devices)
    program = OPENCL / "ocl-objects"
    job = batch(ckpt, program, options=["--device", ocl.device("pocl")])
    job.wait_text("READY")
    for _ in range(2):
        for pid in [*tree_of(job.pid), job.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_for(lambda: job.process.poll() is not None or "criu" in names(job.pid), "CRIU")
    assert job.wait() == 85, job.error_text
    copy = batch(ckpt, program, options=["--device", ocl.device("rusticl")])
    wait_until_computing(copy)
    ocl.go()
    finished(copy)


def names(root):
    found = set()
    for pid in tree_of(root):
        try:
            with open(f"/proc/{pid}/comm") as f:
                found.add(f.read().strip())
        except OSError:
            pass
    return found


def test_a_damaged_image_falls_back_to_the_one_before(ckpt):
    first = batch(ckpt, "counter", 200, options=["--every", "1s", "--keep", "10"])
    wait_for(lambda: len(images(ckpt)) >= 2 or first.process.poll() is not None, "two images")
    assert preempted(ckpt, first) == 85
    newest = images(ckpt)[-1]
    damage(ckpt.folder / "series" / newest)
    copy = batch(ckpt, "counter", 200)
    copy.wait_lines(1)
    assert f"{newest}" in copy.error_text and "the previous image is used" in copy.error_text
    assert copy.wait() == 0
    again = numbers(copy)
    assert again == list(range(again[0], 200)) and again[0] <= numbers(first)[-1] + 1


def test_only_damaged_images_are_an_error(ckpt):
    assert preempted(ckpt, batch(ckpt, "counter", 200)) == 85
    damage(ckpt.folder / "series" / "0001.img")
    copy = batch(ckpt, "counter", 200)
    assert copy.wait() == 1
    assert "damaged" in copy.error_text and not copy.text


def test_a_finished_program_starts_from_the_beginning(ckpt):
    assert preempted(ckpt, batch(ckpt, "counter", 60)) == 85
    assert batch(ckpt, "counter", 60).wait() == 0
    anew = batch(ckpt, "counter", 60)
    assert preempted(ckpt, anew) == 85
    assert numbers(anew)[0] == 0
    assert images(ckpt)[-1] == "0002.img"
    assert batch(ckpt, "counter", 60).wait() == 0


def test_a_program_that_finishes_while_its_image_is_written_has_finished(ckpt):
    job = batch(ckpt, "counter", 300, options=["--every", "1s"], env={"CKPT_TEST_HOLD_AT": "write"})

    def held():
        return [p for p in tree_of(job.pid) if "Name:\tckpt-dump" in status(p) and "State:\tT" in status(p)]

    wait_for(held, "an image that is being written")
    (ckpt.folder / "finish").touch()
    wait_for(lambda: "sum" in job.text, "the program's end")
    assert job.process.poll() is None and images(ckpt) == []
    for pid in held():
        os.kill(pid, signal.SIGCONT)
    assert job.wait() == 0, job.error_text
    assert images(ckpt) == ["0001.img"] and (ckpt.folder / "series" / "0001.img.ended").exists()
    (ckpt.folder / "finish").unlink()
    anew = batch(ckpt, "counter", 300)
    anew.wait_lines(1)
    assert numbers(anew)[0] == 0


def test_images_at_intervals_and_by_signal_are_one_chain(ckpt):
    first = batch(ckpt, "counter", 300, options=["--every", "1s"])
    wait_for(lambda: "0002.img" in images(ckpt), "the second image")
    assert preempted(ckpt, first) == 85
    assert len(images(ckpt)) <= 2
    second = batch(ckpt, "counter", 300, options=["--every", "1s"])
    second.wait_lines(3)
    assert preempted(ckpt, second) == 85
    assert len(images(ckpt)) <= 2
    last = batch(ckpt, "counter", 300)
    assert last.wait() == 0
    assert numbers(first, second, last) == list(range(300))


def test_an_image_that_lacks_its_parent_is_followed_by_a_whole_one(ckpt):
    job = batch(ckpt, "counter", 3000, options=["--every", "1s", "--keep", "10"])
    wait_for(lambda: "0002.img" in images(ckpt), "the second image")
    (ckpt.folder / "series" / "0001.img").rename(ckpt.folder / "away.img")
    wait_for(lambda: "cannot be its parent" in job.error_text, "the warning")
    assert "the next image is whole" in job.error_text, job.error_text
    seen = images(ckpt)[-1]
    wait_for(lambda: images(ckpt)[-1] > seen, "the whole image")
    assert preempted(ckpt, job) == 85, job.error_text
    copy = batch(ckpt, "counter", 3000)
    copy.wait_lines(1)
    assert numbers(copy)[0] == numbers(job)[-1] + 1


def test_a_signal_after_the_last_image_has_lost_its_parent(ckpt):
    """As of a program that was restored: its first image would have a parent that cannot be read."""
    first = batch(ckpt, "counter", 3000)
    assert preempted(ckpt, first) == 85
    second = batch(ckpt, "counter", 3000)
    second.wait_lines(1)
    damage_index(ckpt.folder / "series" / "0001.img")
    assert preempted(ckpt, second) == 85, second.error_text
    assert "0001.img cannot be its parent" in second.error_text, second.error_text
    last = batch(ckpt, "counter", 3000)
    last.wait_lines(1)
    assert numbers(last)[0] == numbers(second)[-1] + 1


def test_images_that_cannot_be_removed_are_reported_once(ckpt):
    first = batch(ckpt, "counter", 4000, options=["--every", "1s", "--keep", "10"])
    wait_for(lambda: "0002.img" in images(ckpt), "the second image")
    assert preempted(ckpt, first) == 85
    damage_index(ckpt.folder / "series" / "0001.img")
    copy = batch(ckpt, "counter", 4000, options=["--every", "1s", "--keep", "2"])
    wait_for(lambda: "the older images of the chain were not removed" in copy.error_text, "the warning")
    seen = len(images(ckpt))
    wait_for(lambda: len(images(ckpt)) >= seen + 2, "two more images")
    assert copy.error_text.count("the older images of the chain were not removed") == 1, copy.error_text
    assert "move it out of the folder" in copy.error_text and "series/0001.img" in copy.error_text, copy.error_text


def test_a_start_that_cannot_be_counted(ckpt):
    """As on a full disk. The program goes on all the same."""
    assert preempted(ckpt, batch(ckpt, "counter", 100)) == 85
    (ckpt.folder / "series" / "starts.new").mkdir()
    copy = batch(ckpt, "counter", 100)
    assert copy.wait() == 0 and "this start is not counted" in copy.error_text, copy.error_text


RESULTS = """
import os, time
n = 0
with open("out", "w", buffering=1) as out:
    while not os.path.exists("stop"):
        out.write(f"{n}\\n")
        print(n, flush=True)
        n += 1
        time.sleep(0.02)
"""


def test_results_since_the_last_image_are_not_there_twice(ckpt):
    """As after a node has failed: the program continues from its image, and writes them again."""
    command = ("/usr/bin/python3", "-c", RESULTS)
    job = batch(ckpt, *command, options=["--every", "1s"])
    wait_for(lambda: "0001.img" in images(ckpt), "an image")
    seen = len(job.lines)
    job.wait_lines(seen + 10)
    os.kill(job.program(), signal.SIGKILL)
    assert job.wait() == -9
    before = len((ckpt.folder / "out").read_text().splitlines())
    copy = batch(ckpt, *command)
    wait_for(lambda: max(numbers(copy), default=0) > before + 5 or copy.process.poll() is not None, lambda: copy.error_text)
    (ckpt.folder / "stop").touch()
    assert copy.wait() == 0, copy.error_text
    lines = (ckpt.folder / "out").read_text().splitlines()
    assert lines == [str(n) for n in range(len(lines))] and len(lines) > before
    if numbers(copy)[0] < before:
        assert f"is written again, from where the program was in the image: {ckpt.folder / 'out'}" in copy.error_text


def test_the_program_s_own_output_goes_on_at_its_end(ckpt):
    """It has the messages of the batch system, too."""
    log = ckpt.folder / "log"
    run = shlex.join(map(str, [ckpt.tool("ckpt-run"), "--image", "series", "--every", "1s", "--", ckpt.programs / "counter", 100000]))
    job = ckpt.start_shell(f"exec {run} >log")
    wait_for(lambda: "0001.img" in images(ckpt), "an image")
    os.kill(job.program(), signal.SIGKILL)
    assert job.wait() == -9
    before = log.read_text() + "the node has failed\n"
    log.write_text(before)
    copy = ckpt.start_shell(f"exec {run} >>log")
    wait_for(lambda: len(log.read_text()) > len(before) or copy.process.poll() is not None, "more output")
    after = log.read_text()
    assert after.startswith(before) and len(after) > len(before), copy.error_text
    assert "is written again" not in copy.error_text, copy.error_text


def test_a_signal_during_a_restore_leaves_the_image(ckpt):
    first = batch(ckpt, "counter", 100)
    assert preempted(ckpt, first) == 85
    copy = batch(ckpt, "counter", 100)
    wait_for(lambda: tree_of(copy.pid) or copy.lines, "the restore's begin")
    os.kill(copy.pid, signal.SIGTERM)
    assert copy.wait() == 85
    last = batch(ckpt, "counter", 100)
    assert last.wait() == 0
    assert numbers(first, copy, last) == list(range(100))


def test_a_signal_between_the_programs_first_step_and_the_keepers_notice_of_it(ckpt):
    """It does not cancel the restore, because the next one would print again what the program has printed."""
    first = batch(ckpt, "counter", 400)
    assert preempted(ckpt, first) == 85
    copy = batch(ckpt, "counter", 400, env={"CKPT_TEST_HOLD_AT": "restore-continued"})
    copy.wait_lines(1)
    os.kill(copy.pid, signal.SIGTERM)
    wait_for(lambda: "ShdPnd:\t0000000000000000" in status(copy.pid), "the keeper to read the signal")
    for stem in tree_of(copy.pid):
        if "State:\tT" in status(stem):
            os.kill(stem, signal.SIGCONT)
    assert copy.wait() == 85
    last = batch(ckpt, "counter", 400)
    assert last.wait() == 0
    assert numbers(first, copy, last) == list(range(400))


def status(pid):
    with suppress(OSError):
        return open(f"/proc/{pid}/status").read()
    return ""


def test_a_signal_before_the_program_runs(ckpt):
    job = batch(ckpt, "counter", 100)
    wait_for(lambda: (ckpt.folder / "series").is_dir(), "the series")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 85
    last = batch(ckpt, "counter", 100)
    assert last.wait() == 0
    assert numbers(job, last) == list(range(100))


# As slurm/spank_ckpt.c starts a batch script: with both signals blocked.
KEPT = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
os.environ["CKPT_HELD_SIGNALS"] = "USR1,USR2"
if sys.argv[1] != "none": os.kill(os.getpid(), getattr(signal, "SIG" + sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


def with_kept_signal(ckpt, name, *command):
    """ckpt-run for which this signal waits already."""
    run = [ckpt.tool("ckpt-run"), "--image", "series", "--", *command]
    return ckpt.start_shell(shlex.join(map(str, ["exec", "/usr/bin/python3", "-c", KEPT, name, *run])))


@pytest.mark.parametrize("name,code", [("USR1", 85), ("USR2", 86)])
def test_a_signal_that_was_kept_for_ckpt_run(ckpt, name, code):
    """Of a job's first moments. It checkpoints the program; in the job's second start, too, where ckpt-run becomes
    ckpt-restore."""
    counter = ckpt.programs / "counter"
    first = with_kept_signal(ckpt, name, counter, 100)
    assert first.wait() == code, first.error_text
    assert len(images(ckpt)) == 1
    second = with_kept_signal(ckpt, name, counter, 100)
    assert second.wait() == code, second.error_text
    last = with_kept_signal(ckpt, "none", counter, 100)
    assert last.wait() == 0 and numbers(first, second, last) == list(range(100))


def test_what_was_blocked_for_ckpt_run_is_not_blocked_for_the_program(ckpt):
    job = with_kept_signal(ckpt, "none", "/bin/sh", "-c", "grep SigBlk /proc/self/status; env")
    assert job.wait() == 0, job.error_text
    assert job.lines[0].split() == ["SigBlk:", "0" * 16] and "CKPT_HELD_SIGNALS" not in job.text


def test_a_program_that_cannot_be_dumped_keeps_running(ckpt):
    outside = socket.create_server(("127.0.0.1", 0))
    connect = f"exec 5<>/dev/tcp/127.0.0.1/{outside.getsockname()[1]}"
    job = batch(ckpt, "bash", "-c", connect + "; until [ -e go ]; do echo on; sleep 0.1; done")
    job.wait_lines(2)
    os.kill(job.pid, signal.SIGTERM)
    wait_for(lambda: "no image was written, and the program keeps running" in job.error_text, "the refusal")
    job.wait_lines(len(job.lines) + 3)
    (ckpt.folder / "go").touch()
    assert job.wait() == 0
    assert images(ckpt) == []


NOT_ACCEPTED = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
print("connected", flush=True)
time.sleep(5)
accepted = listener.accept()
while True:
    print("on", flush=True)
    time.sleep(0.1)
"""


def test_a_checkpoint_is_tried_again_until_it_is_possible(ckpt):
    """After one signal, and with one message as long as the reason stays the same."""
    job = batch(ckpt, "/usr/bin/python3", "-c", NOT_ACCEPTED)
    job.wait_text("connected")
    os.kill(job.pid, signal.SIGTERM)
    wait_for(lambda: "no image was written, and the program keeps running" in job.error_text, "the refusal")
    assert job.wait() == 85, job.error_text
    assert images(ckpt) == ["0001.img"]


def test_names_and_signals_are_checked(ckpt):
    job = ckpt.run("counter", 10, options=["--image", "runs/%j"], env={"SLURM_JOB_ID": "4711"})
    assert job.wait() == 0
    assert (ckpt.folder / "runs" / "4711").stat().st_mode & 0o777 == 0o700
    for options, message in [(["--image", "runs/%j"], "SLURM_JOB_ID"), (["--image", "a%q"], "placeholder"),
                             (["--image", "a", "--on-signal", "KILL"], "KILL")]:
        job = ckpt.run("counter", 10, options=options)
        assert job.wait() == 125 and message in job.error_text, job.error_text
    forwarded = ckpt.run("counter", 100, options=["--image", "b", "--on-signal", "none"])
    assert preempted(ckpt, forwarded) == -signal.SIGTERM


def test_signals_need_a_series(ckpt):
    job = ckpt.start("ckpt-run", ["--on-signal", "USR1", "true"])
    assert job.wait() == 125 and "--image" in job.error_text
    program = ckpt.run("sh", "-c", "echo ready; sleep 100")
    program.wait_lines(1)
    ckpt.dump(program.pid, "one")
    copy = ckpt.start("ckpt-restore", ["--on-signal", "USR1", "one"])
    assert copy.wait() == 125 and "series of images" in copy.error_text


def test_the_defaults_in_the_environment(ckpt):
    env = {"CKPT_IMAGE": "series", "CKPT_EVERY": "1s"}
    script = "env; until [ -e series/0002.img ]; do sleep 0.1; done"
    job = ckpt.run("sh", "-c", script, env=env)
    assert job.wait() == 0, job.error_text
    assert "CKPT_IMAGE" not in job.text and "CKPT_EVERY" not in job.text
    job = ckpt.run("counter", 3, options=["--image", "other"], env=env)
    assert job.wait() == 0 and (ckpt.folder / "other").is_dir()


def test_starts_are_counted(ckpt):
    """A program that is started knows the count; a restored one keeps its environment; the history has it."""
    ckpt.env["CKPT_HISTORY"] = str(ckpt.folder / "history.jsonl")
    script = "echo started $CKPT_RESTART_COUNT; [ -e broken ] && exit 3; " \
             "for i in $(seq 60); do echo $i; sleep 0.05; done; echo ended $CKPT_RESTART_COUNT"
    (ckpt.folder / "broken").touch()
    assert batch(ckpt, "sh", "-c", script).wait() == 3
    (ckpt.folder / "broken").unlink()
    first = batch(ckpt, "sh", "-c", script)
    assert preempted(ckpt, first) == 85
    second = batch(ckpt, "sh", "-c", script)
    assert second.wait() == 0
    assert first.lines[0] == "started 1" and second.lines[-1] == "ended 1"
    lines = [json.loads(line) for line in (ckpt.folder / "history.jsonl").read_text().splitlines()]
    assert [(e["event"], e["restarts"]) for e in lines] == [("dump", 1), ("restore", 2)]
    third = batch(ckpt, "sh", "-c", "echo started $CKPT_RESTART_COUNT")
    assert third.wait() == 0 and third.text == "started 0\n"


@pytest.mark.parametrize("mode,grace,warned", [("REQUEUE", "0", True), ("REQUEUE", "600", False), ("OFF", "0", False)])
def test_a_grace_time_that_is_too_short(ckpt, mode, grace, warned):
    """At the next start, by the history. The answer is that of Slurm 22.05."""
    (ckpt.folder / "scontrol").write_text("#!/bin/sh\n[ \"$*\" = '--oneliner show partition low' ] || exit 1\n"
                                          f"echo PartitionName=low ExclusiveUser=NO GraceTime={grace} Hidden=NO PreemptMode={mode} State=UP\n")
    (ckpt.folder / "scontrol").chmod(0o755)
    ckpt.env.update(CKPT_HISTORY=str(ckpt.folder / "history.jsonl"), SLURM_JOB_PARTITION="low",
                    PATH=f"{ckpt.folder}:{ckpt.env['PATH']}")
    first = batch(ckpt, "counter", 60)
    assert preempted(ckpt, first) == 85 and "GraceTime" not in first.error_text
    second = batch(ckpt, "counter", 60)
    assert second.wait() == 0
    assert second.error_text.count("GraceTime") == warned, second.error_text


# Slurm's commands, with one job: its comment is in a file.
SQUEUE = """#!/bin/sh
[ "$*" = "--noheader --jobs=7 --format=%k" ] || exit 1
[ ! -e hangs ] || exec sleep 1000
cat comment
"""
SCONTROL = """#!/bin/sh
[ "$1 $2" = "update JobId=7" ] || exit 1
echo "${3#Comment=}" >comment
"""


def in_slurm(ckpt, comment, **more):
    (ckpt.folder / "comment").write_text(comment + "\n")
    for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL)):
        (ckpt.folder / name).write_text(text)
        (ckpt.folder / name).chmod(0o755)
    ckpt.env.update(SLURM_JOB_ID="7", PATH=f"{ckpt.folder}:{ckpt.env['PATH']}", **more)
    return lambda: (ckpt.folder / "comment").read_text().rstrip("\n")


@pytest.mark.parametrize("before,mine", [("(null)", ""), ("ckpt:seconds=60,mb=5", "ckpt:seconds=60,mb=5 ")])
def test_the_jobs_comment_says_what_the_exit_code_means(ckpt, before, mine):
    """Behind the user's part. The next exit code replaces it, and a job that finishes leaves it."""
    comment = in_slurm(ckpt, before)
    first = batch(ckpt, "counter", 200)
    assert preempted(ckpt, first) == 85
    assert comment() == f"{mine}[ckpt: exit code 85: checkpointed to {ckpt.folder}/series/0001.img, not failed; " \
                        "it continues when it is queued again]"
    second = batch(ckpt, "counter", 200)
    assert preempted(ckpt, second, "USR2") == 86
    left = comment()
    assert left.startswith(f"{mine}[ckpt: exit code 86: ") and "/series/0002.img" in left and left.count("[ckpt: ") == 1
    last = batch(ckpt, "counter", 200)
    assert last.wait() == 0 and numbers(first, second, last) == list(range(200))
    assert comment() == left


@pytest.mark.parametrize("why", ["full", "hangs", "other task", "heterogeneous"])
def test_a_comment_that_stays_as_it_is(ckpt, why):
    """The exit code is the same, and soon there."""
    before = "x" * 1000 if why == "full" else "mine"
    comment = in_slurm(ckpt, before, **{"other task": {"SLURM_PROCID": "1"}, "heterogeneous": {"SLURM_HET_SIZE": "2"}}.get(why, {}))
    if why == "hangs":
        (ckpt.folder / "hangs").touch()
    job = batch(ckpt, "counter", 200)
    job.wait_lines(3)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(30) == 85 and comment() == before


def test_a_folder_with_images_of_another_program_is_refused(ckpt):
    """The images are as they were, and the program that they hold can still be continued."""
    assert preempted(ckpt, batch(ckpt, "counter", 100)) == 85
    for other in (("counter", 200), ("threads", 100), ("sleep", 1)):
        refused = batch(ckpt, *other)
        assert refused.wait() == 125 and not refused.text
        assert "holds images of " in refused.error_text and "counter 100" in refused.error_text, refused.error_text
        assert "name another folder with --image" in refused.error_text
    last = batch(ckpt, "counter", 100)
    assert last.wait() == 0 and numbers(last)[-1] == 99
    assert batch(ckpt, "counter", 3).wait() == 0  # the program that the folder held has finished


def test_the_same_words_in_another_folder_are_another_program(ckpt):
    def start(folder):
        (ckpt.folder / folder).mkdir(exist_ok=True)
        (ckpt.folder / folder / "count.sh").write_text("i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.05; done\n")
        return ckpt.start_shell(f"cd {folder}; exec {ckpt.tool('ckpt-run')} --image ../series -- sh count.sh")

    assert preempted(ckpt, start("a")) == 85
    refused = start("b")
    assert refused.wait() == 125 and not refused.text
    assert "holds images of sh count.sh" in refused.error_text and "where count.sh is another file" in refused.error_text
    last = start("a")
    assert last.wait() == 0 and numbers(last)[-1] == 59


def test_images_that_were_not_made_for_a_command_are_named(ckpt):
    """Images of earlier versions, or put there by hand."""
    assert preempted(ckpt, batch(ckpt, "counter", 100)) == 85
    (ckpt.folder / "series" / "command").unlink()
    copy = batch(ckpt, "counter", 200)
    assert copy.wait() == 0
    assert "which holds" in copy.error_text and "counter 100" in copy.error_text, copy.error_text
