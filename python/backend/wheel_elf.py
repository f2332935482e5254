# SPDX-License-Identifier: Apache-2.0
"""What the executables of the wheel need from other systems.

Libraries that a manylinux system need not have are copied into the wheel (PEP 600 and auditwheel's policies name those
that it has). Drivers are never copied: a copy of libcuda would not fit the kernel's driver, and one of libOpenCL's loader
would hide the site's.
"""
import pathlib
import re
import shutil
import subprocess

# Of every manylinux system, by auditwheel's policies.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|z|gcc_s|stdc\+\+|atomic)\.so\.\d+|ld-linux.*")
# What an image may depend on: no upgrade of zlib or of GCC's libraries is to make it useless.
LIBC = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux.*")
DRIVERS = re.compile(r"lib(cuda|nvidia-ml|OpenCL)\.so(\.\d+)?")

# The glibc of the oldest manylinux whose libstdc++ has these symbols (auditwheel's policies).
GLIBC_OF_GLIBCXX = {30: 35, 29: 34, 28: 31}
SECTION = "lib/bundled"


def _output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def elf_files(tree):
    """The executables and libraries of a folder."""
    return [p for p in sorted(tree.rglob("*")) if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]


def needed(file):
    """The names of the libraries that it is linked with."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "-d", str(file)))


def located(file):
    """{name: path} of the libraries that the loader finds for it here."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", _output("ldd", str(file)), re.M))



def _copies(file, to, left):
    """Copies what `file` needs, and what that needs, to the folder `to`, except for `left`."""
    places = located(file)
    for name in needed(file):
        if left(name) or (to / name).exists():
            continue
        if name not in places:
            raise SystemExit(f"{file.name} needs {name}, which is not installed")
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(places[name], to / name)
        (to / name).chmod(0o644)
        _copies(pathlib.Path(places[name]), to, left)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(to / name)], check=True)


def graft(tree, libdir):
    """Libraries in programs look into the folder `own` beside them (-Down_libraries), so that an image needs no file of
    the system that an upgrade changes. Tools and proxies share one folder."""
    inside = elf_files(tree / libdir / "ckpt")
    ours = {file.name for file in inside}
    for file in inside:
        own = next(p for p in file.parents if p.parent.name == "ckpt") / "own"
        _copies(file, own, lambda name: LIBC.fullmatch(name) or DRIVERS.fullmatch(name) or name in ours)
    for file in elf_files(tree / "bin") + elf_files(tree / "libexec"):
        _copies(file, tree / SECTION, lambda name: SYSTEM.fullmatch(name) or DRIVERS.fullmatch(name))
        up = "/".join([".."] * (len(file.relative_to(tree).parts) - 1))
        subprocess.run(["patchelf", "--set-rpath", f"$ORIGIN/{up}/{SECTION}", str(file)], check=True)


def platform_tag(tree):
    """manylinux_2_N_x86_64 for the newest symbols that anything in the tree needs."""
    least = 17
    for file in elf_files(tree):
        said = _output("readelf", "--version-info", "--wide", str(file)).partition("Version needs")[2]
        for minor in re.findall(r"GLIBC_2\.(\d+)", said):
            least = max(least, int(minor))
        for minor in re.findall(r"GLIBCXX_3\.4\.(\d+)", said):
            if int(minor) > max(GLIBC_OF_GLIBCXX):
                raise SystemExit(f"{file.name} needs a newer libstdc++ (GLIBCXX_3.4.{minor}) than any manylinux has: "
                                 "build the wheel with GCC 12")
            least = max([least, *(g for x, g in GLIBC_OF_GLIBCXX.items() if x <= int(minor))])
    return f"manylinux_2_{least}_x86_64"
