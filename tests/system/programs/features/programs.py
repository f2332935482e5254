# SPDX-License-Identifier: Apache-2.0
"""Real programs of the table of process features (docs/PROCESSES.md), run as `programs.py FEATURE`.

Each says that it is ready, waits until it has been dumped and restored, and checks that it can finish its
work. Its answer is the file "result"."""
import asyncio
import multiprocessing
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import threading
import time


class NotHere(Exception):
    pass


def checkpoint_here():
    pathlib.Path("ready").touch()
    while not os.path.exists("go"):
        time.sleep(0.01)


def need(program):
    if not shutil.which(program):
        raise NotHere(program)


def square(n):
    return n * n


def pool(method):
    with multiprocessing.get_context(method).Pool(3) as workers:
        assert workers.map(square, range(10)) == [n * n for n in range(10)]
        checkpoint_here()
        assert workers.map(square, range(20)) == [n * n for n in range(20)]


def mp_fork():
    pool("fork")


def mp_spawn():
    pool("spawn")


def mp_forkserver():
    pool("forkserver")


def mp_manager():
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        checkpoint_here()
        shared["b"] = 2
        assert dict(shared) == {"a": 1, "b": 2}


def mp_queue():
    context = multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    worker = context.Process(target=echo, args=(there, back))
    worker.start()
    there.put(1)
    assert back.get() == 1
    checkpoint_here()
    there.put(2)
    assert back.get() == 2
    there.put(None)
    worker.join()


def echo(there, back):
    for value in iter(there.get, None):
        back.put(value)


def python_asyncio():
    async def main():
        process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE,
                                                       stdout=asyncio.subprocess.PIPE)
        await asyncio.to_thread(checkpoint_here)
        out, _ = await process.communicate(b"through cat")
        assert out == b"through cat"

    asyncio.run(main())


def python_threads():
    seen, event = [], threading.Event()
    threads = [threading.Thread(target=lambda: (event.wait(), seen.append(1))) for _ in range(8)]
    for t in threads:
        t.start()
    checkpoint_here()
    event.set()
    for t in threads:
        t.join()
    assert len(seen) == 8


def numpy():
    try:
        import numpy as np
    except ImportError:
        raise NotHere("numpy") from None
    a = np.arange(1 << 20, dtype=np.float64)
    total = a.sum()
    checkpoint_here()
    assert a.sum() == total and (np.ones((200, 200)) @ np.ones((200, 200)))[0, 0] == 200


def python_pty():
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    checkpoint_here()
    os.write(master, b"typed\n")
    text = b""
    while text.count(b"typed") < 2:
        text += os.read(master, 100)


def command(argv, feed=b"go on\n", answer=b"", needs=None):
    """A program that answers a line after the restore."""
    need(needs or argv[0])
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = process.stdout.readline()
    assert b"begin" in line, line
    checkpoint_here()
    out, _ = process.communicate(feed)
    assert answer in out and process.returncode == 0, (out, process.returncode)


def shell_loop():
    command(["bash", "-c", 'n=0; echo begin; while ! test -e go; do n=$((n+1)); sleep 0.01; done; read line; '
             'echo "$line after $(seq 3 | wc -l)"'], answer=b"go on after 3")


def shell_pipeline():
    command(["sh", "-c", "echo begin; sed s/go/went/ | tr a-z A-Z | cat"], answer=b"WENT ON")


def shell_jobs():
    command(["bash", "-c", "coproc cat; sleep 1000 & trap 'kill %2' EXIT; echo begin; read line; "
             'echo "$line" >&${COPROC[1]}; read -u ${COPROC[0]} back; echo "back: $back"; jobs | wc -l'],
            answer=b"back: go on\n2")


def make_j():
    need("make")
    pathlib.Path("Makefile").write_text(
        "all: a b c d\n\t@echo done\na b c d:\n\t@echo begin; while ! test -e go; do sleep 0.02; done\n")
    process = subprocess.Popen(["make", "-j4"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begin\n"
    checkpoint_here()
    out, _ = process.communicate()
    assert b"done" in out and process.returncode == 0, out


def perl():
    command(["perl", "-e", '$| = 1; %h = map { $_ => $_ ** 2 } 1 .. 1000; print "begin\n"; <STDIN>; print $h{30}, "\n"'],
            answer=b"900")


def node():
    command(["node", "-e", 'console.log("begin"); process.stdin.once("data", d => { '
             'console.log("node " + d + [1,2,3].map(n => n * n)); process.exit(0); })'], answer=b"1,4,9")


def java():
    need("java")
    pathlib.Path("Loop.java").write_text(
        "public class Loop { public static void main(String[] a) throws Exception { "
        'System.out.println("begin"); int c = System.in.read(); '
        'System.gc(); System.out.println("java " + (char) c); } }')
    command(["java", "-Xmx64m", "Loop.java"], answer=b"java g")


def script():
    need("script")
    process = subprocess.Popen(["script", "-qc", "echo begin; while ! test -e go; do sleep 0.02; done; tty", "typescript"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert b"begin" in process.stdout.readline()
    checkpoint_here()
    out, _ = process.communicate()
    assert b"/dev/pts/" in out and process.returncode == 0, (out, process.returncode)


def tail():
    pathlib.Path("log").write_text("begin\n")
    need("tail")
    process = subprocess.Popen(["tail", "-n", "+1", "-f", "log"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begin\n"
    checkpoint_here()
    with open("log", "a") as log:
        log.write("more\n")
    line = process.stdout.readline()
    process.kill()
    assert line == b"more\n", line


def sqlite():
    import sqlite3
    base = sqlite3.connect("base")
    base.execute("create table t (n)")
    base.execute("insert into t values (42)")  # in a transaction: it holds a lock
    checkpoint_here()
    base.commit()
    assert base.execute("select n from t").fetchall() == [(42,)]


def gdb():
    need("gdb")
    process = subprocess.Popen(["gdb", "-q", "-ex", "start", "-ex", "info locals", "cat"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(1)
    checkpoint_here()
    process.communicate(b"kill\nquit\n")


def main():
    try:
        globals()[sys.argv[1]]()
        result = "ok"
    except NotHere as missing:
        result = f"not here: {missing}"
    except BaseException as error:  # noqa: B902
        result = f"fail: {type(error).__name__} {error}"
    pathlib.Path("result.new").write_text(result)
    os.rename("result.new", "result")


if __name__ == "__main__":
    main()
