# SPDX-License-Identifier: Apache-2.0
"""Users without root: they dump and restore their own programs by ckpt-helper, or with capabilities of
their own; root does it for them. Everything runs as a real other user."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BUILD, Job, image_manifest, tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from hostile_user import criu_for_users  # noqa: F401
from rootless import (HELPER, OTHER, UID, User, answers, as_user, ask, assert_is_users, dump_request,  # noqa: F401
                      helper, needs_helper, refused, root, status, user)
from test_opencl import OPENCL, devices  # noqa: F401 (devices is a fixture)

pytestmark = needs_helper


def test_a_user_dumps_and_restores_by_the_helper(user, helper, blocker):
    """With the PID free, and again with it taken; a TCP listener, UDP and threads."""
    job, (*ports, pid) = user.server()
    before = answers(ports)
    user.dump(job.pid, "one.img")
    assert job.wait() == 85
    restored = user.restore("one.img")
    assert answers(ports) > before
    assert_is_users(restored)
    user.dump(restored, "two.img")
    blocker.take(pid)
    again = user.restore("two.img")
    assert min(answers(ports)) > max(before)
    assert_is_users(again)
    assert int(status(again)["NSpid"][-1]) == pid


def test_ckpt_restore_names_the_program_that_the_helper_restored(user, helper):
    """By the tool's own PID, which a user sees in the shell."""
    job, _ = user.server()
    user.dump(job.pid, "one.img")
    assert job.wait() == 85
    copy = user.start("ckpt-restore", "one.img")
    wait_for(lambda: any(p for p in helper.workers() if status(p)["Name"] == ["python3"]), "the program")
    user.dump(copy.pid, "two.img")
    assert copy.wait() == 85, copy.error_text
    assert_is_users(user.restore("two.img"))


def test_the_exit_code_and_the_output_of_a_program_restored_by_the_helper(user, helper):
    script = "import time; print('a', flush=True); time.sleep(1.5); print('b', flush=True); raise SystemExit(42)"
    job = user.run("/usr/bin/python3", "-c", script)
    job.wait_lines(1)
    user.dump(job.pid, "a.img")
    copy = user.start("ckpt-restore", "a.img")
    assert copy.wait() == 42, copy.error_text
    assert copy.lines == ["b"]
    wait_for(lambda: not helper.workers(), "the end of the helper's processes")


def test_a_signal_to_ckpt_restore_ends_what_the_helper_restored(user, helper):
    job, (*ports, pid) = user.server()
    user.dump(job.pid, "a.img")
    copy = user.start("ckpt-restore", "a.img")
    wait_for(lambda: any(p for p in helper.workers() if status(p)["Name"] == ["python3"]), "the program")
    answers(ports)
    copy.process.send_signal(signal.SIGTERM)
    # The program answers a moment before ckpt-restore knows that it runs.
    assert copy.wait() in (-signal.SIGTERM, 1), copy.error_text
    assert copy.process.returncode != 1 or "cancelled by signal 15" in copy.error_text
    wait_for(lambda: not helper.workers(), "the end of the helper's processes")


def test_a_user_with_the_capability_needs_no_helper(user):
    job, (*ports, pid) = user.server()
    before = answers(ports)
    user.dump(job.pid, "a.img", capabilities=["checkpoint_restore"])
    assert job.wait() == 85
    restored = user.restore("a.img", capabilities=["checkpoint_restore"])
    assert restored == pid
    assert answers(ports) > before
    assert_is_users(restored)


def test_root_dumps_and_restores_a_users_program(user, root, helper):
    job, (*ports, pid) = user.server()
    before = answers(ports)
    r = root("ckpt-dump", job.pid, "-o", "a.img")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    assert image_manifest(user.folder / "a.img")["manifest"]["owner"]["uid"] == UID
    said = refused(root("ckpt-restore", "--every", "1s", "a.img"))
    assert f"root cannot use --every for a program of uid {UID}" in said
    r = root("ckpt-restore", "--detach", "a.img")
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    assert answers(ports) > before
    assert "was restored by root" in refused(user.tool("ckpt-dump", r.stdout.strip()))
    assert_is_users(r.stdout.strip())
    r = root("ckpt-dump", r.stdout.strip(), "-o", "b.img")
    assert r.returncode == 0, r.stderr


CONNECTED = """
import socket, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(1)
a = socket.create_connection(listener.getsockname()); b, _ = listener.accept()
print("ready", flush=True)
for n in range(10**9):
    a.sendall(b"x"); assert b.recv(1) == b"x"
    open("count", "w").write(str(n))
    time.sleep(0.02)
"""


def test_a_users_tcp_connections_need_root(user, helper, root):
    """Refused for the user, by the helper and with the capability; root dumps and restores them."""
    job = user.run("/usr/bin/python3", "-c", CONNECTED)
    job.wait_lines(1)
    for capabilities in ([], ["checkpoint_restore"]):
        said = refused(user.tool("ckpt-dump", job.pid, "-o", "a.img", capabilities=capabilities))
        assert "TCP connections" in said and "run this as root" in said
    r = root("ckpt-dump", job.pid, "-o", "a.img")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    (user.folder / "count").unlink()
    r = root("ckpt-restore", "--detach", "a.img")
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    wait_for((user.folder / "count").exists, "the copy to go on")
    assert_is_users(r.stdout.strip())
    subprocess.run(["chown", "-R", str(UID), user.folder / "a.img"], check=True)
    said = refused(user.tool("ckpt-restore", "a.img"))
    assert "TCP connections" in said and "run this as root" in said


def test_what_root_has_started_for_a_user_stays_root_s(user, root, criu_for_users):
    """CRIU works as root then: the program may have files, and live in folders, that its user cannot reach."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-root-"))
    user.env.update(CKPT_RUNTIME_DIR=str(folder), CKPT_CRIU=criu_for_users)
    script = "import time; print('ready', flush=True)\nwhile True: time.sleep(0.1)"
    job = Job([BUILD / "tools" / "ckpt-run", "--", *as_user(), "/usr/bin/python3", "-c", script], env=user.env, cwd=folder)
    user.jobs.append(job)
    job.wait_lines(1)
    image = folder / "a.img"
    r = root("ckpt-dump", job.pid, "-o", image)
    assert r.returncode == 0, r.stderr
    assert "owner" not in image_manifest(image)["manifest"]
    shutil.copytree(image, user.folder / "mine.img")
    subprocess.run(["chown", "-R", str(UID), user.folder / "mine.img"], check=True)
    said = refused(user.tool("ckpt-restore", "mine.img", capabilities=["checkpoint_restore"]))
    assert "does not name you as the only user of the program: run this as root" in said
    said = refused(root("ckpt-restore", "--detach", image))
    assert f"names no owner, and its processes belong to uid {UID}" in said and "add --as-root" in said, said
    r = root("ckpt-restore", "--detach", "--as-root", image)
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    assert_is_users(r.stdout.strip())
    shutil.rmtree(folder)


@pytest.fixture
def objects(user, devices):  # noqa: F811
    """A user's OpenCL program on PoCL, which goes on when the file `go` is there."""
    env, here = devices
    for name in ("OCL_ICD_VENDORS", "RUSTICL_ENABLE", "POCL_DEVICES"):
        user.env[name] = env[name]
    user.env["CKPT_TEST_GO"] = str(user.folder / "go")
    job = user.run(OPENCL / "ocl-objects", options=["--device", here["pocl"]])
    job.wait_text("READY")
    return job


@pytest.mark.parametrize("by_root", [False, True], ids=["user", "root"])
def test_a_users_opencl_program_moves_to_another_device(user, helper, root, devices, objects, by_root):  # noqa: F811
    _, here = devices
    tool = root if by_root else user.tool
    r = tool("ckpt-dump", objects.pid, "-o", "objects.img")
    assert r.returncode == 0, r.stderr
    assert objects.wait() == 85
    (user.folder / "go").touch()
    r = tool("ckpt-restore", "--device", here["rusticl"], "objects.img")
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[-1] == "OK"


def uids_of(name, ended):
    """The uids of all processes of this name until `ended` is set."""
    uids = set()
    while not ended.is_set():
        for entry in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":\t", 1) for line in entry.read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            if fields.get("Name") == name:
                uids.add(int(fields["Uid"].split()[1]))
    return uids


def test_root_resumes_a_users_program_on_a_device_that_the_user_finds(user, root, devices, objects):  # noqa: F811
    """Drivers run as the user: their settings and caches are those of that account."""
    _, here = devices
    assert root("ckpt-dump", "--suspend", objects.pid).returncode == 0
    ended = threading.Event()
    with ThreadPoolExecutor(1) as watcher:
        seen = watcher.submit(uids_of, "ckpt-ocl-proxy", ended)
        r = root("ckpt-restore", "--resume", objects.pid, "--device", here["rusticl"])
        ended.set()
    assert r.returncode == 0, r.stderr
    assert seen.result() == {UID}
    (user.folder / "go").touch()
    assert objects.wait() == 0, objects.error_text
    assert objects.lines[-1] == "OK"


def test_root_s_history_has_what_root_does_with_users_programs(user, root, devices, objects, tmp_path):  # noqa: F811
    """Root's tools are processes of the user by then, which cannot write root's file."""
    _, here = devices
    tmp_path.chmod(0o700)
    history = tmp_path / "history.jsonl"
    user.env["CKPT_HISTORY"] = str(history)
    for tool in (("ckpt-dump", "--suspend", objects.pid), ("ckpt-restore", "--resume", objects.pid, "--device", here["rusticl"]),
                 ("ckpt-dump", objects.pid, "-o", "objects.img"), ("ckpt-restore", "--device", here["rusticl"], "objects.img")):
        if tool[-1] == "objects.img" and tool[0] == "ckpt-restore":
            (user.folder / "go").touch()
        r = root(*tool)
        assert r.returncode == 0, (tool, r.stderr)
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert [(e["event"], e["result"], e["uid"]) for e in lines] == [(name, "ok", 0) for name in ("suspend", "resume", "dump", "restore")]
    assert history.stat().st_uid == 0


@pytest.mark.skipif(not NVCC or not RUN.exists(), reason="there is no CUDA toolkit or no software device")
@pytest.mark.parametrize("by_root", [False, True], ids=["user", "root"])
def test_a_users_cuda_program_moves_to_another_device(user, helper, root, make, by_root):  # noqa: F811
    program = user.folder / "steps"
    shutil.copy(make("steps.cu"), program)
    user.env.update(CKPT_SOFTCUDA="2x256M", CUDA_MODULE_LOADING="LAZY")
    plain = user.run(program)
    assert plain.wait() == 0, plain.error_text
    pause = user.folder / "pause"
    pause.touch()
    job = user.run(program)
    job.wait_lines(1)
    tool = root if by_root else user.tool
    r = tool("ckpt-dump", job.pid, "-o", "steps.img")
    assert r.returncode == 0, r.stderr
    pause.unlink()
    r = tool("ckpt-restore", "--device", "cuda:1", "steps.img")
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[-2:] == plain.lines[-2:]


def test_images_at_intervals_by_the_helper(user, helper):
    script = "import time\nwhile True: time.sleep(0.1)"
    job = user.run("/usr/bin/python3", "-c", script, options=["--every", "1s", "--keep", "1"])
    wait_for(lambda: len(list(user.folder.glob("*-0002.img"))) == 1, "the second image")
    assert job.process.poll() is None
    image = wait_for(lambda: [i for i in user.folder.glob("*.img") if (i / "index.ckpt").exists()], "an image")[-1]
    assert image.stat().st_uid == UID


def test_a_program_checkpoints_itself_by_the_helper(user, helper):
    """Before a restore, and after it: the helper then enters the namespace that it has made."""
    library = BUILD / "libckpt" / "libckpt.so.1"
    if not library.exists():
        pytest.skip("libckpt is not built")
    script = f"""
import ctypes, sys
ckpt = ctypes.CDLL({str(library)!r})
for image in (b"one.img", b"two.img"):
    print(image.decode(), ckpt.ckpt_checkpoint(image, 0, None), flush=True)
print("end", flush=True)
"""
    job = user.run("/usr/bin/python3", "-c", script)
    assert job.wait() == 0, job.error_text
    assert job.lines[-1] == "end" and (user.folder / "two.img" / "index.ckpt").exists(), job.text
    copy = user.start("ckpt-restore", "one.img")
    copy.wait()
    assert copy.lines[-1:] == ["end"], copy.text + copy.error_text


# ---- refusals


def test_without_a_helper_the_message_says_what_to_do(user):
    job, _ = user.server()
    said = refused(user.tool("ckpt-dump", job.pid))
    assert "CAP_CHECKPOINT_RESTORE" in said and "ckpt-helper.socket" in said
    assert job.process.poll() is None


def test_a_program_of_another_user_is_refused(user, helper):
    job, (*ports, _) = user.server()
    other = User(OTHER)
    other.env["CKPT_HELPER"] = helper.socket
    try:
        said = refused(other.tool("ckpt-dump", job.pid))
        assert "ckpt-dump: error" in said
        # The helper itself, too.
        program = next(p for p in tree_of(job.pid) if status(p)["Name"] == ["python3"])
        what, _ = ask(helper, dump_request(program), OTHER)
        assert f"belongs to uid {UID}" in what
        answers(ports)
    finally:
        other.close()


def test_an_image_of_another_user_is_refused(user, helper):
    job, _ = user.server()
    user.dump(job.pid, "a.img")
    other = User(OTHER)
    other.env["CKPT_HELPER"] = helper.socket
    try:
        image = user.folder / "a.img"
        assert "Permission denied" in refused(other.tool("ckpt-restore", image))
        shutil.copytree(image, other.folder / "a.img")
        subprocess.run(["chown", "-R", str(OTHER), other.folder / "a.img"], check=True)
        assert f"belongs to uid {UID}" in refused(other.tool("ckpt-restore", "a.img"))
    finally:
        other.close()


def test_what_a_user_cannot_restore(user, blocker):
    """With the capability alone, and without a helper: into a taken PID, and with other groups."""
    capability = ["checkpoint_restore"]
    job, (*_, pid) = user.server()
    user.dump(job.pid, "a.img", capabilities=capability)
    assert job.wait() == 85
    command = user.command("ckpt-restore", "a.img", capabilities=capability)
    command[command.index("--clear-groups")] = "--groups=61236"
    r = subprocess.run(command, env=user.env, cwd=user.folder, capture_output=True, text=True, timeout=60)
    assert "the program's groups differ from yours" in refused(r)
    blocker.take(pid)
    assert "the program needs a PID namespace" in refused(user.tool("ckpt-restore", "a.img", capabilities=capability))


def test_a_program_with_capabilities_is_refused(user):
    """Even to a tool with the same capabilities, which sees more of it than others."""
    job = Job([*as_user(UID, ["net_raw"]), BUILD / "tools" / "ckpt-run", "--", "sleep", "1000"], env=user.env)
    user.jobs.append(job)
    wait_for(lambda: [p for p in tree_of(job.pid) if status(p)["Name"] == ["sleep"]], "sleep")
    assert "a process of the program has another user" in refused(
        user.tool("ckpt-dump", job.pid, capabilities=["net_raw", "checkpoint_restore"]))


def test_a_folder_that_the_user_cannot_write_to_is_refused(user, helper):
    job, _ = user.server()
    assert "not writable" in refused(user.tool("ckpt-dump", job.pid, "-o", "/usr/a.img"))


def test_a_tree_with_a_setuid_program_is_refused(user, helper):
    sleeper = user.folder / "sleep"
    shutil.copy("/bin/sleep", sleeper)
    os.chown(sleeper, 0, 0)
    sleeper.chmod(0o4755)
    job = user.run("sh", "-c", f"{sleeper} 1000 & echo started; wait")
    job.wait_lines(1)
    try:
        root_owned = wait_for(lambda: [p for p in tree_of(job.pid) if status(p)["Uid"][1] == "0"], "a setuid program")
        assert "has the rights of uid 0" in refused(user.tool("ckpt-dump", job.pid))
        shell = int(status(root_owned[0])["PPid"][0])
        what, _ = ask(helper, dump_request(shell), UID)
        assert "belongs to uid 0" in what
    finally:
        for p in tree_of(job.pid):
            os.kill(p, signal.SIGKILL)


# ---- its own rights


@pytest.mark.parametrize("name", ["setuid", "setgid", "setpcap", "sys_admin", "sys_chroot", "sys_ptrace",
                                  "checkpoint_restore", "dac_override"])
def test_the_helper_names_the_capability_that_it_lacks(tmp_path, name):
    r = subprocess.run(["setpriv", f"--bounding-set=-{name}", str(HELPER), "--socket", str(tmp_path / "s"), "--folder",
                        str(tmp_path / "run")], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and f"CAP_{name.upper()}" in r.stderr


def test_the_helper_gives_up_what_it_does_not_need(helper):
    names = {1: "dac_override", 3: "fowner", 6: "setgid", 7: "setuid", 8: "setpcap", 18: "sys_chroot", 19: "sys_ptrace", 21: "sys_admin",
             40: "checkpoint_restore"}

    def capabilities(kind):
        return {b for b in range(64) if int(status(helper.process.pid)[kind][0], 16) >> b & 1}

    # Its socket is there before it gives them up.
    wait_for(lambda: capabilities("CapPrm") == set(names) - {3}, lambda: f"its capabilities: {capabilities('CapPrm')}")
    # Only while a request enters a control group.
    wait_for(lambda: capabilities("CapEff") == set(names) - {1, 3}, lambda: f"its capabilities: {capabilities('CapEff')}")


def test_a_criu_that_others_can_change_is_refused(tmp_path):
    shutil.copy("/bin/true", tmp_path / "criu")
    (tmp_path / "criu").chmod(0o777)
    r = subprocess.run([str(HELPER), "--criu", str(tmp_path / "criu"), "--socket", str(tmp_path / "s")],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "users other than root can change" in r.stderr


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="there is no systemd")
def test_started_by_a_socket(user):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    path = folder / "s"
    activator = Job(["systemd-socket-activate", "-l", path, str(HELPER), "--folder", str(folder / "run")])
    try:
        wait_for(path.exists, "the socket")
        path.chmod(0o666)
        user.env["CKPT_HELPER"] = str(path)
        job, (*ports, _) = user.server()
        user.dump(job.pid, "a.img", "--leave-running")
        answers(ports)
    finally:
        activator.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_the_units_are_valid(tmp_path):
    for name in ("ckpt-helper.service", "ckpt-helper.socket"):
        text = (BUILD / "helper" / name).read_text()
        lines = [f"ExecStart={HELPER}" if line.startswith("ExecStart=") else line for line in text.splitlines()]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "ckpt-helper.service",
                        tmp_path / "ckpt-helper.socket"], capture_output=True, text=True, timeout=60)
    said = [line for line in (r.stdout + r.stderr).splitlines() if "ckpt-helper" in line]
    assert r.returncode == 0 and said == []


def test_a_program_restored_by_the_helper_is_listed_and_dumped_like_others(user, helper, root):
    job, _ = user.server()
    user.dump(job.pid, "one.img")
    assert job.wait() == 85
    restored = user.restore("one.img")
    for tool in (user.tool, root):
        (listed,) = [p for p in json.loads(tool("ckpt-ps", "--json", "--user", user.uid).stdout)]
        assert (listed["pid"], listed["state"]) == (restored, "running") and listed["resident_bytes"] > 0
    (user.folder / "all").mkdir()
    os.chown(user.folder / "all", user.uid, user.uid)
    r = user.tool("ckpt-dump", "--all", "--output", user.folder / "all")
    assert r.returncode == 0 and "1 dumped, 0 failed" in r.stdout, r.stdout + r.stderr
