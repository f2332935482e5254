# SPDX-License-Identifier: Apache-2.0
"""Jobs of several programs on several nodes, which are checkpointed as one (docs/rooms/job.md). The nodes are
namespaces of this machine (nodes.py)."""
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import criu_with, tree_of, wait_for
from nodes import NETWORK, Nodes, wait_members

PORT = "7800"


@pytest.fixture
def nodes(ckpt):
    made = []

    def make(count):
        made.append(Nodes(ckpt, count))
        return made[-1]

    yield make
    for n in made:
        n.close()


class Pair:
    """tests/system/programs/pair.cc on the first two nodes, as a job."""

    def __init__(self, ckpt, nodes, client_env=None):
        self.ckpt, self.nodes, self.folder = ckpt, nodes, ckpt.folder / "job"
        program = str(ckpt.programs / "pair")
        self.server = nodes[0].start("ckpt-run", "--job=job", "--", program, "serve", NETWORK + "1", PORT)
        self.server.wait_text("listening")
        self.client = nodes[1].start("ckpt-run", "--job=job", "--", program, "talk", NETWORK + "1", PORT,
                                     env=client_env)
        self.client.wait_lines(2)
        wait_members(self.folder, ["node1", "node2"])

    @property
    def jobs(self):
        return [self.server, self.client]

    def dump(self, *options, node=0, env=None):
        return self.nodes[node].call("ckpt-dump", "--job=job", "--json", *options, env=env)

    def check_goes_on(self):
        self.client.wait_lines(len(self.client.lines) + 2)

    def check_end(self):
        self.ckpt.finish()
        assert self.client.wait() == 0, self.client.error_text
        assert self.server.wait() == 0, self.server.error_text
        sent, served = self.client.lines[-1], self.server.lines[-1]
        assert (sent.split()[0], served.split()[0]) == ("sent", "served"), (sent, served)
        assert sent.split()[1] == served.split()[1]

    def checkpoints(self):
        return sorted(p.name for p in self.folder.iterdir() if p.name.isdigit())


def test_job_continues_after_a_checkpoint(ckpt, nodes):
    pair = Pair(ckpt, nodes(2))
    r = pair.dump("--leave-running")
    assert r.returncode == 0, r.stdout + r.stderr
    report = json.loads(r.stdout)
    assert set(report["members"]) == {"node1", "node2"}
    assert sorted(p.name for p in (pair.folder / "0001").iterdir()) == ["decision", "node1.img", "node2.img"]
    pair.check_goes_on()
    pair.check_end()


def restore_pair(pair, at):
    """Restores the pair on the nodes `at`; the first is the server's."""
    pair.server = at[0].start("ckpt-restore", "--job=job", "--member=node1")
    pair.client = at[1].start("ckpt-restore", "--job=job", "--member=node2")


def stop_pair(pair):
    r = pair.dump()
    assert r.returncode == 0, r.stdout + r.stderr
    assert [j.wait() for j in pair.jobs] == [85, 85]
    wait_members(pair.folder, [])


def test_job_moves_to_other_nodes(ckpt, nodes):
    """Stopped, restored on the same nodes, checkpointed again there, and restored on two others."""
    n = nodes(4)
    for node, number in ((n[2], 3), (n[3], 4)):
        node.drop_address(number)
    pair = Pair(ckpt, n)
    stop_pair(pair)
    restore_pair(pair, n[:2])
    pair.client.wait_lines(2)
    stop_pair(pair)
    for node, number in ((n[0], 1), (n[1], 2)):
        node.drop_address(number)
    n[2].take_address(1)
    n[3].take_address(2)
    restore_pair(pair, n[2:])
    pair.client.wait_lines(2)
    pair.check_end()


def test_the_program_s_ports_are_left_to_it(ckpt, nodes):
    """The tools listen on the first port above those that the kernel chooses, unless the program needs it."""
    n = nodes(2)
    pair = Pair(ckpt, n)
    stop_pair(pair)
    for node in n[:2]:
        node.choose_ports(int(PORT) - 10, int(PORT) - 1)
    restore_pair(pair, n[:2])
    pair.client.wait_lines(2)
    pair.check_end()


BEFORE_THE_DECISION = ["job-begin", "job-connect", "job-ready", "job-settle", "job-lock", "job-capture", "job-durable", "job-commit"]


def test_coordinator_that_is_killed_before_the_decision(ckpt, nodes):
    """All programs keep running, whatever messages they got before, and there is no checkpoint."""
    pair = Pair(ckpt, nodes(2))
    for step in BEFORE_THE_DECISION:
        assert pair.dump(env={"CKPT_TEST_STOP_AT": step}).returncode == -9
        pair.check_goes_on()
        assert not any((pair.folder / c / "decision").exists() and "complete" in (pair.folder / c / "decision").read_text()
                       for c in pair.checkpoints()), step
    stop_pair(pair)
    assert len(pair.checkpoints()) == 1  # those of killed coordinators are removed
    restore_pair(pair, pair.nodes)
    pair.check_end()


def test_coordinator_that_is_killed_after_the_decision(ckpt, nodes):
    """The checkpoint is complete, and all programs end, as they were to."""
    pair = Pair(ckpt, nodes(2))
    assert pair.dump(env={"CKPT_TEST_STOP_AT": "job-finish"}).returncode == -9
    assert [j.wait() for j in pair.jobs] == [85, 85]
    restore_pair(pair, pair.nodes)
    pair.client.wait_lines(1)
    pair.check_end()


@pytest.mark.full
def test_coordinator_that_is_slow_with_its_decision(ckpt, nodes):
    """Its members take it for dead and run on. It finds their decision, and not a second one."""
    pair = Pair(ckpt, nodes(2))
    tool = pair.nodes[0].start("ckpt-dump", "--job=job", env={"CKPT_TEST_HOLD_AT": "job-commit"})
    decision = pair.folder / "0001" / "decision"
    wait_for(decision.exists, "the members' decision", 120)
    pair.check_goes_on()
    assert json.loads(decision.read_text())["result"] == "abandoned"
    for pid in [tool.pid, *tree_of(tool.pid)]:
        os.kill(pid, signal.SIGCONT)
    assert tool.wait() == 1
    assert "has given up" in tool.error_text
    assert pair.checkpoints() == []
    pair.check_end()


@pytest.mark.parametrize("step", ["quiesce", "criu", "record", "write"])
def test_dump_of_a_member_that_is_killed(ckpt, nodes, step):
    pair = Pair(ckpt, nodes(2), client_env={"CKPT_TEST_STOP_AT": step})
    r = pair.dump()
    assert r.returncode == 1
    assert "member node2" in r.stderr and "keep running" in r.stderr, r.stderr
    pair.check_goes_on()
    assert pair.checkpoints() == []
    pair.check_end()


def test_dump_of_a_member_that_fails(ckpt, nodes):
    pair = Pair(ckpt, nodes(2), client_env=criu_with(ckpt, after_dump="test -e works"))
    r = pair.dump()
    assert r.returncode == 1
    assert "member node2: CRIU cannot dump the program" in r.stderr, r.stderr
    assert (pair.folder / "node2.criu.log").exists()
    pair.check_goes_on()
    assert pair.checkpoints() == []
    (ckpt.folder / "works").touch()
    stop_pair(pair)
    restore_pair(pair, pair.nodes)
    pair.check_end()


def test_connection_to_a_program_that_is_not_in_the_job(ckpt, nodes):
    n = nodes(2)
    program = str(ckpt.programs / "pair")
    server = n[0].start("ckpt-run", "--", program, "serve", NETWORK + "1", PORT)
    server.wait_text("listening")
    client = n[1].start("ckpt-run", "--job=job", "--", program, "talk", NETWORK + "1", PORT)
    client.wait_lines(1)
    r = n[1].call("ckpt-dump", "--job=job")
    assert r.returncode == 1
    assert f"node2: process {client.program()} (pair): descriptor 3 is a TCP connection to {NETWORK}1 port {PORT}, " \
           "where no member of the job has the other end" in r.stderr, r.stderr
    client.wait_lines(len(client.lines) + 1)


def test_restore_whose_coordinator_is_killed(ckpt, nodes):
    """No copy runs, and the images are as they were."""
    pair = Pair(ckpt, nodes(2))
    stop_pair(pair)
    for step in ("job-wait", "job-restore", "job-commit"):
        pair.client = pair.nodes[1].start("ckpt-restore", "--job=job", "--member=node2")
        pair.server = pair.nodes[0].start("ckpt-restore", "--job=job", "--member=node1", env={"CKPT_TEST_STOP_AT": step})
        assert pair.server.wait() == -9
        if step == "job-wait":
            pair.client.kill()  # it waits for the other
        else:
            assert pair.client.wait() == 1
            assert "the job gives up: the connection to its coordinator is lost" in pair.client.error_text, pair.client.error_text
        assert not pair.client.text
    restore_pair(pair, pair.nodes)
    pair.client.wait_lines(1)
    pair.check_end()


@pytest.mark.full
def test_peers_without_the_job_s_key(ckpt, nodes):
    pair = Pair(ckpt, nodes(2))
    member = json.loads((pair.folder / "members" / "node1").read_text())
    script = f"""
import socket
for data in (b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"ckptjob2" + b"x" * 32 + b"\\xff\\xff\\xff\\xff", b"ckptjob2" + b"x" * 4000):
    s = socket.create_connection(("{NETWORK}1", {member["port"]}))
    s.settimeout(20)
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while s.recv(4096):
            pass
    except TimeoutError:
        raise
    except OSError:  # it may hang up first
        pass
"""
    subprocess.run(pair.nodes[1].inside(sys.executable, "-c", script), check=True, timeout=120)
    pair.check_goes_on()
    # Nor does one with another key get further.
    key = (pair.folder / "key").read_bytes()
    other = ckpt.folder / "other"
    shutil.copytree(pair.folder, other, copy_function=os.link)  # the members' files, which they have locked
    (other / "key").unlink()
    (other / "key").write_bytes(bytes(32))
    (other / "key").chmod(0o600)
    r = pair.nodes[1].call("ckpt-dump", "--job=other")
    assert r.returncode == 1 and "cannot be reached" in r.stderr, r.stderr
    assert (pair.folder / "key").read_bytes() == key
    stop_pair(pair)
    restore_pair(pair, pair.nodes)
    pair.check_end()


def test_folder_that_others_can_write_to_is_refused(ckpt):
    (ckpt.folder / "job").mkdir()
    (ckpt.folder / "job").chmod(0o770)
    job = ckpt.run("counter", options=["--job=job"])
    assert job.wait() == 125
    assert "other users may write to the job's folder" in job.error_text, job.error_text


def test_what_is_not_of_the_job_is_not_removed(ckpt):
    """As with --job=$HOME/jobs, whose folders are the jobs' numbers."""
    precious = ckpt.folder / "job" / "2024" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("x")
    refused = ckpt.run("counter", options=["--job=job"])
    assert refused.wait() == 125
    assert "job is not the folder of a job, and contains 2024" in refused.error_text, refused.error_text
    precious.parent.rename(ckpt.folder / "2024")
    job, = start_counters(ckpt, "a")
    job.wait_lines(1)
    (ckpt.folder / "2024").rename(precious.parent)
    assert dump_job(ckpt, "--leave-running").returncode == 0
    assert [p.name for p in precious.parent.iterdir()] == ["precious"]
    assert (ckpt.folder / "job" / "2025" / "decision").exists()


def test_two_members_of_one_name(ckpt):
    first = ckpt.run("counter", options=["--job=job", "--member=a"])
    first.wait_lines(1)
    second = ckpt.run("counter", options=["--job=job", "--member=a"])
    assert second.wait() == 125
    assert "the job has a member a that runs" in second.error_text, second.error_text
    # That of a killed ckpt-run is free again.
    first.kill()
    third = ckpt.run("counter", options=["--job=job", "--member=a"])
    third.wait_lines(1)


def start_pair(ckpt, nodes, *options, env=None):
    """As Pair does, with options of both ckpt-run."""
    program = str(ckpt.programs / "pair")
    server = nodes[0].start("ckpt-run", "--job=job", *options, "--", program, "serve", NETWORK + "1", PORT, env=env)
    server.wait_text("listening")
    client = nodes[1].start("ckpt-run", "--job=job", *options, "--", program, "talk", NETWORK + "1", PORT, env=env)
    client.wait_lines(2)
    wait_members(ckpt.folder / "job", ["node1", "node2"])
    return [server, client]


def continue_pair(ckpt, nodes, *options):
    """The pair's two commands, which start or restore it."""
    program = str(ckpt.programs / "pair")
    jobs = []
    for node, words in zip(nodes.all, (["serve"], ["talk"])):
        jobs.append(node.start("ckpt-run", "--job=job", "--continue", *options, "--", program, *words, NETWORK + "1", PORT))
        wait_for(lambda: (ckpt.folder / "job" / "members" / node.name).exists() or jobs[-1].process.poll() is not None,
                 f"{node.name}: {jobs[-1].error_text}")
        if (ckpt.folder / "job" / "0001").exists():
            continue
        if words == ["serve"]:
            jobs[-1].wait_text("listening")
    return jobs


def test_the_same_command_starts_and_continues_the_job(ckpt, nodes):
    """Its signals checkpoint it without --on-signal. When both programs have finished, the next start is a new one."""
    n = nodes(2)
    jobs = continue_pair(ckpt, n)
    jobs[1].wait_lines(2)
    os.kill(keepers_of(ckpt, "ckpt-run")[0], signal.SIGTERM)
    assert [j.wait() for j in jobs] == [85, 85]
    assert "ckpt-restore --job " in jobs[0].error_text, jobs[0].error_text
    again = continue_pair(ckpt, n)
    again[1].wait_lines(2)
    assert int(again[1].lines[0]) > int(jobs[1].lines[-1])
    ckpt.finish()
    assert [j.wait() for j in again] == [0, 0]
    shutil.rmtree(ckpt.folder / "job" / "0001")
    (ckpt.folder / "finish").unlink()
    anew = continue_pair(ckpt, n)
    anew[1].wait_lines(2)
    assert anew[1].lines[0] == "0"
    assert n[0].call("ckpt-dump", "--job=job").returncode == 0
    assert [j.wait() for j in anew] == [85, 85]
    assert (ckpt.folder / "job" / "0002").exists()  # a number that no checkpoint had


COUNT = "n=0; until [ -e %s ]; do echo $((n=n+1)); sleep 0.05; done"


def start_counters(ckpt, *members, options=("--continue",)):
    return [ckpt.run("sh", "-c", COUNT % f"finish-{m}", options=["--job=job", f"--member={m}", *options]) for m in members]


def dump_job(ckpt, *options):
    return subprocess.run([ckpt.tool("ckpt-dump"), "--job=job", *options], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True)


def test_a_program_that_had_finished_before_the_checkpoint(ckpt):
    """It is not started again; its member of the job returns 0. A member of no checkpoint is refused."""
    a, b = start_counters(ckpt, "a", "b")
    for job in (a, b):
        job.wait_lines(2)
    (ckpt.folder / "finish-a").touch()
    assert a.wait() == 0
    assert dump_job(ckpt).returncode == 0
    assert b.wait() == 85
    again, other, copy = start_counters(ckpt, "a", "c", "b")
    assert (again.wait(), again.text) == (0, "")
    assert other.wait() == 125
    assert "has no member c, only b" in other.error_text, other.error_text
    (ckpt.folder / "finish-b").touch()
    assert copy.wait() == 0, copy.error_text
    # All have finished. A start of both is a new one.
    for name in ("a", "b"):
        (ckpt.folder / f"finish-{name}").unlink()
    for job in start_counters(ckpt, "a", "b"):
        job.wait_lines(1)
        assert job.lines[0] == "1"


def test_a_program_that_failed_is_no_end_of_the_job(ckpt):
    jobs = start_counters(ckpt, "a", "b", options=["--continue", "--every=1s"])
    wait_for(lambda: (ckpt.folder / "job" / "0001" / "decision").exists(), "a checkpoint")
    (ckpt.folder / "finish-a").touch()
    assert jobs[0].wait() == 0
    os.kill(jobs[1].program(), signal.SIGKILL)
    assert jobs[1].wait() == -9
    (ckpt.folder / "finish-a").unlink()
    copies = start_counters(ckpt, "a", "b")
    for name, copy in zip("ab", copies):
        copy.wait_lines(1)
        assert copy.lines[0] != "1"
        (ckpt.folder / f"finish-{name}").touch()
        assert copy.wait() == 0


def test_no_checkpoint_is_made_without_a_program_that_has_failed(ckpt):
    """The job continues from the last one that has it, which --keep does not remove."""
    jobs = start_counters(ckpt, "a", "b", options=["--continue", "--every=1s", "--keep=2"])
    wait_for(lambda: (ckpt.folder / "job" / "0001" / "decision").exists(), "a checkpoint")
    os.kill(jobs[0].program(), signal.SIGKILL)
    assert jobs[0].wait() == -9
    wait_for(lambda: "member a of the job has ended with exit code 137" in jobs[1].error_text, "the refusal")
    decisions = [json.loads(p.read_text()) for p in (ckpt.folder / "job").glob("0*/decision")]
    assert all(d["members"] == ["a", "b"] for d in decisions if d["result"] == "complete"), decisions
    os.kill(jobs[1].program(), signal.SIGKILL)
    assert jobs[1].wait() == -9
    copies = start_counters(ckpt, "a", "b")
    for name, copy in zip("ab", copies):
        copy.wait_lines(1)
        assert copy.lines[0] != "1"
        (ckpt.folder / f"finish-{name}").touch()
        assert copy.wait() == 0, copy.error_text


def test_a_program_that_has_failed_is_left_out_when_its_user_says_so(ckpt):
    jobs = start_counters(ckpt, "a", "b")
    for job in jobs:
        job.wait_lines(1)
    for _ in range(2):
        assert dump_job(ckpt, "--leave-running").returncode == 0
    os.kill(jobs[0].program(), signal.SIGKILL)
    assert jobs[0].wait() == -9
    r = dump_job(ckpt, "--leave-running")
    assert r.returncode == 1 and "job/ended/a" in r.stderr, r.stderr
    (ckpt.folder / "job" / "ended" / "a").unlink()
    assert dump_job(ckpt, "--leave-running", "--keep=1").returncode == 0
    left = sorted(p.name for p in (ckpt.folder / "job").iterdir() if p.name.isdigit())
    assert left == ["0002", "0003"] or left == ["0002", "0004"], left


def test_a_checkpoint_waits_for_all_programs(ckpt):
    """srun says how many there are. One that has ended counts, too."""
    first = ckpt.run("sh", "-c", COUNT % "finish-a", options=["--job=job", "--member=%t", "--continue"],
                     env={"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"})
    first.wait_lines(1)
    r = dump_job(ckpt, "--leave-running")
    assert r.returncode == 1 and "of the 2 programs of the job, 1 have started" in r.stderr, r.stderr
    second, = start_counters(ckpt, "b", options=["--programs=2"])
    second.wait_lines(1)
    assert dump_job(ckpt, "--leave-running").returncode == 0
    assert sorted(p.name for p in (ckpt.folder / "job" / "0001").glob("*.img")) == ["0.img", "b.img"]
    (ckpt.folder / "finish-b").touch()
    assert second.wait() == 0
    assert dump_job(ckpt, "--leave-running").returncode == 0
    # But not one that had ended when the batch job was started again.
    first.kill()
    shutil.rmtree(ckpt.folder / "job" / "0002")
    shutil.rmtree(ckpt.folder / "job" / "0001")
    env = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "4711", "SLURM_RESTART_COUNT": "1"}
    again = ckpt.run("sh", "-c", COUNT % "finish-a", options=["--job=job", "--member=0", "--continue"], env=env)
    again.wait_lines(1)
    r = dump_job(ckpt, "--leave-running")
    assert r.returncode == 1 and "of the 2 programs of the job, 1 have started" in r.stderr, r.stderr


def test_a_restore_gives_up_without_the_others(ckpt):
    jobs = start_counters(ckpt, "a", "b")
    for job in jobs:
        job.wait_lines(1)
    assert dump_job(ckpt).returncode == 0
    assert [j.wait() for j in jobs] == [85, 85]
    for name, other in ("ab", "ba"):
        alone = ckpt.start("ckpt-restore", ["--job=job", f"--member={name}", "--wait=1s"])
        assert alone.wait() == 1
        assert f"there is no ckpt-restore --job of {other}" in alone.error_text, alone.error_text
    copies = [ckpt.start("ckpt-restore", ["--job=job", f"--member={name}", "--wait=1m"]) for name in "ab"]
    for copy in copies:
        copy.wait_lines(1)


def test_names_of_the_job(ckpt):
    """%j and %t, and what is written wrongly. A percent sign in the folder's name stays one."""
    job = ckpt.run("sh", "-c", COUNT % "finish", options=["--job=100%%/%j", "--member=m%t", "--continue"],
                   env={"SLURM_JOB_ID": "4711", "SLURM_PROCID": "3"})
    job.wait_lines(1)
    assert (ckpt.folder / "100%" / "4711" / "members" / "m3").exists()
    os.kill(job.pid, signal.SIGUSR1)
    assert job.wait() == 85, job.error_text
    (ckpt.folder / "finish").touch()
    again = ckpt.run("sh", "-c", COUNT % "finish", options=["--job=100%%/%j", "--member=m%t", "--continue"],
                     env={"SLURM_JOB_ID": "4711", "SLURM_PROCID": "3"})
    assert again.wait() == 0, again.error_text
    for options, message in [(["--job=%j"], "--job has %j, but none of SLURM_JOB_ID"), (["--job=a", "--member=%q"], "placeholder"),
                             (["--continue"], "--job"), (["--programs=2"], "--job")]:
        wrong = ckpt.run("true", options=options)
        assert wrong.wait() == 125 and message in wrong.error_text, wrong.error_text


def keepers_of(ckpt, name):
    """The PIDs of the tools of this name that the test has started: nsenter becomes one by exec."""
    return [p for j in ckpt.jobs for p in [j.pid, *tree_of(j.pid)]
            if os.path.exists(f"/proc/{p}/comm") and open(f"/proc/{p}/comm").read().strip() == name]


def test_signals_checkpoint_the_whole_job(ckpt, nodes):
    """To one program of it, and after a restore to all of them."""
    n = nodes(2)
    jobs = start_pair(ckpt, n, "--on-signal=TERM,USR2")
    os.kill(keepers_of(ckpt, "ckpt-run")[1], signal.SIGTERM)
    assert [j.wait() for j in jobs] == [85, 85]
    copies = [n[i].start("ckpt-restore", "--job=job", f"--member=node{i + 1}", "--on-signal=TERM,USR2") for i in (0, 1)]
    copies[1].wait_lines(2)
    for pid in keepers_of(ckpt, "ckpt-restore"):
        os.kill(pid, signal.SIGUSR2)
    assert [c.wait() for c in copies] == [86, 86]
    last = [n[i].start("ckpt-restore", "--job=job", f"--member=node{i + 1}") for i in (0, 1)]
    last[1].wait_lines(1)
    ckpt.finish()
    assert [c.wait() for c in last] == [0, 0]


def test_checkpoints_of_the_job_at_intervals(ckpt, nodes):
    """Both programs ask for them, and the job gets one at a time."""
    jobs = start_pair(ckpt, nodes(2), "--every=1s", "--keep=2")
    wait_for(lambda: (ckpt.folder / "job" / "0004" / "decision").exists(), "the fourth checkpoint")
    wait_for(lambda: not (ckpt.folder / "job" / "0002").exists(), "the end of the second one")
    jobs[1].wait_lines(len(jobs[1].lines) + 1)
    ckpt.finish()
    assert [j.wait() for j in jobs[::-1]] == [0, 0]
    assert not any(j.error_text for j in jobs), [j.error_text for j in jobs]


def test_killed_checkpoints_at_intervals_leave_the_job_running(ckpt, nodes):
    """A ckpt-dump that is killed prints no report."""
    jobs = start_pair(ckpt, nodes(2), "--every=1s", env={"CKPT_TEST_STOP_AT": "job-settle"})
    wait_for(lambda: "no image was written" in jobs[0].error_text + jobs[1].error_text, "a killed ckpt-dump")
    jobs[1].wait_lines(len(jobs[1].lines) + 1)
    ckpt.finish()
    assert [j.wait() for j in jobs[::-1]] == [0, 0]


def test_a_job_s_folder_with_a_checkpoint_of_another_program_is_refused(ckpt):
    (first,) = start_counters(ckpt, "a")
    first.wait_lines(2)
    assert dump_job(ckpt).returncode == 0 and first.wait() == 85
    other = ckpt.run("sleep", "1", options=["--job=job", "--member=a", "--continue"])
    assert other.wait() == 125
    assert "holds images of sh -c" in other.error_text and "not of sleep 1" in other.error_text, other.error_text
    (again,) = start_counters(ckpt, "a")
    again.wait_lines(2)
    (ckpt.folder / "finish-a").touch()
    assert again.wait() == 0
