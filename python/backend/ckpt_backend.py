# SPDX-License-Identifier: Apache-2.0
"""The build backend of the wheel (PEP 517).

    pip wheel . --no-deps
    pip wheel . --no-deps --config-settings=build-dir=DIR      a build folder that is kept, configured as one likes
                          --config-settings=werror=true        as scripts/build compiles, for ccache's sake

It needs what ckpt needs to be compiled, and patchelf. The wheel has the module, and inside of it the tree of `meson
install` without what one user cannot use: daemons, the helper, the plugin for Slurm, the simulator, the software device.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

from wheel_elf import graft, platform_tag
from wheel_file import WheelFile
from wheel_tree import pack_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A tool in the wheel is a script of this name, which copies the tree to the user's folder and executes the tool there.
# `ckpt` is not among them: the package ckpt of the Python package index has a script of that name, and pip would let
# the last one win.
TOOLS = ("ckpt-run", "ckpt-dump", "ckpt-restore", "ckpt-image", "ckpt-ps", "ckpt-history", "ckpt-fatbin")

# The libraries in programs contain libstdc++ (-Down_libraries), whose std::random_device, which nothing here uses, would
# need glibc 2.36 (arc4random).
LINK = "-Wl,--gc-sections"

METADATA = """\
Metadata-Version: 2.1
Name: libckpt
Version: {version}
Summary: checkpoint, restart and migration of OpenCL and CUDA programs
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{description}"""


def get_requires_for_build_wheel(config_settings=None):
    """None of Python's: meson, ninja and patchelf are the system's."""
    return []


def get_requires_for_build_sdist(config_settings=None):
    """git, or an unpacked archive."""
    return []


def version():
    """The project's, which the module repeats."""
    project = re.search(r"^  version: '(.*)',", (ROOT / "meson.build").read_text(), re.M).group(1)
    module = re.search(r'^__version__ = "(.*)"', (ROOT / "python/libckpt/_version.py").read_text(), re.M).group(1)
    if project != module:
        raise SystemExit(f"meson.build has version {project} and python/libckpt/_version.py {module}: set both")
    return project


def metadata():
    """The text of METADATA."""
    return METADATA.format(version=version(), description=(ROOT / "docs/PYTHON.md").read_text(encoding="utf-8"))


def build(folder, werror="false"):
    """Compiles into `folder`, which is configured if it is new."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "meson-private" / "coredata.dat").exists():
        subprocess.run(
            ["meson", "setup", "--prefix=/usr", "--libdir=lib", "--libexecdir=libexec", "--buildtype=debugoptimized",
             "-Dcpp_args=-g1", "-Dunity=on", "-Dunity_size=8", "-Dtests=false", "-Dpython=", "-Down_libraries=true",
             f"-Dwerror={werror}", f"-Dcpp_link_args={LINK}", str(folder), str(ROOT)], check=True)
    subprocess.run(["ninja", "-C", str(folder)], check=True)


def install(folder, to):
    """The tree of `meson install`, stripped, and where its libraries are."""
    subprocess.run(["meson", "install", "-C", str(folder), "--no-rebuild", "--quiet", "--strip", "--destdir", str(to)],
                   check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(["meson", "introspect", "--buildoptions", str(folder)], check=True, capture_output=True, text=True)
    options = {o["name"]: o["value"] for o in json.loads(said.stdout)}
    return to / options["prefix"].lstrip("/"), options["libdir"]


def check_programs():
    """Before anything is compiled."""
    missing = [p for p in ("meson", "ninja", "patchelf", "readelf", "ldd") if not shutil.which(p)]
    if missing:
        raise SystemExit(f"the wheel cannot be built without {', '.join(missing)}; install them with the system's packages")


def pack(folder, wheel_directory):
    """Makes the wheel of a build folder in which everything is built. Returns its file name."""
    with tempfile.TemporaryDirectory(prefix="ckpt-wheel-") as work:
        work = pathlib.Path(work)
        installed, libdir = install(folder, work / "installed")
        tree = pack_tree(installed, work / "tree", libdir, TOOLS)
        graft(tree, libdir)
        tag = f"py3-none-{platform_tag(tree)}"
        name = f"libckpt-{version()}-{tag}.whl"
        with WheelFile(pathlib.Path(wheel_directory) / name, f"libckpt-{version()}", tag, metadata()) as wheel:
            wheel.add_module(ROOT / "python" / "libckpt", tree)
            wheel.add_pages(installed / "share", TOOLS)
            wheel.add_scripts(TOOLS, "libckpt._scripts:main")
            wheel.add_licences(ROOT)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Compiles and packs. Returns the wheel's file name."""
    check_programs()
    settings = config_settings or {}
    named = settings.get("build-dir")
    with tempfile.TemporaryDirectory(prefix="ckpt-build-") as new:
        folder = pathlib.Path(named or new).absolute()
        build(folder, settings.get("werror", "false"))
        return pack(folder, wheel_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """So that pip need not compile to read the name."""
    folder = pathlib.Path(metadata_directory) / f"libckpt-{version()}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(metadata(), encoding="utf-8")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: ckpt_backend\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
    return folder.name


def tracked_files():
    """What git knows; in an unpacked archive, everything but build folders."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files"], check=True, capture_output=True,
                                text=True).stdout.splitlines()
        return [f for f in listed if (ROOT / f).is_file()]
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not p.relative_to(ROOT).parts[0].startswith("build")]


def build_sdist(sdist_directory, config_settings=None):
    """The sources, with PKG-INFO."""
    base = f"libckpt-{version()}"
    with tempfile.TemporaryDirectory() as work, tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as tar:
        info = pathlib.Path(work) / "PKG-INFO"
        info.write_text(metadata(), encoding="utf-8")
        tar.add(info, f"{base}/PKG-INFO")
        for name in sorted(tracked_files()):
            tar.add(ROOT / name, f"{base}/{name}")
    return base + ".tar.gz"
