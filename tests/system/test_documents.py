# SPDX-License-Identifier: Apache-2.0
"""What the documents say is so: options, transcripts, examples, names."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import documents
from conftest import BUILD, ROOT
from cuda_programs import make  # noqa: F401, a fixture
from deadline import Deadline
from toolkit import NVCC

TOOLS = ["ckpt-run", "ckpt-dump", "ckpt-restore", "ckpt-start", "ckpt-migrate", "ckpt-image", "ckpt-fatbin", "ckpt-ps", "ckpt-history", "ckpt-top", "ckpt-sim",
         "ckpt-node-bench", "ckpt-schedd", "ckpt-idled", "ckpt-devd", "ckptd"]
DEADLINE = 90


def page_of(tool):
    return next(p for p in documents.PAGES if re.fullmatch(rf"{tool}\.\d\.scd", p.name))


def help_of(tool, *words):
    folder = "helper" if tool == "ckpt-helper" else "tools"
    return subprocess.run([BUILD / folder / tool, *words, "--help"], capture_output=True, text=True, check=True).stdout


def verbs_of(tool):
    """Its subcommands, as its --help lists them."""
    _, _, listed = help_of(tool).partition("Commands:\n")
    return re.findall(r"^  (\w+)", listed, flags=re.M)


# ---- options

@pytest.mark.no_criu
@pytest.mark.parametrize("tool", [*TOOLS, "ckpt-helper"])
def test_help_man_page_and_completion_have_the_same_options(tool):
    said = documents.options_of_help(help_of(tool))
    offered = documents.complete(tool)
    assert said, "no option was found in --help"
    assert offered == said
    for verb in verbs_of(tool):
        more = documents.options_of_help(help_of(tool, verb))
        assert documents.complete(tool, verb) == more, verb
        said |= more
    assert documents.options_of_page(page_of(tool)) == said


@pytest.mark.no_criu
@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_zsh_and_fish_offer_options_commands_and_values(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")

    (tmp_path / "monday.img").mkdir()
    image, victim, commands = f"ckpt-restore {tmp_path}/mon", "ckptd --victim=", "ckpt-image "
    helps = {f"{tool} --": (tool,) for tool in TOOLS}
    helps |= {f"ckpt-image {verb} --": ("ckpt-image", verb) for verb in verbs_of("ckpt-image")}
    complete = documents.complete_in_fish if shell == "fish" else documents.complete_in_zsh
    offered = complete([*helps, image, victim, commands], tmp_path)
    for line, words in helps.items():
        # fish offers an option whose value may be left out with "=", too.
        options = {word.removesuffix("=") for word in offered[line] if word.startswith("--")}
        assert options == documents.options_of_help(help_of(*words)), line
    assert offered[commands] == set(verbs_of("ckpt-image"))
    assert {word.removeprefix("--victim=") for word in offered[victim]} == {"requester", "cheapest"}
    assert any("monday.img" in word for word in offered[image])


@pytest.mark.no_criu
def test_man_pages_are_named_in_their_own_section():
    """Every "name(section)" of ours in any document is a page that exists."""
    pages = {p.name.removesuffix(".scd") for p in documents.PAGES}
    names = {p.rsplit(".", 1)[0] for p in pages}
    for path in [*documents.PAGES, *documents.TEXTS]:
        for name, number in re.findall(r"\b([a-z][\w.-]*)\*?\((\d)\)", path.read_text()):
            if name in names or name.startswith("ckpt"):
                assert f"{name}.{number}" in pages, f"{path.name}: {name}({number})"


@pytest.mark.no_criu
def test_the_image_format_has_the_version_that_is_written():
    text = (ROOT / "storage" / "format" / "format.h").read_text()
    version = re.search(r"kFormatVersion = (\d+);", text).group(1)
    title = (ROOT / "docs" / "FORMAT.md").read_text().splitlines()[0]
    assert title.endswith(f"version {version}")


@pytest.mark.no_criu
def test_releasing_has_the_versions_of_the_sources():
    rows = re.findall(r"^\| .* \| `(?:\w+::)?(k\w+)` in `([^`]+)` \| (\d+) \|$", (ROOT / "RELEASING.md").read_text(), flags=re.M)
    assert len(rows) >= 7
    for name, source, number in rows:
        assert re.search(rf"\b{name} = {number};", (ROOT / source).read_text()), (name, source, number)


@pytest.mark.no_criu
def test_links_between_documents_lead_somewhere():
    for path in [*documents.TEXTS, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.no_criu
def test_the_readme_is_short():
    """What newcomers read first; details belong to docs/."""
    assert len((ROOT / "README.md").read_text().split()) <= 900


@pytest.mark.no_criu
def test_every_guarantee_of_security_names_a_test_that_exists():
    """SECURITY.md: each row of its tables of guarantees names a test, and each name is a test or a file of tests."""
    text = (ROOT / "docs" / "SECURITY.md").read_text()
    sources = {p.stem: p.read_text() for p in (ROOT / "tests").rglob("test_*.py")}
    known = set(sources) | {p.stem for p in (ROOT / "tests" / "unit").rglob("*_test.cc")}
    known |= {name for source in sources.values() for name in re.findall(r"def (test_\w+)", source)}
    named = set(re.findall(r"`(test_\w+|\w+_test)`", text))
    assert len(named) > 30 and named <= known, named - known
    rows = [line for line in text.partition("## What is guaranteed")[2].splitlines()
            if re.match(r"\| [^-]", line) and not line.startswith("| guarantee |")]
    assert rows and not [r for r in rows if not re.search(r"`(test_\w+|\w+_test)`", r.split("|")[3])]


# ---- transcripts

class Shell:
    """A shell in a PID namespace of its own: `pgrep` finds only what it has started, and all of that
    ends with it."""

    def __init__(self, folder, environment=None):
        self.folder, self.log = folder, folder / "shell.log"
        self.runtime = tempfile.TemporaryDirectory(prefix="ckpt-")  # sockets need a short path
        path = f"{BUILD}/tools:{BUILD}/examples:{BUILD}/softcuda:{os.environ['PATH']}"
        if NVCC:
            path += f":{os.path.dirname(NVCC)}"
        env = {**os.environ, "PATH": path, "CKPTD_SOCKET": str(folder / "ckptd.sock"), "CKPT_RUNTIME_DIR": self.runtime.name,
               "MANPATH": "", **(environment or {})}
        self.process = subprocess.Popen(
            # A pipe, as a terminal would be: tools say less to a file. It is made in the new mount
            # namespace, since CRIU refuses files of another one.
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
             "bash", "-c", "exec bash --norc --noprofile > >(cat >shell.log) 2>&1"],
            stdin=subprocess.PIPE, cwd=folder, env=env, text=True)
        self.steps = 0

    def output(self):
        return self.log.read_text(errors="replace").replace("\r", "\n") if self.log.exists() else ""

    def run(self, command, shown=(), statuses=(0,)):
        """Waits until the command is over (but for one in the background), with one of these
        statuses, and until the output has every line that is shown."""
        self.steps += 1
        mark = f"@@{self.steps}"
        begin = len(self.output())
        self.process.stdin.write(f"{command}\necho {mark} $?\n")
        self.process.stdin.flush()
        end = Deadline(DEADLINE)
        while True:
            output = self.output()[begin:]
            over = re.search(rf"^{mark} (\d+)$", output, flags=re.M)
            missing = [line for line in shown if not documents.is_shown(line, output, self.folder)]
            if over and not missing:
                break
            if end.passed():
                raise AssertionError(f"{command}\nnot shown: {missing}\n---- shown:\n{output[-3000:]}")
            time.sleep(0.05)
        assert int(over.group(1)) in statuses, f"{command}\n{output}"
        return output

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.runtime.cleanup()


@pytest.fixture
def shell(tmp_path):
    shells = []

    def start(environment=None):
        shells.append(Shell(tmp_path, environment))
        return shells[-1]

    yield start
    for s in shells:
        s.close()


def statuses_of(command):
    """1 is an answer: the file may use the device heap; the images differ."""
    return (0, 1) if re.match(r"ckpt-fatbin|ckpt-image diff", command) else (0,)


TRANSCRIPTS = {b.where: b for path in documents.TEXTS for b in documents.blocks(path) if b.is_transcript}


def prepare(block, folder, make):  # noqa: F811
    """What a reader of the document has at hand; the environment for it."""
    text = "\n".join(block.lines)
    if "nvcc" in text:
        if not NVCC:
            pytest.skip("there is no CUDA toolkit")
        (folder / "tests").symlink_to(ROOT / "tests")
    if "./train" in text:
        (folder / "train").symlink_to(make("hold.cu"))
        return {"CKPT_SOFTCUDA": "1x2400M", "CKPT_SOFTCUDA_CONTEXT": "64", "OCL_ICD_VENDORS": "/nonexistent/"}
    return {}


@pytest.mark.parametrize("where", TRANSCRIPTS)
def test_a_transcript_is_what_a_user_sees(where, shell, tmp_path, make):  # noqa: F811
    block = TRANSCRIPTS[where]
    session = shell(prepare(block, tmp_path, make))
    for command, shown in block.steps():
        statuses = statuses_of(command)
        # A table of a moment is looked at until the moment has come.
        if command.startswith("ckpt-top"):
            command = f"for i in $(seq 60); do {command}; sleep 1; done & sleep 0.1"
        session.run(command, shown, statuses)


# ---- the man pages' examples

# What an example needs, by what it names: commands that a reader has run before. The program runs
# until it is ended, because how long its steps take depends on the machine and on the device.
HEAT = ["ckpt-run --device ocl:pthread heat --n 64 --steps 100000000 --report 1000 >heat.log 2>&1 &",
        "until grep -q step heat.log; do sleep 0.1; done"]
RESTORE = "^ckpt-restore (?!--detach)"  # it ends as its program does
NEEDS = [
    (r"\b4711\b|\bpgrep\b", HEAT),
    (r"\bjob-1\.img\b", ["ckpt-dump --leave-running -o job-1.img $(pgrep -x heat)"]),
    (r"\b(heat|monday|tuesday)\.img\b",
     [*HEAT,
      "ckpt-dump --leave-running -o monday.img $(pgrep -x heat)",
      "ckpt-dump --leave-running --parent monday.img -o tuesday.img $(pgrep -x heat)",
      "ckpt-dump -o heat.img $(pgrep -x heat)"]),
    (r"^ckpt-start\b", [*HEAT, "ckpt-dump --template -o warm.img $(pgrep -x heat)"]),
    # Ends the restored program when it has made further steps.
    (RESTORE, ["size=$(stat -c %s heat.log); (until [ $(stat -c %s heat.log) != $size ]; do sleep 0.1; done; pkill -x heat) &"]),
    (r"\./(simulation|job\.sh)\b",
     ["printf '#!/bin/sh\\nexec heat --n 64 --steps 50\\n' >simulation", "cp simulation job.sh", "chmod +x simulation job.sh"]),
    (r"(ckpt-fatbin.* \./app|libfoo\.so|kernels\.cubin|app\.fatbin)\b",
     ["cp $FACTS app", "cp $FACTS libfoo.so", "nvcc -w -cubin -arch=sm_75 -o kernels.cubin tests/programs/fatbin/facts.cu",
      "nvcc -w -fatbin -gencode arch=compute_75,code=[sm_75,compute_75] -o app.fatbin tests/programs/fatbin/facts.cu"]),
    (r"app\.cu\b|softcuda-run\b",
     ["echo 'int main() { return cudaDeviceSynchronize(); }' >app.cu",
      "nvcc -cudart shared app.cu -o app"]),
    (r"\blog\.swf\b", ["echo '1 0 0 60 4 -1 -1 4 90 -1 1 1 1 -1 -1 1 -1 -1' >log.swf"]),
    (r"^ckpt-top", ["ckptd &", "until [ -S $CKPTD_SOCKET ]; do sleep 0.1; done"]),
    (r"\bssh\b", ['ssh() { shift; "$@"; }']),
    (r"/scratch", ["mkdir -p scratch/images"]),
    (r"--ca cluster\b", ["ckpt-devd --make-ca cluster"]),
]
EXAMPLES = [(p.name, line) for p in documents.PAGES for line in documents.examples(p)]


@pytest.mark.parametrize("page, example", EXAMPLES, ids=[line[:60] for _, line in EXAMPLES])
def test_an_example_of_a_man_page_runs(page, example, shell, tmp_path):
    if re.search("fatbin|softcuda", page) and not NVCC:
        pytest.skip("there is no CUDA toolkit")
    environment = {}
    if "fatbin" in page:
        environment["FACTS"] = str(tmp_path / "facts")
        (tmp_path / "tests").symlink_to(ROOT / "tests")
        subprocess.run([NVCC, "-w", "-arch=sm_75", "-cudart", "shared", "-DHEAP", "-o", tmp_path / "facts",
                        ROOT / "tests/programs/fatbin/facts.cu"], check=True)
    session = shell(environment)
    for pattern, commands in NEEDS:
        if re.search(pattern, example):
            for command in commands:
                session.run(command)
    shown = ["ckptd: listening on …"] if example.startswith("ckptd") else []
    statuses = (128 + signal.SIGTERM,) if re.match(RESTORE, example) else statuses_of(example)
    session.run(example.replace("/scratch", f"{tmp_path}/scratch").replace("4711", "$(pgrep -x heat)"), shown, statuses)


@pytest.mark.no_criu
def test_every_tool_has_examples():
    pages = {p.name.split(".")[0] for p in documents.PAGES if documents.examples(p)}
    assert pages >= {"ckpt-run", "ckpt-dump", "ckpt-restore", "ckpt-start", "ckpt-image", "ckpt-fatbin", "ckptd", "ckpt-top", "ckpt-sim", "softcuda-run"}


# ---- other commands

# Commands that no test runs as they stand, with the reason; the words before the first option.
ELSEWHERE = {
    "./demo": "takes minutes; scripts/demo has its own tests and CI runs ./check, which builds what it needs",
    "./check": "is what runs this",
    "scripts/setup": "./check has called it",
    "scripts/build": "./check has called it",
    "scripts/fuzz": "runs in ./check --full",
    "scripts/debian-packages": "tests/packages builds, installs and upgrades them in ./check --full",
    "scripts/criu-package": "as scripts/debian-packages",
    "scripts/set-version": "test_scripts.py calls it in a copy",
    "meson": "installing is tested in test_install.py",
    "ninja": "builds a bench; the benches are run by hand",
    "build/bench": "a measurement",
}
PROGRAM = re.compile(r"^(\./\S+|(?:scripts|build|bench)/\S+|ckpt\S*|softcuda-run|meson|ninja|nvcc)(\s|$)")


def commands():
    for path in documents.TEXTS:
        for block in documents.blocks(path):
            if block.is_transcript or block.language == "python":
                continue
            for line in block.lines:
                if PROGRAM.match(line):
                    yield block.where, line


def options_for(line):
    """Those of the tool that a command calls, or of its subcommand."""
    program, *words = line.split()
    verbs = verbs_of(program)
    verb = next((word for word in words if word in verbs), None)
    assert verb or not verbs, f"{line}: {program} has no such command"
    return documents.options_of_help(help_of(program, *([verb] if verb else [])))


@pytest.mark.no_criu
def test_each_command_of_the_table_of_symptoms_names_what_exists():
    text = (ROOT / "docs" / "OPERATIONS.md").read_text()
    commands = re.findall(r"`((?:ckpt|ckptd)-?\w* [^`]+)`", text)
    assert len(commands) > 30
    for command in commands:
        program = command.split()[0]
        assert program in TOOLS, command
        assert set(documents.OPTION.findall(command)) <= options_for(command), command
    rows = text.partition("## What to do when")[2].partition("|---|")[2].splitlines()
    assert len([row for row in rows if row.startswith("| ")]) > 12
    assert not [row for row in rows if row.startswith("| ") and row.count(" | ") != 2]


@pytest.mark.no_criu
def test_a_command_that_stands_alone_names_what_exists():
    """Its program is there, and knows the options; or ELSEWHERE says why it is not looked at."""
    seen = set()
    for where, line in commands():
        line = line.split("  ")[0].split(" #")[0].strip()
        program = line.split()[0]
        known = [name for name in ELSEWHERE if program == name or program.startswith(name + "/")]
        seen.update(known)
        if known:
            if "/" in program and not program.startswith("build/"):
                assert (ROOT / program).exists(), f"{where}: {program}"
            continue
        if program in TOOLS:
            assert set(documents.OPTION.findall(line.split(" | ")[0])) <= options_for(line), f"{where}: {line}"
            continue
        assert program in ("nvcc", "softcuda-run", "ckpt-helper"), f"{where}: no test runs `{line}`"
    assert seen <= set(ELSEWHERE)
