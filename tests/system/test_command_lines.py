# SPDX-License-Identifier: Apache-2.0
"""What the tools say to wrong arguments, and what --help says. One list for all tools."""
import re
import subprocess

import pytest

import documents
from conftest import BUILD, ROOT
from test_documents import TOOLS, help_of, page_of, verbs_of

pytestmark = pytest.mark.no_criu

WRONG_USAGE = 125
GOLDEN = ROOT / "tests" / "golden" / "v3" / "base"

# Arguments, and what the error must name.
WRONG = [
    ("ckpt-dump", 'PID is missing'),
    ("ckpt-dump -f x", "no option -f"),
    ("ckpt-dump --jsn 1", 'no option --jsn; did you mean "--json"?'),
    ("ckpt-dump --over=5 1", 'no option --over; did you mean "--overwrite"?'),
    ("ckpt-dump abc", 'PID: "abc" is not a whole number'),
    ("ckpt-dump 99999999999", "too large"),
    ("ckpt-dump 1 2", '"2" is one argument too many'),
    ("ckpt-dump --keep 0 1", '--keep: "0" is not a number from 1 to'),
    ("ckpt-dump --timeout soon 1", '--timeout: "soon" is not a whole number'),
    ("ckpt-dump --output", "--output needs a value"),
    ("ckpt-dump --to folder 1", "--to needs --suspend"),
    ("ckpt-dump --suspend -o image 1", "--suspend writes no image"),
    ("ckpt-dump --suspend=memry 1", 'is not one of full, memory; did you mean "memory"?'),
    ("ckpt-restore", "no image was given"),
    ("ckpt-restore --devise ocl:0 image", 'did you mean "--device"?'),
    ("ckpt-restore --resume 1 image", "cannot be combined"),
    ("ckpt-start", "IMAGE is missing"),
    ("ckpt-start -n 0 image", '"0" is not a number from 1 to'),
    ("ckpt-dump --with-files-up-to 1 1", "--with-files-up-to needs --with-files"),
    ("ckpt-dump --with-files --suspend 1", "--suspend writes none"),
    ("ckpt-dump --with-files --job .", "--overwrite, --with-files or --key-file"),
    ("ckpt-dump --tcp-close 1", "--tcp-close needs --template"),
    ("ckpt-dump --template --parent image 1", "cannot be combined"),
    ("ckpt-migrate", "PID and HOST are needed"),
    ("ckpt-migrate 1", "PID and HOST are needed"),
    ("ckpt-migrate --list 1 host", "cannot be combined"),
    ("ckpt-migrate --max-downtime 0 1 host", '"0" is not a number from'),
    ("ckpt-migrate --take-bak x", 'did you mean "--take-back"?'),
    ("ckpt-image", "no command was given"),
    ("ckpt-image shwo image", 'no command "shwo"; did you mean "show"?'),
    ("ckpt-image show", "IMAGE is missing"),
    ("ckpt-image show --steams image", 'did you mean "--streams"?'),
    ("ckpt-image prune image", "--keep is missing"),
    ("ckpt-run", "no program was given"),
    ("ckpt-run --continue -- true", "--continue needs --job"),
    ("ckpt-restore --wait 1s image", "--wait needs --job"),
    ("ckpt-run --devic ocl:0 true", 'did you mean "--device"?'),
    ("ckpt-run --managed-on-host --managed-memory kept true", "cannot be combined"),
    ("ckpt-run --managed-memory somewhere true", "is not one of kept, host, driver"),
    ("ckpt-run --managed --unmanaged true", "--managed cannot be combined with --unmanaged"),
    ("ckpt-fatbin", "FILE is missing"),
    ("ckpt-fatbin --limit 0 file", "--limit"),
    ("ckpt-top --interval never", '--interval: "never" is not a number'),
    ("ckpt-sim --load-of fastets", 'is not one of all, fastest, slowest, mean; did you mean "fastest"?'),
    ("ckptd --victim chepest", 'did you mean "cheapest"?'),
    ("ckptd --host-memory much", '--host-memory: "much" is not a size'),
    ("ckptd --config /nonexistent", "/nonexistent"),
]


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def test_wrong_arguments_are_named_with_one_exit_code():
    for line, said in WRONG:
        tool, *arguments = line.split()
        r = run(BUILD / "tools" / tool, *arguments)
        first, *rest = r.stderr.splitlines()
        assert (r.returncode, r.stdout) == (WRONG_USAGE, ""), line
        assert first.startswith(f"{tool}: error: ") and said in first, f"{line}: {first}"
        assert rest and all(other.startswith(f"{tool}:   what to do: ") for other in rest), line


def test_a_misspelt_name_of_the_configuration_file_gets_a_suggestion(tmp_path):
    (tmp_path / "conf").write_text("program-memry = 1G\n")
    r = run(BUILD / "tools" / "ckptd", "--config", tmp_path / "conf")
    assert r.returncode == WRONG_USAGE
    assert f'{tmp_path}/conf: there is no option "program-memry"; did you mean "program-memory"?' in r.stderr


def test_a_misspelt_device_gets_a_suggestion():
    listed = run(BUILD / "tools" / "ckpt-run", "--list-devices").stdout.splitlines()[1:]
    assert 'no device "99999999999"' in run(BUILD / "tools" / "ckpt-run", "--device", "99999999999", "true").stderr
    if not listed:
        pytest.skip("there is no device")
    api, word = listed[0].split()[1], listed[0].split()[2].lower()
    for wrong in (f"{api}:{word[:-2]}{word[-1]}{word[-2]}", word):
        r = run(BUILD / "tools" / "ckpt-run", "--device", wrong, "true")
        assert r.returncode == 125 and f'did you mean "{api}:{word}"?' in r.stderr, r.stderr


def commands_of(tool):
    return [(tool,), *((tool, verb) for verb in verbs_of(tool))]


@pytest.mark.parametrize("tool", TOOLS)
def test_help_is_for_people(tool):
    for words in commands_of(tool):
        text = help_of(*words)
        assert not re.search(r"\b(UINT|INT|FLOAT|TEXT|REQUIRED|Env:|Excludes:|Needs:)", text), text
        assert max(map(len, text.splitlines())) <= 80
        assert text.startswith(f"Usage: {' '.join(words)} [OPTIONS]")
    assert " [--] PROGRAM " in help_of("ckpt-run")
    assert help_of("ckpt-image", "rm").startswith("Usage: ckpt-image rm [OPTIONS] IMAGE …\n")
    # The same defaults as the man page, where both state a figure.
    page = page_of(tool).read_text()
    for option, default in re.findall(r"^  (?:-\w, )?(--[\w-]+)(?:=\S+)?\s(?:(?!^  -).)*?\(default:\s+([\d.]+[KMG]?)\)",
                                      help_of(tool), flags=re.M | re.S):
        paragraph = re.search(rf"^\*.*{option}\*.*\n((?:\t.*\n|\n(?=\t))+)", page, flags=re.M).group(1)
        assert default in paragraph or default == "0" or "as for" in paragraph, f"{option}: {default} is not in {paragraph}"


def test_every_man_page_states_the_exit_code_of_wrong_arguments():
    for tool in (*TOOLS, "softcuda-run"):
        assert str(WRONG_USAGE) in "\n".join(documents.section(page_of(tool), "EXIT STATUS")), tool


def test_quiet_prints_nothing_and_nothing_but_a_terminal_gets_progress():
    verify = BUILD / "tools" / "ckpt-image", "verify"
    loud, quiet = run(*verify, GOLDEN), run(*verify, "--quiet", GOLDEN)
    assert "undamaged" in loud.stdout and loud.stderr == ""
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_version_says_what_was_built_and_which_images_it_writes(tool):
    first, commit, images, *more = run(BUILD / "tools" / tool, "--version").stdout.splitlines()
    assert re.fullmatch(rf"{tool} \d+\.\d+\.\d+", first) and re.fullmatch(r"commit (unknown|[0-9a-f]{10,})", commit)
    assert re.fullmatch(r"images of version \d+; older ones can be read", images)
    assert bool(more) == (tool in ("ckpt-dump", "ckpt-restore", "ckpt-start")) and all("CRIU" in line for line in more)


def test_helper_and_software_device_know_the_short_help():
    for tool in (BUILD / "helper" / "ckpt-helper", BUILD / "softcuda" / "softcuda-run"):
        if tool.exists():
            short = run(tool, "-h")
            assert short.returncode == 0 and short.stdout == run(tool, "--help").stdout
            assert re.fullmatch(r"\d+\.\d+\.\d+\n", run(tool, "--version").stdout)
