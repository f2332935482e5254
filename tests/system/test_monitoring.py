# SPDX-License-Identifier: Apache-2.0
"""ckpt-history --prometheus and --all-users."""
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, ROOT
from hostile_user import OTHER_UID, UID

HISTORY = BUILD / "tools" / "ckpt-history"
HOST = socket.gethostname()
STRING = r'"(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"([a-z_]+)(\{{[a-z]+={STRING}(?:,[a-z]+={STRING})*\}})? (\S+)")


def parse(text):
    """({(name, (label, value)…): number}, {name: type}) of a text in Prometheus's format 0.0.4, read strictly."""
    samples, types = {}, {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# HELP "):
            helped = words[2]
            assert helped not in types and words[3].endswith("."), line
        elif line.startswith("# TYPE "):
            assert words[2] == helped and (words[3] == "counter") == helped.endswith("_total"), line
            types[helped] = words[3]
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            base = re.sub("_(bucket|sum|count)$", "", name) if types[helped] == "histogram" else name
            assert base == helped, line
            pairs = tuple(sorted((k, v) for k, v in re.findall(rf'([a-z]+)="((?:[^"\\]|\\.)*)"', labels or "")))
            assert (name, pairs) not in samples, "a sample appears twice"
            samples[name, pairs] = float(value)
    return samples, types


class Metrics:
    """The tool with files of this test."""

    def __init__(self, folder):
        self.folder, self.file, self.history = folder, folder / "out" / "ckpt.prom", folder / "history.jsonl"
        self.file.parent.mkdir()

    def tool(self, *words, **more):
        env = {**os.environ, "CKPT_HISTORY": str(self.history), "CKPT_RUNTIME_DIR": str(self.folder)}
        return subprocess.run([HISTORY, *map(str, words)], env=env, capture_output=True, text=True, timeout=60, **more)

    def write(self, *words):
        r = self.tool("--prometheus", self.file, *words)
        assert r.returncode == 0, r.stderr
        assert [p.name for p in self.file.parent.iterdir()] == ["ckpt.prom"]
        assert self.file.stat().st_mode & 0o777 == 0o644  # node_exporter is another user
        self.samples, self.types = parse(self.file.read_text())
        return self

    def value(self, name, **labels):
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def add(self, *events, path=None):
        with open(path or self.history, "a") as f:
            f.writelines(json.dumps({"time": int(time.time()), "host": HOST, "event": "dump", "result": "ok", **e}) + "\n"
                         for e in events)


@pytest.fixture
def metrics(tmp_path):
    return Metrics(tmp_path)


def dumps(m, user="root", result="ok"):
    return m.value("ckpt_dumps_total", user=user, result=result)


@pytest.mark.no_criu
def test_counts_only_grow_while_the_history_is_rotated(metrics):
    m = metrics
    m.add({"stored_bytes": 100, "seconds": 0.3, "pause_seconds": 0.2}, {"result": "failed"}, {"event": "restore", "seconds": 4000})
    m.write()
    assert dumps(m) == 1 and dumps(m, result="failed") == 1 and m.value("ckpt_stored_bytes_total", user="root") == 100
    assert m.value("ckpt_restores_total", user="root", result="ok") == 1
    assert m.value("ckpt_dump_seconds_bucket", le="0.25") == 0 and m.value("ckpt_dump_seconds_bucket", le="0.5") == 1
    assert m.value("ckpt_restore_seconds_bucket", le="1800") == 0 and m.value("ckpt_restore_seconds_bucket", le="+Inf") == 1
    assert m.value("ckpt_restore_seconds_sum") == 4000 and m.value("ckpt_dump_pause_seconds_count") == 1
    m.write()
    assert dumps(m) == 1  # nothing new
    m.add({}, {})
    m.history.rename(f"{m.history}.1")
    m.write()
    assert dumps(m) == 3
    m.add({})
    m.write()
    assert dumps(m) == 4
    with open(m.history, "a") as f:  # a line that is being written
        f.write('{"event": "dump", "result"')
    m.write()
    assert dumps(m) == 4
    with open(m.history, "a") as f:
        f.write(': "ok"}\n')
    m.write()
    assert dumps(m) == 5
    m.history.unlink()
    m.write()
    assert dumps(m) == 5
    # To standard output: what the history holds.
    samples, _ = parse(m.tool("--prometheus", "-").stdout)
    assert samples["ckpt_dumps_total", (("result", "ok"), ("user", "root"))] == 3


@pytest.mark.no_criu
def test_events_of_other_hosts_are_theirs(metrics):
    """A home folder may be on a file system that the nodes share."""
    metrics.add({"host": "another"}, {})
    assert dumps(metrics.write()) == 1


@pytest.mark.no_criu
def test_the_newest_image_of_each_program(metrics, tmp_path):
    m = metrics
    now = int(time.time())
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.ckpt").touch()
    m.add({"program": "/p", "image": f"{tmp_path}/a", "bytes": 9, "stored_bytes": 5, "time": now - 100},
          {"program": "/q", "image": f"{tmp_path}/b", "bytes": 7, "time": now + 10**6}, {"program": "/r", "image": "-", "bytes": 1},
          {"program": "/p", "image": f"{tmp_path}/old", "time": now - 200})
    m.write()
    assert m.value("ckpt_newest_image_timestamp_seconds", user="root", program="/p") == now - 100
    assert m.value("ckpt_newest_image_bytes", user="root", program="/p") == 9
    assert m.value("ckpt_newest_image_stored_bytes", user="root", program="/p") == 5
    assert m.value("ckpt_newest_image_timestamp_seconds", user="root", program="/q") <= time.time()
    assert m.value("ckpt_newest_image_bytes", user="root", program="/r") is None
    (tmp_path / "a" / "index.ckpt").unlink()
    m.write()
    assert m.value("ckpt_newest_image_bytes", user="root", program="/p") is None
    assert m.value("ckpt_newest_image_bytes", user="root", program="/q") == 7


@pytest.mark.no_criu
def test_a_history_of_any_content(metrics, tmp_path):
    m = metrics
    (tmp_path / "a").mkdir()
    (tmp_path / "a/index.ckpt").touch()
    image = {"image": f"{tmp_path}/a"}
    m.add({"program": 'a"b\\c\nd\x1b{}', **image}, {"program": "\ud800é", **image}, {"seconds": 1e300, "bytes": -1, "stored_bytes": 2**64 - 1},
          {"seconds": -1, "pause_seconds": "x", "time": [], "program": {}, **image}, {"event": [], "result": 1}, {"event": "other"},
          *({"program": f"/many/{i}", **image} for i in range(200)))
    deep = b'{"event": "dump", "result": "ok", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}\n"
    m.history.write_bytes(m.history.read_bytes() + b"\xff\xfe\n[1]\nnull\n{\n" + b"[" * 100000 + b"\n" + deep)
    m.write()
    assert dumps(m) == 203 and m.value("ckpt_dump_seconds_count") == 0  # half a surrogate is no JSON
    m.write()
    assert dumps(m) == 203 and m.value("ckpt_stored_bytes_total", user="root") == 2**50
    programs = [labels for name, labels in m.samples if name == "ckpt_newest_image_bytes"]
    assert len(programs) == 50


@pytest.mark.no_criu
def test_a_line_without_an_end_delays_no_later_ones(metrics):
    m = metrics
    with open(m.history, "w") as f:
        f.write("x" * (8 << 20))
    m.write()
    with open(m.history, "a") as f:
        f.write("x\n")
    m.add({})
    m.write()
    assert dumps(m) == 1


@pytest.mark.no_criu
@pytest.mark.parametrize("words", [["--prometheus", "-", "--json"], ["--prometheus", "-", "--last", "1"], ["--homes", "/home"],
                                   ["--prometheus", "-", "--fit"], ["--all-users", "--file", "x"], ["--prometheus"]])
def test_options_that_do_not_fit(metrics, words):
    assert metrics.tool(*words).returncode == 125


@pytest.mark.no_criu
def test_a_file_of_others_is_not_replaced(metrics, tmp_path):
    m = metrics
    for name, make, why in (("text", lambda p: p.write_text("mine\n"), "was not written by ckpt-history"),
                            ("folder", lambda p: p.mkdir(), "is not a regular file"),
                            ("link", lambda p: p.symlink_to(tmp_path / "text"), "cannot read"),
                            ("fifo", lambda p: os.mkfifo(p), "is not a regular file")):
        make(tmp_path / name)
        r = m.tool("--prometheus", tmp_path / name)
        assert r.returncode == 1 and why in r.stderr, r.stderr
    assert (tmp_path / "text").read_text() == "mine\n" and (tmp_path / "link").is_symlink()
    if os.geteuid() == 0:
        m.write()
        os.chown(m.file, UID, UID)
        r = m.tool("--prometheus", m.file)
        assert r.returncode == 1 and "belongs to another user" in r.stderr
    r = m.tool("--prometheus", tmp_path / "absent/x")
    assert r.returncode == 1 and "cannot create" in r.stderr


def home(folder, name, uid, text):
    path = folder / name / ".local/state/ckpt/history.jsonl"
    path.parent.mkdir(parents=True)
    if text is not None:
        path.write_text(text)
    for p in (folder / name, *(folder / name).rglob("*")):
        os.chown(p, uid, uid)
    return path


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the histories of others")


@pytest.fixture
def homes():
    """A folder that all users can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@needs_root
@pytest.mark.no_criu
def test_root_reads_the_histories_of_all_users(metrics, homes):
    m = metrics
    event = json.dumps({"event": "dump", "result": "ok", "host": HOST, "uid": 0, "user": "root", "time": 5, "program": "/x"}) + "\n"
    home(homes, "ada", UID, event * 3).chmod(0o600)
    tricky = home(homes, "bob", OTHER_UID, None)
    m.add({}, {"event": "restore", "result": "failed"})
    m.write("--all-users", "--homes", homes)
    # An event is of the user that the history belongs to.
    assert dumps(m) == 1 and dumps(m, user=str(UID)) == 3 and m.value("ckpt_unreadable_histories") == 0
    listed = json.loads(m.tool("--all-users", "--homes", homes, "--json").stdout)
    assert [e["user"] for e in listed] == [str(UID)] * 3 + ["root"] * 2 and listed[0]["uid"] == UID
    text = m.tool("--all-users", "--homes", homes, "--user", UID).stdout.splitlines()
    assert text[0].split()[:3] == ["TIME", "USER", "WHAT"] and len(text) == 4
    # What a user puts there leads nowhere: a link to another one's file, a FIFO, a file of another user.
    other = homes / "ada/.local/state/ckpt/history.jsonl"
    for make in (lambda: tricky.symlink_to(other), lambda: os.mkfifo(tricky), lambda: tricky.write_text(event), tricky.mkdir):
        make()
        if not tricky.is_symlink():
            os.chown(tricky, 0 if tricky.is_file() else OTHER_UID, 0)
        m.write("--all-users", "--homes", homes)
        assert dumps(m, user=str(OTHER_UID)) is None and m.value("ckpt_unreadable_histories") == 1
        tricky.rmdir() if tricky.is_dir() and not tricky.is_symlink() else tricky.unlink()
    # A folder that leads to another user's: it is opened with the rights of its own user.
    tricky.parent.rmdir()
    tricky.parent.symlink_to(other.parent)
    m.write("--all-users", "--homes", homes)
    assert dumps(m, user=str(OTHER_UID)) is None
    # Where root may not take another user's rights, as in some containers, it reads nothing with its own.
    env = {**os.environ, "CKPT_HISTORY": str(m.history), "CKPT_RUNTIME_DIR": str(m.folder)}
    r = subprocess.run(["setpriv", "--bounding-set=-setuid", HISTORY, "--all-users", "--homes", homes], env=env, capture_output=True, text=True)
    assert f"cannot take the rights of uid {UID} to read {other}" in r.stderr and len(r.stdout.splitlines()) == 1 + 2, r.stderr
    r = m.tool("--all-users", "--homes", homes / "none")
    assert r.returncode == 1 and "--homes" in r.stderr


@needs_root
@pytest.mark.no_criu
def test_other_users_read_their_own_only(metrics):
    for path in (HISTORY, *HISTORY.parents):
        if not path.stat().st_mode & 1:
            pytest.skip("other users cannot reach the tools")
    r = metrics.tool("--all-users", user=UID, group=UID, extra_groups=[], cwd="/")
    assert r.returncode == 1 and "only root may read the histories of all users" in r.stderr


def test_real_dumps_and_restores(ckpt, metrics):
    m = metrics
    ckpt.env["CKPT_HISTORY"] = str(m.history)
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    report = ckpt.dump(job.pid, "a.img", "--leave-running")
    ckpt.dump_refused(1, "b.img")
    env = {**ckpt.env, "CKPT_HISTORY": str(m.history)}
    r = subprocess.run([HISTORY, "--prometheus", m.file], env=env, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    m.samples, _ = parse(m.file.read_text())
    program = os.readlink(f"/proc/{job.program()}/exe")
    assert dumps(m) == 1 and dumps(m, result="failed") == 1
    assert m.value("ckpt_newest_image_bytes", user="root", program=program) == report["bytes"]
    assert m.value("ckpt_stored_bytes_total", user="root") == report["stored_bytes"]
    assert m.value("ckpt_running_programs", user="root", program=program) >= 1
    assert m.value("ckpt_dump_pause_seconds_sum") == pytest.approx(report["pause_seconds"])


@pytest.mark.no_criu
def test_the_man_page_has_every_metric(metrics):
    page = (ROOT / "docs/man/ckpt-history.1.scd").read_text()
    _, types = parse(metrics.tool("--prometheus", "-").stdout)
    assert set(types) == set(re.findall(r"(?:^|, )\*(ckpt_\w+)\*", page, flags=re.M))
