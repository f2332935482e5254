# SPDX-License-Identifier: Apache-2.0
"""What `meson install` and `meson dist` make: stripped files, symbols that are meant for others, one
archive for one commit."""
import hashlib
import json
import os
import re
import shutil
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


def test_the_man_pages_of_a_build_that_was_configured_without_scdoc(tmp_path):
    """`meson install` makes them if scdoc is there by then, and says so if it is not."""
    if not shutil.which("scdoc"):
        pytest.skip("there is no scdoc")

    def install(to, **environment):
        return subprocess.run([ROOT / "docs" / "install-man-pages", "share/man", "ckpt-run.1", "ckpt.7"], text=True, check=True,
                              env={**os.environ, "MESON_INSTALL_DESTDIR_PREFIX": str(to), "MESON_SOURCE_ROOT": str(ROOT),
                                   **environment}, capture_output=True)

    install(tmp_path / "with")
    assert (tmp_path / "with/share/man/man1/ckpt-run.1").read_text().startswith(".\\\"")
    assert (tmp_path / "with/share/man/man7/ckpt.7").exists()
    (tmp_path / "bin").mkdir()
    for command in ("bash", "env"):
        (tmp_path / "bin" / command).symlink_to(shutil.which(command))
    said = install(tmp_path / "without", PATH=str(tmp_path / "bin")).stderr
    assert "scdoc is missing" in said and not (tmp_path / "without").exists()


def test_man_ckpt_shows_the_overview():
    """ckpt(3) would come first, because man(1) looks into section 3 before 7."""
    installed = set(json.loads(meson("introspect", "--installed", BUILD)).values())
    assert any(path.endswith("/man1/ckpt.1") for path in installed)
    assert (ROOT / "docs" / "man" / "ckpt.1").read_text() == ".so man7/ckpt.7\n"


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
