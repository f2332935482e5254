# SPDX-License-Identifier: Apache-2.0
"""A program with files that an image can carry: its executable, a library and a file that it reads."""
import os
import subprocess

MAIN = """
#include <stdio.h>
#include <unistd.h>
int answer(void);
int main(void) {
  FILE *data = fopen("data", "r");
  char text[20] = "";
  for (;; usleep(20000)) {
    rewind(data);
    if (!fgets(text, sizeof text, data)) return 2;
    printf("%d %s\\n", answer(), text);
    fflush(stdout);
    if (access("finish", F_OK) == 0) return 0;
  }
}
"""
LINE = "1 as it was"  # what it prints again and again


def build_library(folder, answer, padding=0):
    """Under a new inode, as a package manager does it."""
    source, new = folder / "answer.c", folder / "new"
    source.write_text(f"int answer(void) {{ return {answer}; }} char padding[{padding + 1}] = {{1}};")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(new)], check=True)
    os.rename(new, folder / "libanswer.so")


def build_program(folder, source=MAIN, *flags):
    build_library(folder, 1)
    (folder / "main.c").write_text(source)
    (folder / "data").write_text("as it was")
    subprocess.run(["cc", "main.c", "-o", "own", "-L.", "-lanswer", f"-Wl,-rpath,{folder}", *flags], cwd=folder, check=True)
    return folder / "own"


def change(folder, what="all"):
    if what in ("library", "all"):
        build_library(folder, 2, padding=9000)
    if what in ("executable", "all"):
        (folder / "own").unlink()
    if what in ("data", "all"):
        (folder / "data").write_text("something else")


def supplied_files(pid):
    """Those that the process has mapped."""
    with open(f"/proc/{pid}/maps") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if "/files/" in line}
