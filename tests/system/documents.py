# SPDX-License-Identifier: Apache-2.0
"""The documents as data: their code blocks, transcripts, options.

A *transcript* is a code block with lines that begin with "$ ": commands, each followed by what it
prints. Every other line of a code block that calls a program is a *command*.
"""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()
PAGES = sorted((ROOT / "docs" / "man").glob("*.scd"))
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Block:
    """Lines between two fences, of which the first may name a language; `where` is the file and the line of the first."""

    def __init__(self, path, number, lines, language=""):
        self.where = f"{path.relative_to(ROOT)}:{number}"
        self.path, self.lines, self.language = path, lines, language

    @property
    def is_transcript(self):
        return any(line.startswith("$ ") for line in self.lines)

    def steps(self):
        """Of a transcript: (command, lines that it prints)."""
        steps = []
        for line in self.lines:
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.strip():
                steps[-1][1].append(line)
        return steps


def blocks(path):
    found, begin = [], None
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if begin is None:
            begin = number
        else:
            found.append(Block(path, begin + 1, lines[begin:number - 1], lines[begin - 1].removeprefix("```").strip()))
            begin = None
    assert begin is None, f"{path}: a code block is not closed"
    return found


def section(page, title):
    """The lines of a section of a man page."""
    text = page.read_text(encoding="utf-8")
    parts = re.split(r"^# (.*)$", text, flags=re.M)
    for name, body in zip(parts[1::2], parts[2::2]):
        if name.strip() == title:
            return body.splitlines()
    return []


def examples(page):
    """The commands of a man page's EXAMPLES."""
    lines, inside, found = section(page, "EXAMPLES"), False, []
    for line in lines:
        if line.startswith("```"):
            inside = not inside
        elif inside and line.strip():
            found.append(line)
    return found


FIGURE = re.compile(r"0x[0-9a-f]+|\d+(?:[.,]\d+)*|…|[#.]{8,}|\b(?:B|[KMGT]iB)\b|\s+")


def as_pattern(line, folder):
    """What a shown line matches: figures, sizes, bars and "…" stand for any of their kind."""

    def of(token):
        if token.isspace():
            return r"\s+"
        if token == "…":
            return ".*"
        if token.startswith("0x"):
            return "0x[0-9a-f]+"
        if token[0].isdigit():
            return r"\d+(?:[.,]\d+)*"
        return "[#.]+" if token[0] in "#." else "(?:B|[KMGT]iB)"

    line = line.replace("/tmp/tour", str(folder)).strip()
    out, at = "", 0
    for match in FIGURE.finditer(line):
        # The folder's own figures stay.
        out += re.escape(line[at:match.start()]) + of(match.group())
        at = match.end()
    return re.compile(out + re.escape(line[at:]))


def is_shown(line, output, folder):
    pattern = as_pattern(line, folder)
    return any(pattern.search(got) for got in output.splitlines())


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def options_of_help(text):
    """The options that a --help lists, by the lines that begin with one."""
    found = set()
    for line in text.splitlines():
        if re.match(r"\s+(-\w,\s?)?--\w", line) or re.match(r"\s+-\w,--\w", line):
            found.update(OPTION.findall(line.split("  ")[1] if line.startswith("  ") else line))
    return found


def options_of_page(page):
    """The options that the OPTIONS sections of a man page explain: those that begin a paragraph."""
    found = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if re.match(r"\*-", line):
            found.update(OPTION.findall(line))
    return found


def complete(tool, *words):
    """What the completion offers behind these words."""
    script = f"""
      . {ROOT}/completions/ckpt.bash
      COMP_WORDS=({tool} {' '.join(words)} --) COMP_CWORD={len(words) + 1}
      function=$(complete -p {tool} | sed -E 's/.*-F ([a-z_]+).*/\\1/')
      $function {tool} -- {words[-1] if words else tool} 2>/dev/null
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    r = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return {word.strip() for word in r.stdout.split() if word.startswith("--")} - {"--"}


def complete_in_fish(lines, _):
    """{line: the words that fish offers for this command line}."""
    script = f"source {BUILD}/docs/ckpt-run.fish; while read line; complete -C $line; echo next line; end"
    r = subprocess.run(["fish", "--no-config", "-c", script], input="".join(f"{line}\n" for line in lines),
                       capture_output=True, text=True, check=True, timeout=120)
    return {line: {offer.partition("\t")[0] for offer in shown.splitlines()}
            for line, shown in zip(lines, r.stdout.split("next line\n"))}


# Lists what zsh offers for each line, on a terminal of its own (zshmodules(1), zpty): a completion
# widget that prints what is added instead of showing it.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=; fpath=(%(folder)s $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w z 'compadd() { [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }; local -a hits; builtin compadd -A hits "$@"; print -rl -- offer:$^hits }'
zpty -w z 'list() { comppostfuncs=(done_); _main_complete }; done_() { print end of offers }'
zpty -w z 'zle -C list complete-word list; bindkey "^T" list'
while IFS= read -r line; do
  zpty -w -n z $'\C-u'$line$'\C-t'
  while zpty -r z text; do print -r -- "$text"; [[ $text == *end\ of\ offers* && $text != *print* ]] && break; done
  print next line
done
zpty -d z
"""


def complete_in_zsh(lines, folder):
    """{line: the words that zsh offers for this command line}; `folder` takes a file."""
    (folder / "_ckpt").symlink_to(BUILD / "docs" / "_ckpt")
    r = subprocess.run(["zsh", "-f", "-c", ZSH % {"folder": folder}], input="".join(f"{line}\n" for line in lines),
                       capture_output=True, text=True, check=True, timeout=120)
    # What is typed is echoed, and so is the text of compadd().
    return {line: {word for word in re.findall(r"offer:(\S+)", shown) if "$" not in word}
            for line, shown in zip(lines, r.stdout.split("next line\n"))}
