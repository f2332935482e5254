# SPDX-License-Identifier: Apache-2.0
"""The table of process features: what plain CRIU and ckpt do with each.

A row is one feature of a family, and a family one program of programs/features/, run as `FAMILY FEATURE`
in a folder of its own. It creates the file "ready", waits for the file "go", and answers in "result": "ok",
"fail: …", or "not here: …" where the machine lacks the feature. To add a row: a function in the program of the
family, and a line in FEATURES.
"""
import contextlib
import ctypes
import dataclasses
import fcntl
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = pathlib.Path(__file__).resolve().parent / "programs" / "features"
PATIENCE = 120  # seconds of a loaded machine; nothing waits that long unless something is wrong

# Family: its heading, and its rows. A row ends in " [tty]" if its standard input is a terminal of ours, in
# " [ran on]" if the program runs on after the dump and changes what it has, in " [restarted]" if the files that
# it names in "volatile" are gone before the restore.
FEATURES = {
    "files": ("Files", {
        "position": "a position that two descriptors share",
        "append": "a log that is only appended to",
        "deleted": "an unlinked file",
        "tmpfile": "`O_TMPFILE`",
        "hard_link": "an unlinked file that has another name",
        "renamed": "a renamed file",
        "proc_status": "`/proc/self/status`",
        "proc_maps": "`/proc/self/maps`",
        "proc_mem": "`/proc/self/mem`",
        "proc_mountinfo": "`/proc/self/mountinfo`",
        "proc_task": "`/proc/self/task/TID/stat`",
        "proc_net": "`/proc/net/dev`",
        "proc_stat": "`/proc/stat`",
        "proc_folder": "the folder `/proc/self`",
        "proc_child": "`/proc/PID/stat` of a child",
        "proc_ended": "`/proc/PID/stat` of an ended child",
        "sys_file": "a file of `/sys/kernel`",
        "sys_cpu": "a file of `/sys/devices`",
        "cgroup_file": "a file of a control group",
        "folder": "an open folder",
        "path_only": "`O_PATH`",
        "symlink_path": "`O_PATH` of a symbolic link",
        "deleted_cwd": "a working folder that was removed",
        "sparse": "a sparse file of 4 TiB",
        "sparse_deleted": "an unlinked sparse file of 512 MiB",
        "fifo": "a FIFO with unread bytes",
        "flock": "`flock`",
        "fcntl_lock": "a record lock",
        "ofd_lock": "an open file description lock",
        "lease": "a lease",
        "folder_signals": "`F_NOTIFY` (dnotify)",
        "async_owner": "`F_SETOWN`, `F_SETSIG`",
        "many": "900 descriptors",
        "file_size_limit": "`RLIMIT_FSIZE` of 1,000 bytes",
        "file_size_limit_deleted": "`RLIMIT_FSIZE` below the size of an unlinked file",
    }),
    "memory": ("Memory", {
        "anonymous": "private memory, a part of it read-only",
        "huge_pages": "transparent huge pages",
        "sparse_100g": "100 GiB with `MAP_NORESERVE`",
        "sparse_9t": "9 TiB with `MAP_NORESERVE`",
        "reserved": "a `PROT_NONE` reservation of three times the machine's memory",
        "read_only_file": "a read-only private mapping of a file larger than memory",
        "many_mappings": "60,000 mappings",
        "shared_by_fork": "shared memory of parent and child",
        "file_shared": "a shared file mapping",
        "file_private": "a private file mapping",
        "file_deleted": "a mapping of an unlinked file",
        "mapped_hard_link": "a mapping of an unlinked file that has another name",
        "memfd": "a memfd",
        "memfd_seals": "a sealed memfd",
        "secret_memory": "`memfd_secret`",
        "hugetlb": "`MAP_HUGETLB`",
        "posix_shm": "`shm_open`",
        "posix_shm_changed": "`shm_open`, after the program ran on [ran on]",
        "posix_shm_lost": "`shm_open`, after a restart of the machine [restarted]",
        "shared_file_changed": "a shared mapping of a file on a disk, after the program ran on [ran on]",
        "kept_file_lost": "a shared mapping of a small file on a disk that vanished [restarted]",
        "locked": "`mlock`",
        "lock_future": "`mlockall(MCL_FUTURE)`",
        "memory_policy": "memory policies (`numactl`, `mbind`)",
        "merged_pages": "KSM (`PR_SET_MEMORY_MERGE`)",
        "advice": "`MADV_WIPEONFORK`",
        "grows_down": "`MAP_GROWSDOWN`",
        "executable": "generated code",
        "protection_key": "protection keys",
        "copy_on_write": "copy on write between parent and child",
        "device_zero": "a mapping of `/dev/zero`",
    }),
    "descriptors": ("Descriptors", {
        "eventfd": "eventfd",
        "eventfd_semaphore": "eventfd as a semaphore",
        "signalfd": "signalfd with a pending signal",
        "timerfd": "timerfd",
        "timerfd_boottime": "timerfd of `CLOCK_BOOTTIME`",
        "timerfd_expired": "a periodic timerfd that expired unread",
        "timerfd_once_expired": "a single timerfd that expired unread",
        "epoll": "epoll, edge-triggered",
        "epoll_nested": "epoll in epoll",
        "epoll_moved": "epoll on a descriptor that was closed after `dup2`",
        "inotify": "inotify",
        "inotify_unread": "unread inotify events (the program reads `IN_Q_OVERFLOW`)",
        "inotify_unlinked": "an inotify watch of an unlinked open file",
        "fanotify": "fanotify",
        "fanotify_unread": "unread fanotify events",
        "pidfd": "pidfd",
        "full_pipe": "a full pipe",
        "large_pipe": "a pipe of 1 MiB",
        "packet_pipe": "a pipe in packet mode",
        "half_closed_pipe": "a pipe without a writer",
        "broken_pipe": "a pipe without a reader",
        "duplicates": "`FD_CLOEXEC`, high numbers",
        "aio": "Linux AIO",
        "io_uring": "io_uring",
        "userfaultfd": "userfaultfd",
        "perf": "perf events",
        "bpf": "a BPF map",
        "namespace_file": "a file of `/proc/self/ns`",
        "random_device": "`/dev/urandom`",
        "tun": "`/dev/net/tun`",
        "block_device": "a block device",
        "fuse": "`/dev/fuse`",
        "mount_object": "`fsopen`",
    }),
    "sockets": ("Sockets", {
        "unix_pair": "a UNIX pair with unread bytes",
        "unix_datagram_pair": "a UNIX datagram pair",
        "unix_datagram_sender": "unread UNIX datagrams and their sender",
        "unix_packet_pair": "a UNIX `SOCK_SEQPACKET` pair",
        "unix_packets": "several unread packets of a UNIX `SOCK_SEQPACKET` pair",
        "unix_listener": "a listening UNIX socket",
        "unix_renamed": "a UNIX socket that was renamed after `bind`",
        "unix_renamed_relative": "the same, bound to a relative path",
        "unix_connected": "a UNIX connection inside the program",
        "unix_not_accepted": "a UNIX connection that is not accepted yet",
        "pipe_in_flight": "the read end of a pipe in flight (`SCM_RIGHTS`)",
        "write_end_in_flight": "the write end of a pipe in flight, behind other data",
        "file_in_flight": "a file in flight",
        "abstract_listener": "an abstract UNIX socket",
        "netlink": "netlink",
        "packet": "a packet socket",
        "packet_unread": "unread packets of a packet socket",
        "vsock": "vsock",
        "tcp_listener": "a listening TCP socket",
        "udp": "UDP",
        "udp_unread": "unread UDP datagrams",
        "raw": "a raw socket",
        "raw_unread": "unread packets of a raw socket",
        "socket_options": "options of IP and TCP sockets",
        "multicast": "multicast groups",
        "peer_credentials": "the PID in `SO_PEERCRED`",
    }),
    "terminals": ("Terminals", {
        "own_pair": "`openpty`",
        "two_pairs": "two pseudo-terminals",
        "child_on_it": "a child with a session on a pseudo-terminal (`forkpty`)",
        "by_dev_tty": "`/dev/tty` of a pseudo-terminal of its own",
        "master_only": "a pseudo-terminal of which only the master is open",
        "slave_only": "a pseudo-terminal whose master was closed",
        "outer": "the terminal in which it was started [tty]",
        "outer_and_own": "that terminal and one of its own [tty]",
    }),
    "processes": ("Processes, signals, rights", {
        "threads": "8 threads",
        "threads_1000": "1,000 threads",
        "thread_names": "names of threads",
        "leader_ended": "a main thread that has ended",
        "processes_200": "200 processes",
        "zombie": "a zombie",
        "session": "a session of its own in a child",
        "own_group": "a process group of its own",
        "stopped_child": "a stopped child",
        "vfork_exec": "`vfork` and `exec`",
        "in_vfork": "a child of `vfork` before `exec`",
        "daemon": "a daemon that left the process tree",
        "subreaper": "a subreaper with an orphan",
        "traced_child": "a child under ptrace",
        "robust_mutex": "a robust mutex that a child holds",
        "condition": "a condition variable with a time limit",
        "interval_timer": "`setitimer`",
        "posix_timer": "`timer_create`",
        "ended_threads_timer": "a `timer_create` timer of a thread that has ended",
        "thread_cpu_timer": "a `timer_create` timer on the CPU clock of another thread",
        "own_cpu_timer": "one on `CLOCK_THREAD_CPUTIME_ID` that notifies the thread which made it",
        "unknown_cpu_timer": "one on `CLOCK_THREAD_CPUTIME_ID` that notifies the process, made by one of several threads",
        "ended_threads_cpu_timer": "one on the CPU clock of a thread that has ended",
        "childs_cpu_timer": "one on the CPU clock of a child",
        "outer_cpu_timer": "one on the CPU clock of a process outside of the program",
        "thread_descriptors": "a thread with its own descriptors (`CLONE_FILES`)",
        "thread_folder": "a thread with its own working folder (`CLONE_FS`)",
        "thread_namespace": "a thread with its own namespace",
        "alternate_stack": "`sigaltstack`",
        "queued_signals": "queued real-time signals with values",
        "signal_actions": "handlers, masks, ignored signals",
        "parent_death_signal": "`PR_SET_PDEATHSIG`",
        "limits": "`RLIMIT_NOFILE`, `RLIMIT_STACK`",
        "address_space_limit": "`RLIMIT_AS`",
        "few_descriptors": "`RLIMIT_NOFILE` of 8",
        "data_limit": "`RLIMIT_DATA`",
        "cpu_limit": "`RLIMIT_CPU`",
        "seccomp_filter": "a seccomp filter",
        "landlock": "Landlock",
        "bounding_set": "the capability bounding set",
        "other_user": "a changed user",
        "no_new_privileges": "`PR_SET_NO_NEW_PRIVS`",
        "no_written_code": "`PR_SET_MDWE`",
        "not_dumpable": "`PR_SET_DUMPABLE` 0",
        "securebits": "`PR_SET_SECUREBITS`",
        "session_keyring": "a session keyring with a key",
        "security_label": "the label of a security module",
        "setarch": "`personality` (setarch)",
        "taskset": "an affinity (taskset)",
        "bound": "threads that are bound to processors",
        "niceness": "niceness",
        "io_priority": "I/O priorities and timer slack of threads (`ionice`)",
        "core_dump_filter": "`coredump_filter`",
        "batch_policy": "`SCHED_BATCH`",
        "realtime_policy": "`SCHED_FIFO`",
        "file_mask": "umask",
        "root_folder": "`chroot`",
        "floating_point": "the floating-point control word",
        "monotonic_clock": "`CLOCK_MONOTONIC`",
        "oom_score": "`oom_score_adj`",
    }),
    "ipc": ("Inter-process communication", {
        "named_semaphore": "a POSIX named semaphore",
        "named_semaphore_changed": "a POSIX named semaphore, after the program ran on [ran on]",
        "unlinked_semaphore": "an unlinked one, with a waiting child",
        "semaphore_of_two_names": "a semaphore that two processes have mapped by two names [restarted]",
        "unnamed_semaphore": "a semaphore in shared memory",
        "message_queue": "a POSIX message queue",
        "sysv_memory": "System V shared memory",
        "sysv_semaphores": "System V semaphores",
        "sysv_messages": "System V messages",
    }),
    "namespaces": ("Namespaces of its own", {
        "uts": "UTS", "ipc": "IPC, with System V shared memory", "net": "network", "mount": "mount, with a tmpfs",
        "user": "user", "mapped_user": "user, mapped to root", "pid": "PID, with a child in it",
        "time": "time, with a child in it", "cgroup": "control group",
    }),
    "programs": ("Real programs", {
        "shell_loop": "a loop of bash", "shell_pipeline": "a pipeline", "shell_jobs": "jobs and coprocesses of bash",
        "make_j": "`make -j4`", "mp_fork": "Python multiprocessing, fork", "mp_spawn": "Python multiprocessing, spawn",
        "mp_forkserver": "Python multiprocessing, forkserver", "mp_manager": "a Python multiprocessing Manager",
        "mp_queue": "a Python multiprocessing Queue", "python_asyncio": "Python asyncio with a child",
        "python_threads": "Python threads", "numpy": "NumPy", "python_pty": "Python `pty`", "perl": "Perl",
        "node": "Node.js", "java": "Java", "script": "script(1)", "tail": "`tail -f`",
        "sqlite": "SQLite in a transaction", "gdb": "gdb with its program",
    }),
}


@dataclasses.dataclass(frozen=True)
class Feature:
    family: str
    name: str
    text: str
    terminal: bool
    ran_on: bool = False
    restarted: bool = False

    @property
    def id(self):
        return f"{self.family}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """works · refused (before the program was touched) · fails · not here. `why` is for the last three."""
    kind: str
    why: str = ""


def features():
    return [Feature(family, name, text.split(" [")[0], text.endswith(" [tty]"), text.endswith(" [ran on]"),
                    text.endswith(" [restarted]"))
            for family, (_, rows) in FEATURES.items() for name, text in rows.items()]


def build(folder):
    """Compiles the families into `folder`, side by side."""
    compilers = [subprocess.Popen(["cc", "-O1", "-pthread", str(source), "-o", str(folder / source.stem), "-lrt", "-lutil"])
                 for source in sorted(SOURCES.glob("*.c"))]
    assert all(c.wait() == 0 for c in compilers)


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited for {what}")
        time.sleep(0.01)
    return value


class Program:
    """One run of a feature's program, in a new folder. Subclasses dump and restore it."""

    def __init__(self, feature, programs):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="feature-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.work = self.folder / "work"
        self.work.mkdir()
        source = SOURCES / f"{feature.family}.py"
        self.command = [sys.executable if sys.executable.startswith("/usr") else "/usr/bin/python3", str(source)] \
            if source.exists() else [str(programs / feature.family)]
        self.command.append(feature.name)
        self.master = None
        self.feature = feature
        self.started = []

    def start(self, prefix=()):
        stdin = subprocess.DEVNULL
        if self.feature.terminal:
            self.master, stdin = pty.openpty()
            self.slave_name = os.ttyname(stdin)
        with open(self.folder / "out", "wb") as out:
            process = subprocess.Popen([*prefix, *self.command], stdin=stdin, stdout=out, stderr=out, cwd=self.work,
                                       start_new_session=True, env=self.environment(),
                                       preexec_fn=take_terminal if self.feature.terminal else None)
        if self.feature.terminal:
            os.close(stdin)
        self.started.append(process)
        return process

    def environment(self):
        return {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")}

    def run(self, *command, **options):
        r = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=self.environment(),
                           stdin=subprocess.DEVNULL, timeout=PATIENCE, cwd=self.folder, **options)
        return r

    def result(self):
        path = self.work / "result"
        return path.read_text() if path.exists() else ""

    def ready(self, process):
        wait_until(lambda: (self.work / "ready").exists() or self.result() or process.poll() is not None, "ready")
        return (self.work / "ready").exists() and not self.result()

    def answer(self):
        """After the restore, or after a refusal: lets the program go on, and returns what it says."""
        (self.work / "go").touch()
        try:
            said = wait_until(lambda: self.result() or not processes_in(self.work), "the result")
        except TimeoutError:
            return Outcome("fails", "it does not go on")
        said = self.result() or "it is gone"
        return Outcome("works") if said == "ok" else Outcome("fails", said)

    def try_it(self):
        process = self.start()
        if not self.ready(process):
            return Outcome("not here", self.result().removeprefix("not here: ") or "it ended at once")
        return self.checkpointed(process)

    def checkpointed(self, process):
        return self.answer()

    def leave_running(self):
        return ["--leave-running"] if self.feature.ran_on else []

    def after_dump(self):
        """What happens to the program and to the machine until the restore."""
        if self.feature.ran_on:
            (self.work / "change").touch()
            wait_until((self.work / "changed").exists, "the change")
            for pid in processes_in(self.work):
                kill(pid)
            for name in ("change", "changed"):
                (self.work / name).unlink()
        if self.feature.restarted:
            pathlib.Path((self.work / "volatile").read_text()).unlink()

    def close(self):
        for pid in processes_in(self.work):
            kill(pid)
        for process in self.started:
            kill(process.pid)
            process.wait()
        if self.master is not None:
            os.close(self.master)
        shutil.rmtree(self.folder, ignore_errors=True)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def tree_of(root):
    """The processes below `root`."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
            except OSError:
                pass
    found, todo = [], [root]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def processes_in(folder):
    """The processes that were started in `folder`, by their environment or their working folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                inside = os.readlink(entry / "cwd").startswith(str(folder))
                if inside or f"PWD={folder}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


@contextlib.contextmanager
def subreaper():
    """Orphans of a dumped program become our children, so that reap() can free their PIDs. Afterwards they are those
    of PID 1 again: the orphans of other tests would stay zombies here."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        yield
    finally:
        libc.prctl(36, 0, 0, 0, 0)


def reap(pids):
    for pid in pids:
        try:
            wait_until(lambda p=pid: os.waitpid(p, os.WNOHANG)[0], f"the end of process {pid}")
        except ChildProcessError:
            pass


def take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def last_error(log):
    errors = [line.split("): ", 1)[-1] for line in log.splitlines() if "Error (" in line and "rlimit: " not in line]
    return errors[0] if errors else "no error in the log"


class PlainCriu(Program):
    """criu dump and criu restore, with the options that ckpt gives too."""
    OPTIONS = ["--shell-job", "--file-locks", "-v4"]
    criu = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"

    def checkpointed(self, process):
        images = self.folder / "images"
        images.mkdir()
        tree = tree_of(process.pid)
        r = self.run(self.criu, "dump", "-t", process.pid, "-D", images, "-o", "dump.log", "--link-remap",
                     "--ghost-limit", 1 << 30, *self.OPTIONS, *self.leave_running())
        if r.returncode:
            return Outcome("fails", "dump: " + last_error((images / "dump.log").read_text(errors="replace")))
        self.after_dump()
        process.wait()
        reap(tree)
        stdin, setup = subprocess.DEVNULL, None
        if self.feature.terminal:
            stdin, setup = os.open(self.slave_name, os.O_RDWR | os.O_NOCTTY), take_terminal
        r = subprocess.run([self.criu, "restore", "-D", str(images), "-o", "restore.log", "-d", *self.OPTIONS],
                           capture_output=True, timeout=PATIENCE, stdin=stdin, start_new_session=True, preexec_fn=setup)
        if r.returncode:
            return Outcome("fails", "restore: " + last_error((images / "restore.log").read_text(errors="replace")))
        return self.answer()


class Ckpt(Program):
    """ckpt-run, ckpt-dump and ckpt-restore of a build folder."""
    build = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()

    def __init__(self, feature, programs):
        super().__init__(feature, programs)
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-"))

    def environment(self):
        return dict(super().environment(), CKPT_RUNTIME_DIR=str(self.runtime))

    def tool(self, name):
        return str(self.build / "tools" / name)

    def start(self, prefix=()):
        return super().start([*prefix, self.tool("ckpt-run"), "--"])

    def checkpointed(self, process):
        r = self.run(self.tool("ckpt-dump"), process.pid, "-o", self.folder / "image", *self.leave_running())
        if r.returncode:
            runs_on = self.answer()
            if runs_on.kind != "works" and self.feature.id not in MAY_NOT_RUN_ON:
                return Outcome("fails", f"dump: {r.stderr.strip()}; it does not run on: {runs_on.why}")
            before = "cannot be checkpointed now:" in r.stderr
            return Outcome("refused" if before else "fails", reason_in(r.stderr))
        self.after_dump()
        process.wait()
        r = self.run(self.tool("ckpt-restore"), "--detach", "--output", self.folder / "out", self.folder / "image")
        if r.returncode:
            return Outcome("fails", "restore: " + reason_in(r.stderr))
        return self.answer()

    def close(self):
        super().close()
        shutil.rmtree(self.runtime, ignore_errors=True)


# Their own check fails where nothing was dumped, which is no fault of ckpt.
MAY_NOT_RUN_ON = {}


def reason_in(error):
    lines = [line.strip().removeprefix("- ") for line in error.strip().splitlines()]
    kept = [line for line in lines if line and not line.startswith("hint") and not line.endswith("now:")]
    return kept[0] if kept else error.strip()


def outcome(kind, feature, programs):
    """What `kind` (Program, PlainCriu, Ckpt) does with the feature."""
    with subreaper():
        program = kind(feature, programs)
        try:
            return program.try_it()
        except (TimeoutError, subprocess.TimeoutExpired) as late:
            return Outcome("fails", str(late))
        finally:
            program.close()
