# SPDX-License-Identifier: Apache-2.0
"""Which part of the installed tree is in the wheel."""
import pathlib
import shutil

# Wheels have no symbolic links: `links` lists them, and libckpt._tree makes them again.
LINKS = "links"

# Not in programs and not for one user: the software device, the server of devices for other nodes.
LEFT_OUT = {"softcuda", "ckpt-softcuda-broker", "ckpt-cuda-server"}


def _copy(source, target, links, below):
    for path in sorted(source.iterdir()):
        if path.name in LEFT_OUT:
            continue
        if path.is_symlink():
            links.append(f"{(target / path.name).relative_to(below)} {path.readlink()}")
        elif path.is_dir():
            _copy(path, target / path.name, links, below)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / path.name)


def pack_tree(installed, to, libdir, tools):
    """Copies tools, libraries in programs and proxies from the folder of `meson install`."""
    links = []
    (to / "bin").mkdir(parents=True)
    for tool in tools:
        shutil.copy2(installed / "bin" / tool, to / "bin" / tool)
    for part in (f"{libdir}/ckpt", "libexec/ckpt"):
        for version in sorted(p for p in (installed / part).iterdir() if p.is_dir() and p.name[0].isdigit()):
            _copy(version, to / part / version.name, links, to)
    # A program that is linked with libckpt.so is for compilers.
    links = [link for link in links if not link.split()[0].endswith("/libckpt.so")]
    pathlib.Path(to / LINKS).write_text("".join(link + "\n" for link in links))
    return to
