# SPDX-License-Identifier: Apache-2.0
"""Any program starts under ckpt-run, whatever static TLS its libraries need and however small its threads' stacks are;
and a CUDA program gets ckpt's driver by whatever path or folder it reaches another one."""
import os
import shutil
import subprocess

import pytest

from conftest import BUILD, wait_for
from cuda_programs import make  # noqa: F401
from toolkit import HOME, NVCC, WHY_NOT

CUDA_LIBRARY = BUILD / "libckpt-cuda" / "libcuda.so.1"
needs_cuda = pytest.mark.skipif(not CUDA_LIBRARY.exists(), reason="ckpt's CUDA library is not built")

# As jemalloc (2,632 bytes) and ThreadSanitizer (785,760) have it: at a fixed distance from the thread pointer.
LIBRARY = 'static __thread char block[%d] __attribute__((tls_model("initial-exec"))); char *get(void) { return block; }'
USER = """#include <stdio.h>
char *get(void);
int main(void) { get()[0] = 'y'; printf("%s\\n", get()); return 0; }"""
# Threads with the smallest stack of all, and with 64 KiB, use what a stack holds natively.
STACKS = """#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static void *use(void *bytes) { volatile char a[8000]; memset((char *)a, 1, (size_t)bytes); return (void *)a[5]; }
int main(void) {
  for (size_t stack = 16384; stack <= 65536; stack *= 4) {
    pthread_attr_t a; pthread_t t; pthread_attr_init(&a);
    if (pthread_attr_setstacksize(&a, stack) || pthread_create(&t, &a, use, (void *)8000)) return puts("EINVAL"), 1;
    pthread_join(t, NULL);
  }
  return puts("ok") < 0;
}"""
# Opens the driver as Ollama and others do, by the path of a file, and says whose it is.
BY_PATH = """#include <dlfcn.h>
#include <stdio.h>
#include <link.h>
int main(int argc, char **argv) {
  void *driver = dlopen(argc > 1 ? argv[1] : "/nonexistent/libcuda.so.1", RTLD_NOW);
  struct link_map *map;
  if (!driver || dlinfo(driver, RTLD_DI_LINKMAP, &map)) return puts(dlerror()), 1;
  puts(map->l_name);
  fflush(stdout);
  if (argc > 2) getchar();
  return 0;
}"""


def compiled(folder, name, source, *options):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-w", "-D_GNU_SOURCE", str(folder / f"{name}.c"), "-o", str(folder / name), *options], check=True)
    return str(folder / name)


def library(folder, bytes):
    return compiled(folder, "liblarge.so", LIBRARY % bytes, "-shared", "-fPIC")


def user(folder, bytes):
    library(folder, bytes)
    return compiled(folder, "user", USER, f"-L{folder}", "-llarge", f"-Wl,-rpath,{folder}")


def run(ckpt, *words, **environment):
    return subprocess.run([ckpt.tool("ckpt-run"), *words], env={**ckpt.env, **environment}, cwd=ckpt.folder, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


def says(r, text):
    assert (r.returncode, r.stdout, r.stderr) == (0, text + "\n", ""), (r.stdout, r.stderr)


@pytest.mark.parametrize("bytes", [2632, 785760])
@pytest.mark.parametrize("options", [(), ("--audit",)])
def test_static_tls_of_a_library(ckpt, bytes, options):
    program = user(ckpt.folder, bytes)
    says(run(ckpt, *options, "--", program), "y")
    # A child of a shell, and one with a preloaded library of its own.
    says(run(ckpt, *options, "--", "sh", "-c", program), "y")
    says(run(ckpt, *options, "--", "env", f"LD_PRELOAD={ckpt.folder}/liblarge.so", "sh", "-c", "cat /dev/null; echo y"), "y")


@pytest.mark.parametrize("options", [(), ("--audit",)])
def test_threads_with_small_stacks(ckpt, options):
    program = compiled(ckpt.folder, "stacks", STACKS, "-pthread")
    if not options:
        says(run(ckpt, "--", program), "ok")
    else:  # 4 KiB of each stack are for static TLS, so these threads start, and use what is left
        says(run(ckpt, *options, "--", compiled(ckpt.folder, "half", STACKS.replace("8000", "1000"), "-pthread")), "ok")


@pytest.mark.parametrize("options", [(), ("--audit",)])
@pytest.mark.parametrize("name", ["libtsan.so.2", "libjemalloc.so.2"])
def test_a_library_that_is_preloaded(ckpt, name, options):
    if subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": name}, capture_output=True, text=True).stderr:
        pytest.skip(f"{name} is not installed")
    r = run(ckpt, *options, "--", "env", f"LD_PRELOAD={name}", "true")  # a shell crashes under ThreadSanitizer anyway
    assert (r.returncode, r.stderr) == (0, "")


@needs_cuda
def test_who_gets_the_auditor(ckpt):
    def has_auditor(*words):
        return "libckpt-cuda-audit.so" in run(ckpt, *words).stdout

    assert not has_auditor("env")
    assert has_auditor("--audit", "env")
    assert has_auditor("sh", "-c", "LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH env")
    (ckpt.folder / "job.sh").write_text("#!/bin/sh\nexport LD_LIBRARY_PATH=/opt/x\nenv\n")
    (ckpt.folder / "job.sh").chmod(0o755)
    assert has_auditor("./job.sh") and has_auditor("sh", "job.sh")
    assert not has_auditor("--device", "ocl:0", "--audit", "env")


@needs_cuda
def test_the_users_own_tunables_are_kept(ckpt):
    tunables = run(ckpt, "--audit", "sh", "-c", "echo $GLIBC_TUNABLES",
                   GLIBC_TUNABLES="glibc.malloc.check=0:glibc.rtld.optional_static_tls=12288").stdout.strip()
    assert tunables == "glibc.malloc.check=0:glibc.rtld.optional_static_tls=12288"
    assert run(ckpt, "--audit", "sh", "-c", "echo $GLIBC_TUNABLES").stdout.strip() == "glibc.rtld.optional_static_tls=4096"


@needs_cuda
def test_a_driver_that_is_opened_by_its_path(ckpt):
    other = ckpt.folder / "other" / "libcuda.so.1"
    other.parent.mkdir()
    compiled(other.parent, "libcuda.so.1", "int cuInit(unsigned f) { return 34; }", "-shared", "-fPIC",
             "-Wl,-soname,libcuda.so.1")
    program = compiled(ckpt.folder, "by_path", BY_PATH, "-ldl")
    # The program's own file names such a path, so it gets the auditor by itself.
    says(run(ckpt, "--", program, other), str(CUDA_LIBRARY))
    by_name = compiled(ckpt.folder, "by_name", BY_PATH.replace("/nonexistent/libcuda.so.1", "x"), "-ldl")
    says(run(ckpt, "--", "sh", "-c", f"{by_name} $0", "libcuda.so.1"), str(CUDA_LIBRARY))
    says(run(ckpt, "--", "sh", "-c", f"LD_LIBRARY_PATH={other.parent} {by_name} $0", "libcuda.so.1"), str(CUDA_LIBRARY))
    rpath = compiled(ckpt.folder, "rpath", BY_PATH.replace("/nonexistent/", ""), f"-L{other.parent}", "-Wl,--no-as-needed",
                     "-l:libcuda.so.1", "-Wl,--disable-new-dtags", f"-Wl,-rpath,{other.parent}")
    says(run(ckpt, "--", rpath), str(CUDA_LIBRARY))


@needs_cuda
def test_a_driver_that_gets_past_ckpt_is_named_at_the_start(ckpt):
    other = ckpt.folder / "libcuda.so.1"
    compiled(ckpt.folder, "libcuda.so.1", "int cuInit(unsigned f) { return 34; }", "-shared", "-fPIC")
    program = compiled(ckpt.folder, "by_path", BY_PATH.replace("/nonexistent/", ""), "-ldl")
    # The path is put together, so that nothing shows it beforehand.
    job = ckpt.run("sh", "-c", 'd=$PWD/lib; exec "$0" "${d}cuda.so.1" wait', program, stdin=subprocess.PIPE)
    wait_for(lambda: "past ckpt" in job.error_text, "the warning")
    assert str(other) in job.error_text and "--audit" in job.error_text
    job.process.stdin.close()
    assert job.wait() == 0


def test_an_opencl_driver_in_the_program_is_named_at_the_start_and_at_the_dump(ckpt):
    """As in the wheel of pyopencl with PoCL, whose loader opens the driver beside it."""
    folder = ckpt.folder / "pyopencl" / ".libs"
    folder.mkdir(parents=True)
    compiled(folder, "libpocl-21062cec.so", "int unused;", "-shared", "-fPIC")
    program = compiled(ckpt.folder, "by_path", BY_PATH, "-ldl")
    job = ckpt.run(program, folder / "libpocl-21062cec.so", "wait", stdin=subprocess.PIPE)
    wait_for(lambda: "past ckpt" in job.error_text, "the warning")
    assert "pip uninstall pocl-binary-distribution" in job.error_text
    job.process.stdin.close()
    assert job.wait() == 0


# The script puts another driver in front of ours, or leaves only the toolkit's libraries, whose runtime the software
# device cannot have.
@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
@pytest.mark.parametrize("others", ["compat:$LD_LIBRARY_PATH", "compat:toolkit"])
def test_a_cuda_program_whose_script_sets_the_search_path_is_dumped(ckpt, make, others):  # noqa: F811
    ckpt.env["CKPT_SOFTCUDA"] = "1x256M"
    program = make("steps.cu")
    stub = ckpt.folder / "compat"
    stub.mkdir()
    compiled(stub, "libcuda.so.1", "int cuInit(unsigned f) { return 34; }", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    (ckpt.folder / "toolkit").symlink_to(f"{HOME}/lib64")
    (ckpt.folder / "pause").touch()
    job = ckpt.run("sh", "-c", f"LD_LIBRARY_PATH={others} exec {program} 3")
    job.wait_lines(1)
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    (ckpt.folder / "pause").unlink()
    copy = ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert "checksum" in copy.text
    shutil.rmtree(stub)
