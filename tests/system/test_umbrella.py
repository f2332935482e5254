# SPDX-License-Identifier: Apache-2.0
"""`ckpt dump` is `ckpt-dump`: with its arguments, its output and its exit code."""
import os
import re
import shutil
import subprocess

import pytest

import documents
from conftest import BUILD, ROOT
from test_documents import TOOLS

CKPT = BUILD / "tools" / "ckpt"

pytestmark = pytest.mark.skipif(not CKPT.exists(), reason="ckpt is not built")


def run(*words, **more):
    return subprocess.run([CKPT, *words], capture_output=True, text=True, timeout=60, **more)


def commands():
    _, _, listed = run("--help").stdout.partition("Commands:\n")
    return re.findall(r"^  ([\w-]+)", listed, flags=re.M)


@pytest.mark.no_criu
def test_every_tool_of_users_is_a_command():
    services = {"ckpt-schedd", "ckpt-idled", "ckpt-devd", "ckptd"}
    assert {f"ckpt-{c}" for c in commands()} == set(TOOLS) - services | {"ckpt-help"}
    for command in set(commands()) - {"help"}:
        assert run(command, "--version").stdout == subprocess.run(
            [BUILD / "tools" / f"ckpt-{command}", "--version"], capture_output=True, text=True).stdout


@pytest.mark.no_criu
def test_it_is_found_by_path_too(tmp_path):
    """Then the tools are beside it, not where the link is."""
    (tmp_path / "ckpt").symlink_to(CKPT)
    r = subprocess.run(["ckpt", "ps", "--json"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                       capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout.startswith("["), r.stderr


@pytest.mark.no_criu
@pytest.mark.parametrize("words, said", [
    ([], 'no command was given'), (["dmup"], 'no command "dmup"; did you mean "dump"?'), (["--jsn"], "no option --jsn"),
    (["help", "dmup"], "no manual page"), (["help", "dump", "x"], "no manual page"),
    (["dump"], "PID is missing"), (["restore"], "no image was given")])
def test_wrong_arguments(words, said):
    r = run(*words)
    assert r.returncode == 125 and said in r.stderr and "what to do" in r.stderr, r.stderr


@pytest.mark.no_criu
def test_help_shows_a_page_or_the_summary(tmp_path):
    man = tmp_path / "man"
    man.write_text("#!/bin/sh\necho man $*\n")
    man.chmod(0o755)
    environment = {**os.environ, "PATH": str(tmp_path)}
    assert run("help", "dump", env=environment).stdout == "man ckpt-dump\n"
    assert run("help", env=environment).stdout == "man ckpt\n"
    man.unlink()
    assert run("help", "dump", env=environment).stdout.startswith("Usage: ckpt-dump ")
    assert run("help", env=environment).stdout.startswith("Usage: ckpt ")


@pytest.mark.no_criu
def test_without_the_tools_it_says_what_is_missing(tmp_path):
    shutil.copy(CKPT, tmp_path)
    r = subprocess.run([tmp_path / "ckpt", "dump", "1"], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True)
    assert r.returncode == 125 and "cannot execute ckpt-dump" in r.stderr and "install" in r.stderr


def test_a_program_is_run_dumped_and_restored(ckpt):
    job = ckpt.start("ckpt", ["run", "--", ckpt.programs / "counter"])
    job.wait_lines(3)
    r = run("dump", str(job.pid), "-o", "one", "--json", cwd=ckpt.folder, env=ckpt.env)
    assert r.returncode == 0 and job.wait() == 85, r.stderr
    copy = ckpt.start("ckpt", ["restore", "one"])
    copy.wait_lines(3)


# ---- completions

@pytest.mark.no_criu
def test_bash_completes_commands_and_their_options():
    script = f"""
      . {ROOT}/completions/ckpt.bash
      offer() {{ COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=(); _ckpt ckpt "" "" 2>/dev/null; echo "${{COMPREPLY[*]}}"; }}
      offer ckpt ""
      offer ckpt help r
      offer ckpt image ""
    """
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(commands()) <= set(shown[0].split()) and shown[1] == "run restore" and "verify" in shown[2].split()
    for tool in ("dump", "node-bench", "history"):
        assert documents.complete("ckpt", tool) == documents.complete(f"ckpt-{tool}"), tool


@pytest.mark.no_criu
@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_other_shells_complete_commands_and_their_options(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    complete = documents.complete_in_fish if shell == "fish" else documents.complete_in_zsh
    offered = complete(["ckpt ", "ckpt dump --", "ckpt-dump --", "ckpt image "], tmp_path)
    assert set(commands()) <= offered["ckpt "]
    assert offered["ckpt dump --"] == offered["ckpt-dump --"] and "--leave-running" in offered["ckpt dump --"]
    assert {"show", "verify"} <= offered["ckpt image "]
