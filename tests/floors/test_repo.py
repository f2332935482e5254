"""Rules for every file of the repository."""

import re
import subprocess

import pytest

from repo import ROOT, tracked

SPDX = "SPDX-License-Identifier: Apache-2.0"
LONGEST = 800
# Of what other programs load into their processes.
LICENCES_OF_HOSTS = {"slurm": "GPL-2.0-or-later", "criu-plugin": "GPL-2.0-only"}

# Adaptors of ranges, which clang 14 (Debian 12) cannot compile with its libstdc++; the suites asan, tsan
# and fuzz need them to compile.
CLANG_CANNOT = re.compile(r"\bviews::\w")
# Written so that this file does not contain what it looks for.
OPEN_TASK = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
SOURCES = {".h", ".cc", ".cpp", ".c", ".api", ".inc", ".py", ".build", ".cl", ".sh", ""}


def cpp_files():
    return [f for f in tracked() if f.suffix in (".h", ".cc")]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_source_names_its_licence():
    # The public header is C, whose comments may have the other form.
    spdx = (f"// {SPDX}\n", f"/* {SPDX} */\n")
    bare = [str(f) for f in cpp_files() if f.parts[0] not in LICENCES_OF_HOSTS and not read(f).startswith(spdx)]
    assert not bare, f"these files do not begin with `// {SPDX}`: {bare}"


@pytest.mark.parametrize("room, licence", LICENCES_OF_HOSTS.items())
def test_what_another_program_loads_has_its_licence(room, licence):
    plugins = [f for f in tracked() if f.parts[0] == room and f.suffix in (".c", ".h")]
    assert plugins and all(read(f).startswith(f"/* SPDX-License-Identifier: {licence} */\n") for f in plugins)


def test_no_source_is_too_long():
    long = {str(f): n for f in cpp_files() if (n := len(read(f).splitlines())) > LONGEST}
    assert not long, f"more than {LONGEST} lines: {long}"


def test_clang_14_can_compile_every_source():
    found = {str(f) for f in cpp_files() for line in read(f).splitlines() if CLANG_CANNOT.search(line.split("//")[0])}
    assert not found, f"use common/base/reversed.h or an algorithm instead of an adaptor: {found}"


def test_no_open_tasks_in_comments():
    found = []
    for path in tracked():
        if path.suffix not in SOURCES or path.name == "LICENSE":
            continue
        for number, line in enumerate(read(path).splitlines(), 1):
            if OPEN_TASK.search(line):
                found.append(f"{path}:{number}: {line.strip()}")
    assert not found, "file an issue for each instead:\n" + "\n".join(found)


def test_the_glossary_is_sorted():
    tables = re.findall(r"^\| term \|.*\n\|.*\n((?:\|.*\n)+)", read("docs/GLOSSARY.md"), re.MULTILINE)
    assert tables
    for table in tables:
        terms = [row.split("|")[1].strip().lower() for row in table.splitlines()]
        assert terms == sorted(terms)


# References that lead out of the repository; written so that this file does not match.
OUTSIDE = re.compile(r"\.\./sha" r"red|fac" r"ts/[a-z]+\.md|design dec" r"ision \d")


def test_no_file_refers_to_what_is_not_in_the_repository():
    found = []
    for path in tracked():
        if path.suffix in SOURCES | {".md", ".scd", ".cu"} and path.name != "CHANGELOG.md":
            found += [f"{path}:{n}" for n, line in enumerate(read(path).splitlines(), 1) if OUTSIDE.search(line)]
    assert not found, found


@pytest.mark.parametrize("path", ["check", "demo", ".ci/run", "scripts/setup", "scripts/get-criu", "scripts/get-cuda", "scripts/get-slurm"])
def test_entry_points_are_executable(path):
    assert (ROOT / path).stat().st_mode & 0o111


@pytest.mark.parametrize("table", ["opencl-table", "cuda-table", "manifest-table"])
def test_the_table_of_a_page_is_up_to_date(table):
    r = subprocess.run([ROOT / "scripts" / table, "--check"], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
