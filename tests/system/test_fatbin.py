# SPDX-License-Identifier: Apache-2.0
"""ckpt-fatbin on files that nvcc makes. Skipped without a CUDA toolkit."""
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT
from toolkit import NVCC, WHY_NOT
from workers import make_once, shared_folder

SOURCES = ROOT / "tests" / "programs" / "fatbin"
TOOL = BUILD / "tools" / "ckpt-fatbin"
NO_HEAP, HEAP, FAILED = 0, 1, 2


pytestmark = [
    pytest.mark.no_criu,
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not TOOL.exists(), reason="tools/ckpt-fatbin is not built"),
]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """make("facts.cu", "-arch=sm_75", to="x.fatbin") runs nvcc, once for equal arguments, and returns the path."""
    folder = shared_folder(tmp_path_factory, "fatbin")

    @functools.lru_cache(maxsize=None)
    def run(*words, to):
        words = [str(SOURCES / w) if w.endswith((".cu", ".cc")) else w for w in words]
        path = folder / f"{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}-{to}"

        def compile():
            done = subprocess.run([NVCC, *words, "-o", str(path)], capture_output=True, text=True,
                                  cwd=folder, timeout=200)
            assert done.returncode == 0, done.stderr

        return make_once(path, compile)

    return run


def tool(*words):
    return subprocess.run([TOOL, *map(str, words)], capture_output=True, timeout=60)


def examine(path, *words):
    """The tool's JSON output, with its exit code as "code". There must be no error message."""
    done = tool("--json", "-q", path, *words)
    assert done.stderr == b""
    return {**json.loads(done.stdout), "code": done.returncode}


def entries(output):
    return [e for c in output["fat_binaries"] for e in c["entries"]]


def kinds(output):
    return sorted((e["kind"], e["compression"]) for e in entries(output))


def names(output, what="kernels"):
    return {k["name"]: k for k in output[what]}


MIXED = "_Z5mixedPKfs5MixedPf"
ALL = ("-DHEAP", "-DPRINT", "-DTEXTURES")


def check_all_facts(output, targets):
    """`output` describes facts.cu, compiled with ALL for these targets."""
    kernels = names(output)
    assert set(kernels) == {MIXED, "_Z7nothingv", "_Z5large4LongPi", "_Z10only_freesPi", "_Z9allocatesPPi",
                            "_Z6printsv", "_Z6texelsyPf", "_Z7surfelsy"}
    mixed = kernels[MIXED]
    assert [(p["offset"], p["bytes"]) for p in mixed["parameters"]] == [(0, 8), (8, 2), (16, 32), (48, 8)]
    assert mixed["parameter_bytes"] == 56
    assert mixed["targets"] == sorted(targets)
    assert [(p["offset"], p["bytes"]) for p in kernels["_Z5large4LongPi"]["parameters"]] == [(0, 30000), (30000, 8)]
    assert kernels["_Z7nothingv"]["parameters"] == []
    assert not any(k["differs"] for k in kernels.values())
    variables = {v["name"]: (v["space"], v["bytes"]) for v in output["variables"]}
    assert variables == {"counter": ("global", 400), "coefficients": ("constant", 64), "seen": ("managed", 28)}
    assert output["heap"]["use"] == "yes" and "malloc" in output["heap"]["reason"]
    assert output["code"] == HEAP
    assert output["printf"] and not output["dynamic_parallelism"]
    assert output["unexamined"] == []


MODES = {
    "default": ((), [("elf", "raw"), ("ptx", "zstd")]),
    "balance": (("-compress-mode=balance",), [("elf", "raw"), ("ptx", "zstd")]),
    "size": (("-compress-mode=size",), [("elf", "zstd"), ("ptx", "zstd")]),
    "all": (("-Xfatbin", "-compress-all"), [("elf", "zstd"), ("ptx", "zstd")]),
    "speed": (("-compress-mode=speed",), [("elf", "raw"), ("ptx", "lz4")]),
    "none": (("-compress-mode=none",), [("elf", "raw"), ("ptx", "raw")]),
}


@pytest.mark.parametrize("mode", MODES)
def test_compression(make, mode):
    options, expected = MODES[mode]
    output = examine(make("facts.cu", "-fatbin", "-arch=sm_75", *ALL, *options, to="facts.fatbin"))
    assert kinds(output) == expected
    assert output["form"] == "fat binary"
    # check_all_facts() finds different parameters of cubin and PTX by "differs".
    check_all_facts(output, ["compute_75", "sm_75"])
    assert output["textures"] == output["surfaces"] == "yes"


def test_several_architectures(make):
    several = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ("80", "90a", "100f", "120")]
    several.append("-gencode=arch=compute_120,code=compute_120")
    output = examine(make("facts.cu", "-fatbin", *several, *ALL, to="several.fatbin"))
    check_all_facts(output, ["sm_80", "sm_90a", "sm_100f", "sm_120", "compute_120"])
    assert [e["target"] for e in entries(output) if e["kind"] == "elf"] == ["sm_80", "sm_90a", "sm_100f", "sm_120"]


def test_debug_code(make):
    output = examine(make("facts.cu", "-fatbin", "-arch=sm_75", "-G", *ALL, to="debug.fatbin"))
    check_all_facts(output, ["compute_75", "sm_75"])
    assert all(e["debug"] for e in entries(output))


@pytest.mark.parametrize("form", ["cubin", "ptx"])
def test_cubin_and_ptx_files(make, form):
    output = examine(make("facts.cu", f"-{form}", "-arch=sm_90a", *ALL, to=f"facts.{form}"))
    assert output["form"] == form
    check_all_facts(output, ["sm_90a" if form == "cubin" else "compute_90"])
    # The instructions of a cubin cannot be read.
    assert output["textures"] == ("unknown" if form == "cubin" else "yes")


def test_executables_and_their_runtime(make, tmp_path):
    static = make("facts.cu", "-arch=sm_75", *ALL, to="static")
    shared = make("facts.cu", "-arch=sm_75", "-cudart=shared", *ALL, to="shared")
    for path, runtime in (static, "static"), (shared, "shared"):
        output = examine(path)
        assert output["form"] == "executable"
        assert output["runtime"]["kind"] == runtime
        check_all_facts(output, ["compute_75", "sm_75"])
        stripped = tmp_path / path.name
        subprocess.run(["strip", "-o", stripped, path], check=True)
        assert examine(stripped)["runtime"]["kind"] == runtime
        check_all_facts(examine(stripped), ["compute_75", "sm_75"])


def test_runtime_without_kernels(make, tmp_path):
    for runtime in "static", "shared":
        path = make("host.cc", f"-cudart={runtime}", to="host")
        subprocess.run(["strip", path], check=True)
        output = examine(path)
        assert output["runtime"]["kind"] == runtime
        assert output["code"] == NO_HEAP and "no device code" in output["heap"]["reason"]
    assert examine("/bin/sh")["runtime"]["kind"] == "none"


def test_shared_library_and_object(make):
    library = examine(make("facts.cu", "-arch=sm_75", "-shared", "-Xcompiler=-fPIC", "-cudart=shared", *ALL,
                           to="libfacts.so"))
    assert (library["form"], library["runtime"]["kind"]) == ("shared library", "shared")
    check_all_facts(library, ["compute_75", "sm_75"])
    object_file = examine(make("facts.cu", "-arch=sm_75", "-c", *ALL, to="facts.o"))
    assert (object_file["form"], object_file["runtime"]["kind"]) == ("object", "unlinked")
    check_all_facts(object_file, ["compute_75", "sm_75"])


@pytest.mark.parametrize("options", [(), ("-DPOOL",), ("-DPRINT",)])
@pytest.mark.parametrize("arch", ["75", "120"])
def test_no_heap(make, options, arch):
    output = examine(make("facts.cu", "-fatbin", f"-arch=sm_{arch}", *options, to="quiet.fatbin"))
    assert output["heap"]["use"] == "no" and output["code"] == NO_HEAP
    assert output["printf"] == ("-DPRINT" in options)
    assert output["textures"] == output["surfaces"] == "no"


@pytest.mark.parametrize("options", [("-compress-mode=size",), ("-G",)])
def test_linked_code_counts(make, options):
    """A unit contains a call of malloc in a function that is not used; the linked program does not."""
    output = examine(make("caller.cu", "library.cu", "-rdc=true", "-arch=sm_75", *options, to="linked"))
    roles = [c["role"] for c in output["fat_binaries"]]
    assert roles == ["loaded", "unit", "unit"]
    assert set(names(output)) == {"_Z6kernelPi"}
    # With -G the linker keeps unused functions.
    assert output["code"] == (HEAP if options == ("-G",) else NO_HEAP)
    called = examine(make("caller.cu", "library.cu", "-rdc=true", "-arch=sm_75", "-DCALLED", *options, to="called"))
    assert called["code"] == HEAP and "fat binary 0 calls malloc" in called["heap"]["reason"]


def test_units_before_linking(make):
    output = examine(make("library.cu", "-rdc=true", "-arch=sm_75", "-c", to="library.o"))
    assert output["code"] == HEAP and "before linking" in output["heap"]["reason"]
    assert [c["role"] for c in output["fat_binaries"]] == ["unit"]
    relocatable = examine(make("facts.cu", "-rdc=true", "-arch=sm_75", "-cubin", *ALL, to="unit.cubin"))
    check_all_facts(relocatable, ["sm_75"])
    # With PTX only, the driver links when the program starts.
    late = examine(make("caller.cu", "library.cu", "-rdc=true", "-gencode=arch=compute_75,code=compute_75", to="late"))
    assert late["code"] == HEAP and "before linking" in late["heap"]["reason"]
    assert not late["dynamic_parallelism"] and set(names(late)) == {"_Z6kernelPi"}


def test_registered_in_memory(make):
    """The fat binary that a running program registers is read where it lies in memory."""
    registrar = BUILD / "tests" / "programs" / "fatbin" / "libfatbin-registrar.so"
    if not registrar.exists():
        pytest.skip("tests/programs/fatbin is not built")

    def registered(program):
        environment = {**os.environ, "LD_PRELOAD": str(registrar),
                       "LD_LIBRARY_PATH": f"{pathlib.Path(NVCC).parents[1]}/lib64"}
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    lines = registered(make("facts.cu", "-arch=sm_75", "-cudart=shared", *ALL, to="shared"))
    assert lines[:4] == ["wrapper", "loaded elf sm_75", "loaded ptx compute_75", "heap yes"]
    assert f"kernel {MIXED} 56" in lines and len(lines) == 4 + 8
    linked = registered(make("caller.cu", "library.cu", "-rdc=true", "-arch=sm_75", "-cudart=shared", to="linked"))
    units = ["unit elf sm_75", "unit ptx compute_75"]
    assert linked == ["wrapper", "loaded elf sm_75", *units, *units, "heap no", "kernel _Z6kernelPi 8"]


def test_dynamic_parallelism(make):
    link = ("-rdc=true", "-arch=sm_75", "-lcudadevrt")
    output = examine(make("launches.cu", *link, to="launches"))
    assert output["dynamic_parallelism"] and output["code"] == NO_HEAP
    assert {"_Z5childPi", "_Z6parentPi"} <= set(names(output))
    assert examine(make("launches.cu", *link, "-DALLOCATES", to="allocates"))["code"] == HEAP
    unit = examine(make("launches.cu", *link[:2], "-DALLOCATES", "-ptx", to="allocates.ptx"))
    assert unit["code"] == HEAP and unit["dynamic_parallelism"]


def test_lto_ir_is_assumed_to_use_the_heap(make):
    output = examine(make("caller.cu", "-rdc=true", "-fatbin", "-gencode=arch=compute_90,code=lto_90", to="lto.fatbin"))
    assert output["heap"]["use"] == "assumed" and output["code"] == HEAP
    assert [e["kind"] for e in entries(output)] == ["lto-ir"]
    assert "not public" in output["unexamined"][0]["reason"]


def test_extracted_ptx_is_what_nvcc_wrote(make, tmp_path):
    fat = make("facts.cu", "-fatbin", "-arch=sm_75", *ALL, "-compress-mode=speed", to="facts.fatbin")
    done = tool("--extract-ptx", tmp_path / "ptx", fat)
    assert done.returncode == 0
    (path,) = done.stdout.decode().split()
    assert pathlib.Path(path).name == "0.1.compute_75.ptx"
    text = pathlib.Path(path).read_bytes()
    assert tool("--extract", "0.1", fat).stdout == text
    check_all_facts(examine(path), ["compute_75"])
    again = subprocess.run([pathlib.Path(NVCC).parent / "ptxas", "-arch=sm_75", path, "-o", tmp_path / "again.cubin"],
                           capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    check_all_facts(examine(tmp_path / "again.cubin"), ["sm_75"])
    # A cubin is extracted as it is in the file; an existing file is not overwritten.
    assert tool("--extract", "0.0", fat).stdout[:4] == b"\x7fELF"
    assert b"File exists" in tool("--extract-ptx", tmp_path / "ptx", fat).stderr
    for wrong in "0.2", "7.0", "x", "0.", "":
        done = tool("--extract", wrong, fat)
        assert done.returncode in (FAILED, HEAP if wrong == "" else FAILED)


def test_default_page_and_list_of_entries(make):
    fat = make("facts.cu", "-fatbin", "-arch=sm_75", *ALL, to="facts.fatbin")
    page = tool(fat)
    assert page.returncode == HEAP
    text = page.stdout.decode()
    assert f"{MIXED} (8@0 2@8 32@16 8@48) compute_75 sm_75" in text
    assert "device heap  yes: the elf entry of sm_75 calls malloc" in text
    listed = tool("--entries", fat)
    assert listed.returncode == 0
    assert [line.split()[:4] for line in listed.stdout.decode().splitlines()[1:]] == [
        ["0.0", "sm_75", "elf", "raw"], ["0.1", "compute_75", "ptx", "zstd"]]


def test_a_damaged_file_never_leads_to_no_heap(make, tmp_path):
    """A program that uses the heap is truncated, or a byte of its headers is overwritten: the result is an error
    or "yes", never "no". Damaged payloads are not tested, since fat binaries have no checksums."""
    whole = make("facts.cu", "-arch=sm_75", "-cudart=shared", "-compress-mode=size", *ALL, to="size").read_bytes()
    start = whole.index(b"\x50\xed\x55\xba")
    start = whole.index(b"\x50\xed\x55\xba", start + 16)
    path = tmp_path / "damaged"
    damaged = [whole[:n] for n in range(0, len(whole), max(1, len(whole) // 40))]
    for at in range(start, start + 16 + 64):
        damaged.append(whole[:at] + b"\xff" + whole[at + 1:])
    for data in damaged:
        path.write_bytes(data)
        done = tool("-q", path)
        assert done.returncode in (HEAP, FAILED)
        assert done.returncode == HEAP or done.stderr.startswith(b"ckpt-fatbin: error: ")


def test_refusals(tmp_path):
    archive, small = tmp_path / "objects.a", tmp_path / "i386.o"
    archive.write_bytes(b"!<arch>\n" + b"k.o/".ljust(60))
    small.write_bytes(b"\x7fELF\x01\x01\x01".ljust(100, b"\0"))
    for path, why in ("/nonexistent", "cannot open"), ("/tmp", "not a regular file"), (__file__, "not an ELF file"), \
            (archive, "archive of objects"), (small, "only 64-bit little-endian ELF files"):
        done = tool(path)
        assert done.returncode == FAILED and why in done.stderr.decode()
    assert tool().returncode == 125  # wrong arguments


def big_library():
    folder = pathlib.Path(NVCC).resolve().parents[1] if NVCC else pathlib.Path("/nonexistent")
    for sub in "lib64", "lib", "targets/x86_64-linux/lib":
        for path in sorted((folder / sub).glob("libcublasLt.so.*")):
            return path
    return None


def test_fat_binaries_among_the_data_of_a_library():
    """libcufft keeps fat binaries in .ldata and loads them itself."""
    path = next(iter(sorted(big_library().parent.glob("libcufft.so.*"))), None) if big_library() else None
    if not path:
        pytest.skip("the toolkit has no libcufft")
    output = json.loads(tool("--entries", "--json", path).stdout)
    assert len(output["fat_binaries"]) > 1000


def test_a_large_library_needs_little_memory():
    """libcublasLt has half a gigabyte, of which only a small part may be in memory at a time."""
    path = big_library()
    if not path:
        pytest.skip("the toolkit has no libcublasLt")
    done = subprocess.run(["/usr/bin/time", "-f", "%M", TOOL, "-q", "--json", path] if shutil.which("time") else
                          [TOOL, "-q", "--json", path], capture_output=True, timeout=200)
    output = json.loads(done.stdout)
    assert done.returncode == NO_HEAP and output["unexamined"] == []
    assert output["runtime"]["kind"] == "static"
    assert len(output["fat_binaries"]) > 1000 and len(output["kernels"]) > 1000
    assert not any(not k["parameters"] and k["parameter_bytes"] for k in output["kernels"])
    if done.stderr:
        assert int(done.stderr.split()[-1]) < path.stat().st_size / 1024 / 2
