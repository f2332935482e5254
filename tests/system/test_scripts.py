# SPDX-License-Identifier: Apache-2.0
"""Scripts of the tree: what ./demo draws, and how scripts/setup installs packages."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import ROOT

pytestmark = pytest.mark.no_criu

STEPS = [{"name": "quiesce", "start": 0, "seconds": 0.1}, {"name": "criu", "start": 0.1, "seconds": 0.3}]


def test_the_picture_of_a_move_says_what_its_steps_do(tmp_path):
    """A dump and a restore have steps of the same name."""
    (tmp_path / "times").write_text("start 0\nend 4\nreference_start 0\nreference_end 3\ndump_start 1\nrestore_start 2\n")
    for run in ("heat", "reference"):
        (tmp_path / f"{run}.log.stamps").write_text("0.5 step 1/2\n2.9 step 2/2\n")
    (tmp_path / "dump.json").write_text(json.dumps({"phases": STEPS, "bytes": 4 << 20, "stored_bytes": 1 << 20}))
    (tmp_path / "restore.json").write_text(json.dumps({"phases": STEPS[1:], "seconds": 0.5}))
    subprocess.run([ROOT / "scripts" / "demo" / "timeline", "--from", "a", "--to", "b", tmp_path, tmp_path / "svg"], check=True)
    labels = [line.split(">")[1].split("<")[0] for line in (tmp_path / "svg").read_text().splitlines() if "<text" in line]
    named = {labels[i + 1] for i, text in enumerate(labels) if text == "criu"}
    assert named == {"save host memory", "restore host memory"}


@pytest.mark.skipif(not shutil.which("dpkg-parsechangelog"), reason="there is no dpkg-dev")
def test_a_version_is_set_wherever_it_stands(tmp_path):
    named = ["meson.build", "python/libckpt/_version.py", "packages/rpm/ckpt.spec", "packages/spack/packages/ckpt/package.py",
             "debian/control.in", "debian/changelog", "debian/rules", "scripts/set-version",
             *(str(p.relative_to(ROOT)) for p in (ROOT / "docs/man").glob("*.scd"))]
    for name in named:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def set_version(version):
        return subprocess.run([tmp_path / "scripts/set-version", version], capture_output=True, text=True)

    assert set_version("9.8.7-3").returncode == 0 and set_version("9.8.7-3").returncode == 0
    texts = {name: (tmp_path / name).read_text() for name in named}
    assert texts["debian/changelog"].count("9.8.7-3") == 1 and texts["debian/changelog"].startswith("ckpt (9.8.7-3) ")
    assert "Package: ckpt-libs-9.8.7-3\n" in (tmp_path / "debian/control").read_text()
    assert "Version:        9.8.7\nRelease:        3%" in texts["packages/rpm/ckpt.spec"]
    assert [n for n in named if "9.8.7" not in texts[n] and not n.startswith(("debian/control", "debian/rules", "scripts/"))] == []
    assert set_version("new").returncode == 1


@pytest.mark.skipif(not shutil.which("apt-get"), reason="there is no apt")
def test_the_lists_of_a_frozen_mirror_are_read(tmp_path):
    """They have expired."""
    mirror, sources, lists = tmp_path / "mirror", tmp_path / "sources.list", tmp_path / "lists"
    config = tmp_path / "apt.conf"  # instead of the machine's, which may allow it, too
    config.write_text('Dir::Etc::Parts "/dev/null"; Dir::Etc::Main "/dev/null";')
    mirror.mkdir()
    (lists / "partial").mkdir(parents=True)
    (mirror / "Packages").write_text("")
    (mirror / "Release").write_text("Date: Sat, 01 Jan 2000 00:00:00 UTC\nValid-Until: Sat, 08 Jan 2000 00:00:00 UTC\n"
                                    "SHA256:\n e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 Packages\n")
    sources.write_text(f"deb [trusted=yes] copy:{mirror} ./\n")
    options = [f"-oDir::Etc::SourceList={sources}", "-oDir::Etc::SourceParts=/dev/null", f"-oDir::State::Lists={lists}",
               "-oAPT::Sandbox::User=", f"-oDir::Cache={tmp_path}", "-oAPT::Update::Error-Mode=any"]
    script = f". {ROOT}/scripts/packages; run_apt reading update \"$@\""
    r = subprocess.run(["bash", "-c", script, "bash", *options], capture_output=True, text=True, timeout=100,
                       env={**os.environ, "APT_CONFIG": str(config)})
    assert r.returncode == 0, r.stderr + r.stdout
    assert list(lists.glob("*Release"))
