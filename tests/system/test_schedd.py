# SPDX-License-Identifier: Apache-2.0
"""ckpt-schedd, which steers a real Slurm: jobs are placed, moved to faster nodes, and left to Slurm if it dies."""
import json
import os
import pwd
import re
import subprocess
import sys
import time

import pytest

import accounting
import slurm
from conftest import BUILD, ROOT, wait_for
from test_opencl import devices  # noqa: F401 (a fixture)
from test_slurm import OPTIONS, HeatJob, cluster_of  # noqa: F401 (a fixture)

sys.path.insert(0, str(ROOT / "bench" / "sched"))
import recorded  # noqa: E402

FEATURES = {"n1": "slow", "n2": "fast"}
OPERATOR, OTHER = "daemon", "bin"
LUA = (ROOT / "slurm" / "job_submit.lua").read_text()


@pytest.fixture
def steered(cluster_of):  # noqa: F811
    """steered(grace=…)  a cluster with a fast node and a slow one, and the function that starts a daemon"""
    if slurm.WHY_NOT is not None:
        pytest.skip(slurm.WHY_NOT)
    daemons = []

    def start(grace=60, features=FEATURES, **more):
        assert "local GRACE = 120" in LUA
        cluster = cluster_of(nodes=tuple(features), features=features, lua=LUA.replace("GRACE = 120", f"GRACE = {grace}"), **more)
        log = cluster.folder / "schedd.out"
        (cluster.folder / "schedd").mkdir()
        (cluster.folder / "schedd").chmod(0o777)  # the daemons of these tests have several users
        cluster.state_file = cluster.folder / "schedd" / "jobs.json"

        def daemon(*options, settle=1, **of):
            command = [BUILD / "tools" / "ckpt-schedd", "--classes=fast:1,slow:0.1", "--interval=1", f"--grace={grace}",
                       "--requeue-delay=6", "--megabytes=10", f"--settle={settle}", f"--state={cluster.state_file}", *options]
            p = subprocess.Popen([str(c) for c in command], env=cluster.env, stdin=subprocess.DEVNULL,
                                 stdout=log.open("a"), stderr=subprocess.STDOUT, **of)
            daemons.append(p)
            return p
        cluster.said = lambda: log.read_text() if log.exists() else ""
        return cluster, daemon

    yield start
    for p in daemons:
        p.terminate()
        p.wait(30)


def is_moved_to_a_faster_node(cluster, start_daemon):
    """The fast node is taken when the job comes, so it begins on the slow one. Only the daemon moves it."""
    other = cluster.submit("sleep 1000", "--nodelist=n2", "--cpus-per-task=2", "--mem=200", "--time=20")
    wait_for(lambda: cluster.state(other) == "RUNNING", "the other job")
    p = start_daemon()
    job = HeatJob(cluster, "--comment=ckpt:seconds=60,mb=10,wait=5", steps=15000)
    assert "held" in cluster.field(job.number, "Comment")
    job.computes()
    assert job.node == "n1"
    cluster.run("scancel", other)
    wait_for(lambda: job.node == "n2" and job.state == "RUNNING" or job.has_ended(),
             f"the move: {job.described()} {cluster.said()}")
    assert p.poll() is None and job.restarts == 1, f"{job.described()} {cluster.said()}"
    job.ends_right()
    assert job.restarts == 1 and cluster.said().count(f"job {job.number} is moved") == 1
    planned = re.search(rf"job {job.number} has left its nodes \d+ s after its signal; (\d+\.\d) s were planned", cluster.said())
    assert float(planned[1]) > 5  # its kernels, and the image
    steps = re.findall(r"step (\d+)/", job.output)
    assert steps == sorted(set(steps), key=int)  # none was computed twice


def test_a_job_is_moved_when_a_faster_node_becomes_free(steered):
    is_moved_to_a_faster_node(*steered())


NEEDS_NEWER = pytest.mark.skipif(slurm.WHY_NOT_NEWER is not None, reason=slurm.WHY_NOT_NEWER or "")


@pytest.mark.full
@NEEDS_NEWER
def test_a_job_is_moved_by_a_newer_slurm(steered):
    cluster, daemon = steered(prefix=slurm.NEWER)
    assert "slurm-wlm 24.11" in cluster.run("sinfo", "--version").stdout
    is_moved_to_a_faster_node(cluster, daemon)


@pytest.mark.full
@pytest.mark.skipif(accounting.WHY_NOT is not None, reason=accounting.WHY_NOT or "")
@pytest.mark.parametrize("prefix", [slurm.USUAL, pytest.param(slurm.NEWER, marks=NEEDS_NEWER)], ids=["usual", "newer"])
def test_an_operator_moves_the_jobs_of_others(steered, prefix):
    """The daemon is an ordinary user's, and Slurm shows nobody the jobs of others. With the operator's rights the
    daemon moves them, and has no more rights than that."""
    cluster, daemon = steered(accounting=True, prefix=prefix, more_lines=["PrivateData=jobs,nodes"])
    cluster.accounting.add_user(OPERATOR, "adminlevel=operator")
    cluster.accounting.add_user(OTHER)
    operator = pwd.getpwnam(OPERATOR)

    def as_user(name, *command):
        u = pwd.getpwnam(name)
        return subprocess.run(list(map(str, command)), env=cluster.env, user=u.pw_uid, group=u.pw_gid, extra_groups=[],
                              capture_output=True, text=True)
    is_moved_to_a_faster_node(cluster, lambda: daemon(user=operator.pw_uid, group=operator.pw_gid, extra_groups=[]))
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--hold")
    assert as_user(OTHER, "scontrol", "update", f"JobId={job}", "Comment=x").returncode != 0
    assert str(job) not in as_user(OTHER, "squeue", "-h", "-o", "%i").stdout.split()
    assert as_user(OPERATOR, "scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test").returncode != 0
    cluster.run("scancel", job)


@pytest.mark.full
def test_a_job_is_not_moved_before_its_script_has_started_the_program(steered):
    """The signal would end the script. The fast node becomes free while the script still prepares the program."""
    cluster, daemon = steered()
    other = cluster.submit("sleep 1000", "--nodelist=n2", "--cpus-per-task=2", "--mem=200", "--time=20")
    wait_for(lambda: cluster.state(other) == "RUNNING", "the other job")
    daemon(settle=15)
    job = cluster.submit("sleep 5; echo ready > began; trap 'exit 86' USR2; for i in $(seq 600); do sleep 0.1; done",
                         "--comment=ckpt:seconds=60,mb=10", "--requeue", "--cpus-per-task=2", "--mem=200")
    wait_for(lambda: cluster.state(job) == "RUNNING", "the job")
    cluster.run("scancel", other)
    wait_for(lambda: cluster.field(job, "BatchHost") == "n2" or cluster.state(job) in ("FAILED", "COMPLETED"), "the move", 90)
    assert cluster.state(job) in ("RUNNING", "COMPLETING") and (cluster.jobs / "began").exists(), cluster.said()


@pytest.mark.full
def test_arrays_are_left_to_slurm(steered):
    """job_submit.lua does not hold them. Each is named once."""
    cluster, daemon = steered()
    array = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--array=1-2", "--mem=100")
    wait_for(lambda: cluster.state(array) in ("RUNNING", "COMPLETED"), "Slurm to start the array")
    assert "held" not in cluster.field(array, "Comment")
    held = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1,held", "--array=1-2", "--mem=100", "--begin=now+1000")
    p = daemon()
    wait_for(lambda: f"job {held} is an array or a heterogeneous job; Slurm schedules it" in cluster.said(), "the daemon")
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200")
    wait_for(lambda: f"job {job} starts on n2" in cluster.said(), f"the job: {cluster.said()}")
    assert cluster.said().count(f"job {held} is an array") == 1 and f"job {held} starts" not in cluster.said() and p.poll() is None


@pytest.mark.full
def test_when_the_daemon_dies_slurm_has_its_jobs_after_the_grace_time(steered):
    """Both nodes are taken while the daemon lives, so the job waits. It is killed, and Slurm starts the job."""
    cluster, daemon = steered(grace=20)
    others = [cluster.submit("sleep 1000", f"--nodelist={n}", "--cpus-per-task=2", "--mem=200", "--time=20") for n in FEATURES]
    wait_for(lambda: all(cluster.state(o) == "RUNNING" for o in others), "the other jobs")
    p = daemon()
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200")

    def begins():
        return cluster.run("squeue", "-h", "-j", job, "-o", "%S").stdout.strip()
    first = begins()
    wait_for(lambda: begins() != first, f"the daemon to put off the job's begin: {cluster.said()}", 60)
    assert cluster.state(job) == "PENDING"
    p.kill()
    p.wait()
    for o in others:
        cluster.run("scancel", o)
    wait_for(lambda: cluster.state(job) in ("RUNNING", "COMPLETED"), "Slurm to start the job", 60)
    assert cluster.said() == ""  # the daemon had decided nothing


@pytest.mark.full
def test_a_daemon_that_is_started_again_continues(steered):
    cluster, daemon = steered()
    other = cluster.submit("sleep 1000", "--nodelist=n2", "--cpus-per-task=2", "--mem=200", "--time=20")
    wait_for(lambda: cluster.state(other) == "RUNNING", "the other job")
    first = daemon()
    job = HeatJob(cluster, "--comment=ckpt:seconds=60,mb=10", steps=15000)
    job.computes()
    assert job.node == "n1"
    first.kill()
    first.wait()
    daemon()
    cluster.run("scancel", other)
    wait_for(lambda: job.node == "n2" and job.state == "RUNNING" or job.has_ended(), f"the move: {job.described()} {cluster.said()}")
    job.ends_right()
    assert job.restarts == 1


@pytest.mark.full
def test_dry_run_and_release(steered):
    cluster, daemon = steered()
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200")
    wrong = cluster.submit("sleep 1", "--comment=ckpt:seconds=x", "--cpus-per-task=2", "--mem=200")
    assert daemon("--once", "--dry-run").wait(60) == 0
    assert f"job {job} starts on n2 (fast)" in cluster.said() and cluster.state(job) == "PENDING"
    assert f"job {wrong}: its comment cannot be read (seconds=x is not a number)" in cluster.said()
    assert daemon("--release").wait(60) == 0
    wait_for(lambda: cluster.state(job) in ("RUNNING", "COMPLETED"), "Slurm to start the job")


def owners_daemon(cluster, *options):
    u = cluster.user
    return subprocess.run([BUILD / "tools" / "ckpt-schedd", "--classes=fast:1,slow:0.1", "--once", f"--state={cluster.state_file}", *options], env=cluster.env,
                          user=u.pw_uid, group=u.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=60)


@pytest.mark.full
def test_a_user_can_steer_the_users_own_jobs(steered):
    cluster, _ = steered()
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200")
    r = owners_daemon(cluster)
    assert r.returncode == 0 and f"job {job} starts on n2 (fast)" in r.stdout, r.stderr
    wait_for(lambda: cluster.state(job) in ("RUNNING", "COMPLETED"), "the job to start")
    assert cluster.field(job, "NodeList") == "n2"


@pytest.mark.full
def test_the_jobs_of_others_stop_nothing(steered):
    """A user's daemon sees a tagged job of another user, which Slurm does not let it change."""
    cluster, _ = steered()
    others = subprocess.run(["sbatch", "--parsable", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200"],
                            env=cluster.env, cwd=cluster.folder, input="#!/bin/sh\nsleep 1\n", capture_output=True, text=True)
    assert others.returncode == 0, others.stderr
    other = int(others.stdout)
    job = cluster.submit("sleep 1", "--comment=ckpt:seconds=5,mb=1", "--cpus-per-task=2", "--mem=200")
    r = owners_daemon(cluster)
    assert r.returncode == 0 and re.search(rf"job {job} starts on n\d", r.stdout), r.stderr
    assert f"job {other} is left to Slurm" in r.stderr, r.stderr
    wait_for(lambda: cluster.state(job) in ("RUNNING", "COMPLETED"), "the job to start")
    assert cluster.state(other) == "PENDING"
    cluster.control("update", f"JobId={other}", "StartTime=now")
    wait_for(lambda: cluster.state(other) in ("RUNNING", "COMPLETED"), "the other job to start")


# A core uses all of the memory's bandwidth, so two jobs that only do that take twice as long together.
BANDWIDTHS = {"bandwidths": {"core": 10, "cpu": 10, "memory": 10, "link": 10, "copy": 5}}
MEMORY, COMPUTES = "seconds=600,memory_gb=5700", "seconds=600,memory_gb=0"


@pytest.fixture
def shared(steered):
    """shared(first, second)  as steered, with --share and two nodes of these classes"""
    def start(first, second, **more):
        cluster, daemon = steered(features={"n1": first, "n2": second}, **more)
        node = cluster.folder / "node.json"
        node.write_text(json.dumps(BANDWIDTHS))
        cluster.submit_tagged = lambda tag, *options: cluster.submit(
            "sleep 1000", f"--comment=ckpt:{tag},mb=1", "--cpus-per-task=1", "--mem=100", *options)
        return cluster, lambda *options: daemon(f"--share={node}", *options)
    return start


def run_on(cluster, jobs):
    wait_for(lambda: all(cluster.state(j) == "RUNNING" for j in jobs), f"{jobs} to start: {cluster.said()}")
    return [cluster.field(j, "NodeList") for j in jobs]


def test_jobs_share_nodes_by_what_they_need_of_the_memory(shared):
    """Two jobs that need the memory get different nodes, and one that computes gets a node together with one
    of them. The next one that needs the memory is slowed down. A job without figures waits for a whole node."""
    cluster, daemon = shared("fast", "fast")
    jobs = [cluster.submit_tagged(tag) for tag in (MEMORY, COMPUTES, MEMORY)]
    whole = cluster.submit_tagged("seconds=5")
    wrong = cluster.submit_tagged("seconds=5,memory_gb=much")
    p = daemon("--policy=MCT")
    memory, computes, other = run_on(cluster, jobs)
    assert memory == computes != other, cluster.said()
    late = cluster.submit_tagged(MEMORY)
    assert run_on(cluster, [late]) == [other]
    # 0.95 of its time is in the memory, and so is that of its neighbour: 1 + 0.95 * 0.95.
    wait_for(lambda: f"job {late} takes 1.90 times as long as alone" in cluster.said(), f"its slowdown: {cluster.said()}")
    records = json.loads(cluster.state_file.read_text())
    assert 1.895 < records[str(jobs[2])]["slow"] < 1.905 and "at" in records[str(jobs[2])], records
    assert "slow" not in records[str(jobs[0])], records
    cluster.run("scancel", jobs[2])
    wait_for(lambda: f"job {late} takes 1.00 times as long as alone" in cluster.said(), f"its slowdown: {cluster.said()}")
    assert cluster.state(whole) == "PENDING" and f"job {whole} starts" not in cluster.said()
    complaint = f"job {wrong}: its comment cannot be read (memory_gb=much is not a number); Slurm schedules it"
    assert cluster.said().count(complaint) == 1 and p.poll() is None
    for job in (*jobs[:2], late):
        cluster.run("scancel", job)
    wait_for(lambda: f"job {whole} starts on n" in cluster.said(), f"the job without figures: {cluster.said()}")


@pytest.mark.full
def test_a_job_leaves_a_node_that_it_shares_for_an_empty_one(shared):
    """One node is in use, so both jobs get the other one. When the first node is free again, one of them
    continues there; its progress was counted with its slowdown."""
    cluster, daemon = shared("fast", "fast")
    other = cluster.submit("sleep 1000", "--nodelist=n2", "--cpus-per-task=2", "--mem=200", "--time=120")
    wait_for(lambda: cluster.state(other) == "RUNNING", "the other job")
    job = HeatJob(cluster, f"--comment=ckpt:{MEMORY},mb=10", "--cpus-per-task=1", "--mem=100", steps=15000)
    neighbour = cluster.submit_tagged(MEMORY)
    daemon()
    job.computes()
    run_on(cluster, [neighbour])
    wait_for(lambda: f"job {job.number} takes 1.90 times as long as alone" in cluster.said(), f"its slowdown: {cluster.said()}")
    assert job.node == cluster.field(neighbour, "NodeList") == "n1"
    cluster.run("scancel", other)
    wait_for(lambda: job.node == "n2" and job.state == "RUNNING" or job.has_ended(), f"the move: {job.described()} {cluster.said()}")
    job.ends_right()
    assert job.restarts == 1 and f"job {neighbour} takes 1.00 times as long as alone" in cluster.said()
    assert cluster.field(job.number, "Comment") == f"ckpt:{MEMORY},mb=10,held"  # the owner's


@pytest.mark.full
def test_an_exclusive_job_shares_no_node(shared):
    cluster, daemon = shared("fast", "fast")
    jobs = [cluster.submit_tagged(COMPUTES, *more) for more in (["--exclusive"], [], [])]
    daemon("--policy=MCT")
    alone, one, another = run_on(cluster, jobs)
    assert alone != one == another, cluster.said()


def test_wrong_arguments_are_named(tmp_path):
    """Before Slurm is asked for anything."""
    for options, error in ((["--classes=fast,fast:2"], "--classes: fast is there twice"),
                           (["--classes=fast:0"], 'cannot read "fast:0"'),
                           (["--classes=fast", "--policy=X"], 'there is no policy "X"'),
                           (["--classes=fast", f"--history={tmp_path}/none"], "cannot read the history")):
        r = subprocess.run([BUILD / "tools" / "ckpt-schedd", "--once", *options], capture_output=True, text=True, timeout=60)
        assert r.returncode == 1 and error in r.stderr, r.stderr


def test_share_needs_the_figures_of_a_node(tmp_path):
    """The files of --share are read before Slurm is asked for anything."""
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "poor.json").write_text(json.dumps({"bandwidths": {"core": 0}}))
    (tmp_path / "good.json").write_text(json.dumps(BANDWIDTHS))
    for share, error in ((tmp_path / "bad.json", "is not the output of ckpt-node-bench"),
                         (tmp_path / "none.json", "cannot read"),
                         (f"fast:{tmp_path}/good.json,slow:{tmp_path}/poor.json", 'the bandwidth "core" is missing'),
                         (f"other:{tmp_path}/good.json", "cannot read")):
        r = subprocess.run([BUILD / "tools" / "ckpt-schedd", "--classes=fast:1,slow:0.1", "--once", f"--share={share}"],
                           capture_output=True, text=True, timeout=60)
        assert r.returncode == 1 and f"--share: " in r.stderr and error in r.stderr, r.stderr


# ---- Slurm as scripts, which show what the daemon asks of it


# The daemon's mark, which ends each field, is in the environment. In the files it is @.
SQUEUE = """#!/bin/sh
[ "$1" != --version ] || { echo "slurm $VERSION"; exit; }
[ -z "$SQUEUE_USERS$SQUEUE_STATES" ] || exit 1
if [ -n "$SQUEUE_FORMAT2" ]; then mark=${SQUEUE_FORMAT2#JobID:}; mark=${mark%%,*} file=$QUEUE
else mark=${SQUEUE_FORMAT#%A}; mark=${mark%%\\%x*} file=$QUEUE.excluded; fi
exec sed "s/@/$mark/g" "$file"
"""
SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then
  for n in n1 n2; do
    [ "$n" = "$DRAINED" ] && state=IDLE+DRAIN || state=IDLE
    echo "NodeName=$n Arch=x86_64 CPUAlloc=0 CPUTot=2 ActiveFeatures=fast,$n RealMemory=4000 State=$state Partitions=all,of_$n"
  done
elif echo >>"$CALLS.processes"; [ $# = 0 ]; then
  while read -r line; do echo "scontrol: $line"; echo "$line" >>"$CALLS"; done
else
  echo "$@" >>"$CALLS"
fi
"""


JobFields = {"job_id": "JobID", "job_state": "State", "comment": "Comment", "submit_time": "SubmitTime", "start_time": "StartTime",
             "eligible_time": "EligibleTime", "required_nodes": "ReqNodes", "nodes": "NodeList", "priority": "PriorityLong",
             "state_reason": "Reason", "partition": "Partition", "excluded_nodes": "ExcNodes", "features": "Feature"}


@pytest.fixture
def queue(tmp_path):
    """queue(jobs, options…)  runs one round, and returns what the daemon has asked of Slurm; now: of the fixture's time;
    drained: a node"""
    for name, text in {"squeue": SQUEUE, "scontrol": SCONTROL, "scancel": SCONTROL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    # Of whoever starts the daemon: SQUEUE_USERS and the like make squeue leave out jobs.
    env = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", QUEUE=str(tmp_path / "queue"), CALLS=str(tmp_path / "calls"),
               SQUEUE_USERS="x", SQUEUE_STATES="RUNNING")

    def round(jobs, *options, version="24.11.5", drained="", classes="fast:1"):
        fields = recorded.FIELDS if version >= "24.11" else recorded.FIELDS[:-1]
        jobs = [dict(recorded.USUAL, **{JobFields.get(k, k): v for k, v in j.items()}) for j in jobs]
        (tmp_path / "queue").write_text("".join("@".join(str(j[f]) for f in fields) + "@\n" for j in jobs))
        (tmp_path / "queue.excluded").write_text("".join(f"{j['JobID']}@{j['ExcNodes']}@\n" for j in jobs))
        env.update(VERSION=version, DRAINED=drained)
        (tmp_path / "calls").write_text("")
        (tmp_path / "calls.processes").write_text("")
        r = subprocess.run([str(BUILD / "tools" / "ckpt-schedd"), f"--classes={classes}", *([] if "--release" in options else ["--once"]), f"--state={tmp_path}/state.json",
                            "--history=/dev/null", *options], env=env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        round.said = r.stdout + r.stderr
        return (tmp_path / "calls").read_text()
    round.processes = lambda: (tmp_path / "calls.processes").read_text().count("\n")
    round.now = int(time.time())
    round.job = lambda id, comment, age, count=1, **more: dict(
        {"job_id": id, "job_state": "PENDING", "comment": comment, "submit_time": round.now - age, "start_time": 0,
         "eligible_time": round.now + 100000, "TimeLimit": "10:00", "NumNodes": count, "JobArrayID": id, "Partition": "", "NumTasks": 1,
         "tres-alloc": "cpu=1,mem=100M,node=1", "priority": 10, "state_reason": "BeginTime"}, **more)
    return round


FORGED = ["placed=999999999999", "placed=999999999999,until=999999999999", "leaving=999999999999", "at=1,slow=1000000", "done=1"]


@pytest.mark.parametrize("forged", FORGED)
def test_a_comment_takes_no_nodes_from_others(queue, forged):
    """Another user's job says that it was placed on all nodes, and the like."""
    hostile = queue.job(1, f"ckpt:seconds=60,held,{forged}", 20, 2, required_nodes="n1,n2")
    mine = queue.job(2, "ckpt:seconds=60,held", 10)
    asked = queue([hostile, mine])
    assert "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked
    assert "Comment=" not in asked
    # A running one is where Slurm says that it is.
    hostile = queue.job(1, f"ckpt:seconds=60,held,{forged}", 20, job_state="RUNNING", nodes="n1", start_time=queue.now - 5)
    asked = queue([hostile, queue.job(3, "ckpt:seconds=60,held", 10)])
    assert "JobId=3 StartTime=now ReqNodeList=n2" in asked, asked


@pytest.mark.parametrize("why", [{"priority": 0, "state_reason": "JobHeldUser"}, {"state_reason": "Dependency"},
                                 {"state_reason": "QOSMaxJobsPerUserLimit"}], ids=["held", "dependency", "limit"])
def test_a_job_that_slurm_does_not_start_takes_no_nodes_from_others(queue, why):
    blocked = queue.job(1, "ckpt:seconds=60,held", 20, 2, **why)
    asked = queue([blocked, queue.job(2, "ckpt:seconds=60,held", 10)])
    assert "JobId=1 StartTime=now ReqNodeList=n" not in asked and "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked


@pytest.mark.parametrize("drained", ["n1", "n2"])
def test_a_job_keeps_its_other_nodes_when_one_is_drained(queue, drained):
    """One that runs on both, and one that was placed there. Slurm could start no other job there."""
    runs = queue.job(1, "ckpt:seconds=600,held", 20, 2, job_state="RUNNING", nodes="n1,n2", start_time=queue.now - 60)
    asked = queue([runs, queue.job(2, "ckpt:seconds=60,held", 10)], drained=drained)
    assert "JobId=2 StartTime=now ReqNodeList=n" not in asked and "USR2" not in asked, asked
    placed = queue.job(3, "ckpt:seconds=600,held", 20, 2)
    assert "JobId=3 StartTime=now ReqNodeList=n1,n2" in queue([placed])
    placed.update(required_nodes="n1,n2", eligible_time=queue.now)
    asked = queue([placed, queue.job(2, "ckpt:seconds=60,held", 10)], drained=drained)
    assert "JobId=2 StartTime=now ReqNodeList=n" not in asked, asked


@pytest.mark.parametrize("demand", [{"partition": "of_n2"}, {"excluded_nodes": "n1"}, {"features": "fast&n2"}],
                         ids=["partition", "exclude", "constraint"])
def test_a_job_starts_only_where_slurm_lets_it_start(queue, demand):
    """Also when the only such node is taken: then it waits, and takes no other."""
    mine = queue.job(1, "ckpt:seconds=60,held", 20, **demand)
    any = queue.job(2, "ckpt:seconds=60,held", 10)
    asked = queue([mine, any])
    assert "JobId=1 StartTime=now ReqNodeList=n2" in asked and "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked
    on_n2 = queue.job(3, "", 30, job_state="RUNNING", nodes="n2", start_time=queue.now - 5)
    asked = queue([queue.job(4, "ckpt:seconds=60,held", 20, **demand), queue.job(5, "ckpt:seconds=60,held", 10), on_n2])
    assert "JobId=4 StartTime=now ReqNodeList=n" not in asked and "JobId=5 StartTime=now ReqNodeList=n1" in asked, asked


def test_a_constraint_that_is_not_understood_is_left_to_slurm(queue):
    asked = queue([queue.job(1, "ckpt:seconds=60,held", 20, features="[n1|n2]"), queue.job(2, "ckpt:seconds=60,held", 10)])
    assert "JobId=1" not in asked and "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked
    # Slurm has started it: its node is in use.
    runs = queue.job(1, "ckpt:seconds=60,held", 20, features="[n1|n2]", job_state="RUNNING", nodes="n1", start_time=queue.now - 5)
    asked = queue([runs, queue.job(3, "ckpt:seconds=60,held", 10)])
    assert "JobId=3 StartTime=now ReqNodeList=n2" in asked, asked


def test_nodes_that_an_older_squeue_does_not_print(queue):
    """22.05's squeue --Format has no field for the nodes that a job excludes."""
    asked = queue([queue.job(1, "ckpt:seconds=60,held", 20, excluded_nodes="n1"), queue.job(2, "ckpt:seconds=60,held", 10)],
                  version="22.05.8")
    assert "JobId=1 StartTime=now ReqNodeList=n2" in asked and "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked


@pytest.mark.parametrize("separator", ["|", "\t", " ", "\\0", "%"])
def test_a_comment_makes_no_job(queue, separator):
    """It contains what looks like jobs: one that uses n1, and one of the next user, which is held."""
    forged = "\n".join(separator.join([str(i), str(i), state, *["0"] * 18, ""]) for i, state in ((8, "RUNNING"), (2, "PENDING")))
    hostile = queue.job(1, f"ckpt:seconds=60,held\n{forged}\n", 20)
    asked = queue([hostile, queue.job(2, "ckpt:seconds=60,held", 10)])
    assert "JobId=2 StartTime=now ReqNodeList=n1" in asked and "JobId=8" not in asked and "JobId=1 " not in asked, asked


@pytest.mark.parametrize("array", ["1_[1-50%5]", "1_3", "1+0"])
def test_parts_of_arrays_and_heterogeneous_jobs_are_left_to_slurm(queue, array):
    part = queue.job(1, "ckpt:seconds=60,held", 20, JobArrayID=array)
    asked = queue([part, queue.job(2, "ckpt:seconds=60,held", 10)])
    assert "JobId=1 " not in asked and "JobId=2 StartTime=now ReqNodeList=n1" in asked, asked
    assert "job 1 is an array or a heterogeneous job; Slurm schedules it" in queue.said
    # Where Slurm has started it, its node is in use.
    part.update(job_state="RUNNING", nodes="n1", start_time=queue.now - 5)
    assert "JobId=3 StartTime=now ReqNodeList=n2" in queue([part, queue.job(3, "ckpt:seconds=60,held", 10)])


def test_a_round_says_how_long_its_parts_take(queue):
    queue([queue.job(1, "ckpt:seconds=60,held", 20)], "--times")
    part = r"\d+\.\d{3} \(\d+\.\d{3}\)"
    assert re.search(rf"^a round of 2 nodes and 1 jobs, in seconds: read {part}, parse {part}, plan {part}, write {part}$", queue.said, re.M)
    queue([queue.job(1, "ckpt:seconds=60,held", 20)])
    assert "a round of" not in queue.said


@pytest.mark.parametrize("share", ["0", "0.5"])
def test_rounds_of_large_clusters_are_measured(share):
    r = subprocess.run([ROOT / "bench" / "sched" / "round", "--build", BUILD, "--size=40x200", "--rounds=1", f"--share={share}"],
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and re.search(r"^\| 40 \| 200 \| .* \| \d", r.stdout, re.M), r.stdout + r.stderr


def test_what_the_daemon_has_done_is_known_to_the_next_one(queue):
    """The second one finds the job placed, and leaves it where it is. If its owner has changed the nodes, it is placed again."""
    job = queue.job(1, "ckpt:seconds=60,held", 20)
    assert "JobId=1 StartTime=now ReqNodeList=n1" in queue([job])
    job.update(required_nodes="n1", eligible_time=queue.now)
    assert queue([job]) == ""
    job.update(required_nodes="n1,n2")
    assert "JobId=1 StartTime=now ReqNodeList=n1" in queue([job])


def test_a_job_that_has_not_begun_is_not_moved(queue):
    """It was placed on the slow node, and the fast one becomes free before Slurm has started it. A signal would find no process."""
    classes = "n1:0.1,n2:1"
    other = queue.job(2, "", 30, job_state="RUNNING", nodes="n2", start_time=queue.now - 5, TimeLimit="10:00:00")
    job = queue.job(1, "ckpt:seconds=60,mb=1,held", 20)
    assert "JobId=1 StartTime=now ReqNodeList=n1" in queue([job, other], classes=classes)
    job.update(required_nodes="n1", eligible_time=queue.now)
    assert queue([job], classes=classes) == "" and "is moved" not in queue.said
    job.update(job_state="RUNNING", nodes="n1", required_nodes="n1", start_time=queue.now - 60)
    assert "--signal=USR2 1" in queue([job], classes=classes) and "job 1 is moved" in queue.said


def test_one_scontrol_holds_all_jobs_of_a_round_and_one_starts_them(queue):
    """What may not be held is not planned, so there are two."""
    jobs = [queue.job(i, "ckpt:seconds=60,held", 100 - i, eligible_time=queue.now) for i in range(1, 7)]
    asked = queue(jobs, "--policy=MCT").splitlines()
    assert sorted(asked) == sorted([*(f"update JobId={i} StartTime=now ReqNodeList=n{i}" for i in (1, 2)),
                                    *(f"update JobId={i} ReqNodeList= StartTime=now+120" for i in range(1, 7))]), asked
    assert queue.processes() == 2


def test_the_note_of_a_checkpoint_outlives_the_daemon(queue):
    note = "[ckpt: exit code 86: checkpointed to /images/1.img, not failed; it continues when it is released]"
    asked = queue([queue.job(1, f"ckpt:seconds=60,held {note}", 20)], "--release")
    assert f"Comment=ckpt:seconds=60 {note}\n" in asked, asked
