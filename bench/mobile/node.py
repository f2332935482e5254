# SPDX-License-Identifier: Apache-2.0
"""A node with software GPUs, on which programs are compiled and run, with or without a Manager."""
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import mix
from energy import Energy

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = mix.HERE / "programs"


class Failed(Exception):
    """Something could not be run; the message says what."""


@dataclasses.dataclass
class Run:
    """One run of a program. Times are those of CLOCK_MONOTONIC, in seconds."""
    program: mix.Program
    begun: float
    ended: float = 0
    gpu: int | None = None  # None under the Manager, where spans have it
    pid: int = 0
    moments: dict = dataclasses.field(default_factory=dict)
    failure: str = ""
    spans: list = dataclasses.field(default_factory=list)  # (state, GPU, from, to)
    evictions: int = 0

    @property
    def own(self):
        """Seconds from the beginning of main() to the last check."""
        return self.moments["checked"] - self.moments["started"] if self.moments else self.ended - self.begun


def compile_programs(folder):
    """Compiles the sources that changed. Returns {source: executable}."""
    home = subprocess.run([ROOT / "scripts" / "find-cuda"], capture_output=True, text=True).stdout.strip()
    if not home:
        raise Failed("there is no CUDA toolkit; scripts/get-cuda downloads one")
    folder.mkdir(parents=True, exist_ok=True)
    newest = max(p.stat().st_mtime for p in [*SOURCES.glob("*.h"), mix.HERE / "mix.py"])
    made = {}
    for name in sorted(set(mix.SOURCE.values())):
        source, target = SOURCES / f"{name}.cu", folder / name
        made[name] = target
        if target.exists() and target.stat().st_mtime > max(newest, source.stat().st_mtime):
            continue
        r = subprocess.run([f"{home}/bin/nvcc", "-O2", "-std=c++17", "-cudart", "shared",
                            f"-DDEVMEM_MIB={mix.mib_of(mix.paper.PROGRAMS['devmem'][1])}", "-o", str(target), str(source)],
                           capture_output=True, text=True)
        if r.returncode != 0:
            raise Failed(f"cannot compile {source}: {r.stderr[:2000]}")
    return made


class Node:
    """A context manager: when it ends, so do all processes that it started."""

    def __init__(self, build, gpus, scale, model, options=()):
        self.build, self.gpus, self.options = build, gpus, list(options)
        if not (build / "softcuda" / "softcuda-run").exists():
            raise Failed(f"the software device is not built in {build}; run scripts/build {build}")
        self.programs = compile_programs(ROOT / "build" / "mobile")
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="mobile-"))
        self.scale = scale
        (self.work / "model").write_text(mix.device_model(model, scale))
        self.env = dict(os.environ, CKPT_RUNTIME_DIR=str(self.work), CKPT_SOFTCUDA=f"{gpus}x{mix.GPU_MIB}M",
                        CKPT_SOFTCUDA_CONTEXT=str(mix.CONTEXT_MIB), CKPT_SOFTCUDA_MODEL=str(self.work / "model"),
                        CKPT_SOFTCUDA_QUIET="1", CUDA_MODULE_LOADING="LAZY", CKPTD_SOCKET=str(self.work / "ckptd.sock"))
        self.children = {}  # PID: (process, run, output file)
        self.daemon = None
        self.energy = None

    def __enter__(self):
        env = {k: v for k, v in self.env.items() if k != "CKPTD_SOCKET"}
        self.energy = Energy([self.build / "softcuda" / "softcuda-run"], env)
        return self

    def __exit__(self, *_):
        self.energy.end()
        for process, _, _ in self.children.values():
            self._end(process)
        if self.daemon:
            self.stop_manager()
        shutil.rmtree(self.work, ignore_errors=True)

    @staticmethod
    def _end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    # ---- programs

    def _start(self, run, command, env):
        out = open(self.work / f"out{run.begun:.6f}", "w+")
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, env=env, cwd=self.work, start_new_session=True)
        self.children[process.pid] = (process, run, out)
        return run

    def command(self, program):
        return [self.programs[mix.SOURCE[program.kind]], *program.arguments()]

    def start_alone(self, program, gpu):
        """Starts a program on this GPU, without a Manager."""
        env = {k: v for k, v in self.env.items() if k != "CKPTD_SOCKET"}
        env["CUDA_VISIBLE_DEVICES"] = str(gpu)
        run = Run(program, time.monotonic(), gpu=gpu)
        return self._start(run, [self.build / "softcuda" / "softcuda-run", *self.command(program)], env)

    def start_managed(self, program):
        run = Run(program, time.monotonic())
        return self._start(run, [self.build / "tools" / "ckpt-run", "--managed", "--", *self.command(program)], self.env)

    def wait_one(self):
        """Waits until a program ends and returns its run."""
        while True:
            pid, status = os.wait()
            now = time.monotonic()
            if pid in self.children:
                break
            if pid == self.energy.process.pid:
                raise Failed("energy.py ended unexpectedly")
            if self.daemon and pid == self.daemon.pid:
                raise Failed("ckptd ended unexpectedly: " + (self.work / "ckptd.log").read_text()[-2000:])
        process, run, out = self.children.pop(pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        run.ended = now
        out.seek(0)
        text = out.read()
        out.close()
        lines = text.splitlines()
        times = next((line.split()[1:] for line in lines if line.startswith("TIMES ")), None)
        if process.returncode != 0 or not times or lines[-1] != "PASSED":
            run.failure = f"exit code {process.returncode}: {text[-500:]}"
        else:
            run.pid = int(times[1])
            run.moments = dict(zip(times[2::2], map(float, times[3::2])))
        return run

    # ---- the Manager

    def start_manager(self):
        tool = self.build / "tools" / "ckptd"
        if not tool.exists():
            raise Failed(f"{tool} is not built; run scripts/build {self.build}")
        log = open(self.work / "ckptd.log", "w")
        command = [str(tool), "--journal", str(self.work / "journal"), "--startup-delay", "0", *self.options]
        self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                       cwd=self.work, start_new_session=True)
        log.close()
        end = time.monotonic() + 30
        while "listening on" not in (text := (self.work / "ckptd.log").read_text()):
            if self.daemon.poll() is not None or time.monotonic() > end:
                raise Failed(f"ckptd did not start: {text}")
            time.sleep(0.01)

    def stop_manager(self):
        self.daemon.terminate()
        try:
            self.daemon.wait(20)
        except subprocess.TimeoutExpired:
            self._end(self.daemon)
        self.daemon = None

    def journal(self):
        return (self.work / "journal").read_text().splitlines()
