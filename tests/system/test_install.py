# SPDX-License-Identifier: Apache-2.0
"""What `meson install` and `meson dist` make: stripped files, symbols that are meant for others, one
archive for one commit."""
import hashlib
import json
import re
import subprocess

import pytest

from conftest import BUILD, ROOT

pytestmark = pytest.mark.no_criu


def meson(*arguments, **more):
    return subprocess.run(["meson", *arguments], capture_output=True, text=True, check=True, timeout=300, **more).stdout


def symbols(library, which):
    """{(name, version node)} of a dynamic symbol table."""
    said = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" (\w+)@{1,2}(CKPT_\w+)$", said, flags=re.M))


def test_what_is_installed_is_stripped(tmp_path):
    options = json.loads(meson("introspect", "--buildoptions", ROOT / "meson.build"))
    assert next(o["value"] for o in options if o["name"] == "strip") is True
    meson("install", "-C", BUILD, "--no-rebuild", "--strip", "--destdir", tmp_path)
    files = [p for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()]
    programs = [p for p in files if p.read_bytes().startswith(b"\x7fELF")]
    assert {"ckpt-run", "ckptd", "libckpt.so.1"} <= {p.name for p in programs}
    for program in programs:
        sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
        assert ".debug_" not in sections, program
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")}
    for end in ("zsh/site-functions/_ckpt", "vendor_completions.d/ckpt-dump.fish", "bash-completion/completions/ckptd"):
        assert any(name.endswith(end) for name in names), end


def test_libckpt_exports_the_c_api_and_what_our_own_libraries_call():
    libckpt = BUILD / "libckpt" / "libckpt.so.1"
    ours = [p for p in (BUILD / "libckpt-ocl" / "libckpt-ocl.so", BUILD / "libckpt-cuda" / "libcuda.so.1") if p.exists()]
    if not libckpt.exists() or len(ours) < 2:
        pytest.skip("not all libraries are built")
    exported = symbols(libckpt, "--defined-only")
    called = set().union(*(symbols(p, "--undefined-only") for p in ours))
    assert {name for name, node in exported if node == "CKPT_PRIVATE"} == {name for name, _ in called}
    assert all(name.startswith("ckpt_") for name, node in exported if node != "CKPT_PRIVATE")


@pytest.mark.full
def test_one_commit_makes_one_archive(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git repository")
    meson("setup", tmp_path, ROOT)

    def archive():
        meson("dist", "-C", tmp_path, "--no-tests", "--allow-dirty", "--formats", "xztar")
        made = next((tmp_path / "meson-dist").glob("*.tar.xz"))
        return hashlib.sha256(made.read_bytes()).hexdigest()

    assert archive() == archive()
