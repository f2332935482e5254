# SPDX-License-Identifier: Apache-2.0
"""The wheel, made of this build folder and installed in virtual environments: from pip to a restored program, over an
upgrade and after the environment is gone."""
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from conftest import BUILD, ROOT, tree_of
from test_opencl import HEAT, bed_environment
from workers import make_once, shared_folder

sys.path.insert(0, str(ROOT / "python" / "backend"))
import ckpt_backend  # noqa: E402
import wheel_file  # noqa: E402

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel's path. Nothing is compiled."""
    folder = shared_folder(tmp_path_factory, "wheel")
    if not shutil.which("patchelf"):
        pytest.skip("there is no patchelf")

    def make():
        try:
            ckpt_backend.pack(BUILD, folder)
        except subprocess.CalledProcessError as error:
            (folder / "skipped").write_text(f"not everything is built: {error}")
        (folder / "made").touch()

    make_once(folder / "made", make)
    if (folder / "skipped").exists():
        pytest.skip((folder / "skipped").read_text())
    return next(folder.glob("*.whl"))


def rebuilt(wheel, folder):
    """A wheel of the same version with another build of everything."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / wheel.name, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename == "libckpt/tree/build-id":
                data = b"0.1.0-another\n"
            if entry.filename.endswith("RECORD"):
                data = re.sub(rb"(libckpt/tree/build-id),.*", rb"\1,,", data)
            new.writestr(entry, data)
    return folder / wheel.name


class Environment:
    """A virtual environment."""

    def __init__(self, folder, wheel, env):
        self.folder, self.env = folder, env
        subprocess.run([PYTHON, "-m", "venv", folder], check=True, env=env, capture_output=True, timeout=200)
        self.install(wheel)

    def install(self, *packages, options=("--force-reinstall",)):
        subprocess.run([self.folder / "bin/pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", *options,
                        *packages], check=True, env=self.env, capture_output=True, timeout=200)

    def run(self, name, *words, **more):
        return subprocess.run([self.folder / "bin" / name, *map(str, words)], env=self.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=100, **more)


@pytest.fixture
def place(ckpt, wheel, monkeypatch):
    """An environment with a home of its own, whose tools `ckpt` uses."""
    for name in ("PYTHONPATH", "XDG_DATA_HOME"):
        ckpt.env.pop(name, None)
    ckpt.env.update(HOME=str(ckpt.folder / "home"), **bed_environment())
    (ckpt.folder / "home").mkdir()
    environment = Environment(ckpt.folder / "venv", wheel, ckpt.env)
    monkeypatch.setattr(ckpt, "tool", lambda name: str(environment.folder / "bin" / name))
    return environment


def builds(ckpt):
    return sorted(p.name for p in (ckpt.folder / "home/.local/share/ckpt/builds").glob("*"))


@pytest.mark.no_criu
def test_what_is_in_the_wheel(wheel):
    assert re.fullmatch(r"libckpt-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    tree = [n.removeprefix("libckpt/tree/") for n in names if n.startswith("libckpt/tree/")]
    assert {f"bin/{t}" for t in ckpt_backend.TOOLS} == {n for n in tree if n.startswith("bin/")}
    assert not [n for n in names if re.search("softcuda|ckptd|ckpt-helper|slurm|-sim|systemd", n)]
    grafted = {os.path.basename(n) for n in tree if "/bundled/" in n or "/own/" in n}
    assert grafted and not [n for n in grafted if re.match("lib(cuda|nvidia|OpenCL|c)\\.so", n)]
    inside = [n for n in tree if re.search(r"/(libckpt|libcuda)[^/]*\.so", n)]
    assert inside and all(re.search(r"/ckpt/[\d.]+/", n) for n in inside)
    assert any(n.endswith("man/man1/ckpt-dump.1") for n in names) and any(n.endswith("licenses/LICENSE") for n in names)


@pytest.mark.no_criu
def test_the_same_contents_make_the_same_wheel(tmp_path):
    for name in ("one", "two"):
        with wheel_file.WheelFile(tmp_path / name, "libckpt-1", "py3-none-any", "Name: libckpt\n") as file:
            file.add_folder(ROOT / "python" / "libckpt", "libckpt")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.no_criu
def test_the_build_id_changes_with_any_byte(tmp_path):
    (tmp_path / "a").write_text("a")
    first = wheel_file.build_id("1", tmp_path)
    assert wheel_file.build_id("1", tmp_path) == first
    (tmp_path / "a").write_text("b")
    assert wheel_file.build_id("1", tmp_path) != first


@pytest.mark.no_criu
def test_everything_that_a_tool_needs_is_in_the_wheel(place, ckpt):
    """Or on every system of its tag. Run with a loader that is asked what it would load."""
    assert place.run("ckpt-run", "true").returncode == 0
    tree = ckpt.folder / "home/.local/share/ckpt/builds" / builds(ckpt)[0]
    system = re.compile(r"/lib(c|m|stdc\+\+|gcc_s|z)\.so\.\d+|/ld-linux.*|/libOpenCL\.so\.1")
    for file in [*tree.glob("bin/*"), *tree.glob("libexec/ckpt/*/*")]:
        said = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
        assert "not found" not in said, f"{file}: {said}"
        for path in re.findall(r"(/\S+) \(0x", said):
            assert path.startswith(str(tree)) or system.search(path), f"{file} loads {path}"


@pytest.mark.full
@pytest.mark.skipif(not HEAT.exists(), reason="the OpenCL parts are not built")
def test_images_survive_an_upgrade_and_the_end_of_the_environment(place, ckpt, wheel):
    job = ckpt.start("ckpt-run", ["--device", "ocl:pthread", "--", HEAT, "--n", "64", "--steps", "10000000", "--report", "50"])
    job.wait_text("step")
    first = builds(ckpt)
    tree = ckpt.folder / "home/.local/share/ckpt/builds" / first[0]
    maps = open(f"/proc/{job.program()}/maps").read()
    assert str(tree) in maps and str(place.folder) not in maps and str(BUILD) not in maps.replace(str(HEAT), "")
    assert [p for p in tree_of(job.pid) if os.readlink(f"/proc/{p}/exe").startswith(f"{tree}/libexec")]
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85

    place.install(rebuilt(wheel, ckpt.folder / "next"))
    copy = ckpt.restore("one")
    copy.wait_text("step")
    assert len(builds(ckpt)) == 2 and set(first) < set(builds(ckpt))
    ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85

    shutil.rmtree(place.folder)
    Environment(place.folder, wheel, ckpt.env)
    last = ckpt.restore("two")
    last.wait_text("step")
    shown = place.run("python3", "-m", "libckpt", "builds").stdout.splitlines()
    assert {os.path.basename(line) for line in shown} == set(builds(ckpt))


def test_a_program_of_python_checkpoints_itself_and_outlives_its_environment(place, ckpt, wheel):
    script = ckpt.folder / "script.py"
    script.write_text("import libckpt as ckpt\nr = ckpt.checkpoint('self', stop=True)\nprint(r.outcome.name, flush=True)\n")
    r = place.run("python3", "-m", "libckpt", "run", script, cwd=ckpt.folder)
    assert r.returncode == 85, r.stdout + r.stderr
    tree = ckpt.folder / "home/.local/share/ckpt/builds" / builds(ckpt)[0]
    shutil.rmtree(place.folder)
    r = subprocess.run([tree / "bin/ckpt-restore", "self"], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, timeout=100)
    assert (r.returncode, r.stdout) == (0, "RESTORED\n"), r.stderr
    Environment(ckpt.folder / "venv", wheel, ckpt.env)
    assert ckpt.restore("self").wait() == 0


@pytest.mark.full
@pytest.mark.no_criu
def test_four_first_uses_at_once_make_one_tree(place, ckpt):
    started = [subprocess.Popen([place.folder / "bin/ckpt-run", "true"], env=ckpt.env, stdin=subprocess.DEVNULL) for _ in range(4)]
    assert [p.wait(100) for p in started] == [0] * 4
    assert len(builds(ckpt)) == 1 and not builds(ckpt)[0].startswith(".")


@pytest.mark.no_criu
def test_a_tree_that_others_can_write_is_not_executed(place, ckpt):
    assert place.run("ckpt-run", "true").returncode == 0
    tree = ckpt.folder / "home/.local/share/ckpt/builds" / builds(ckpt)[0]
    tree.chmod(0o777)
    r = place.run("ckpt-run", "true")
    assert r.returncode == 125 and "others can write it" in r.stderr and "XDG_DATA_HOME" in r.stderr


@pytest.mark.no_criu
def test_a_home_that_cannot_be_written_is_named(place, ckpt):
    place.env["XDG_DATA_HOME"] = "/proc/nowhere"
    r = place.run("ckpt-run", "true")
    assert r.returncode == 125 and "cannot copy ckpt's tools and libraries to /proc/nowhere/ckpt" in r.stderr, r.stderr


@pytest.mark.no_criu
def test_clashes_and_what_root_must_install_are_named(place, ckpt):
    """A package with a script of our name; and no CRIU."""
    site = next((place.folder / "lib").glob("python3*/site-packages"))
    (site / "other-1.dist-info").mkdir()
    (site / "other-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (site / "other-1.dist-info/entry_points.txt").write_text("[console_scripts]\nckpt-dump = other:main\nother = other:main\n")
    (site / "other-1.dist-info/RECORD").write_text("../../../bin/ckpt-dump,,\n../../../bin/other,,\n")
    r = place.run("ckpt-run", "true")
    assert r.returncode == 0 and "the package other has a script ckpt-dump, too" in r.stderr
    assert place.run("ckpt-run", "true").stderr == "", "it is said once"
    place.env["CKPT_CRIU"] = "/nonexistent/criu"
    r = place.run("python3", "-m", "libckpt", "doctor")
    assert r.returncode == 1 and "call python3 -m libckpt dump" in r.stdout
    assert "/nonexistent/criu" in r.stdout and "root installs it" in r.stdout
    assert place.run("python3", "-m", "libckpt", "dump", "--version").stdout.startswith("ckpt-dump ")


@pytest.mark.no_criu
def test_pip_uninstalls_everything_but_what_images_need(place, ckpt):
    assert place.run("ckpt-run", "true").returncode == 0
    place.run("pip", "--disable-pip-version-check", "uninstall", "-y", "libckpt")
    left = [p for p in place.folder.rglob("*ckpt*")]
    assert left == [] and len(builds(ckpt)) == 1
