# SPDX-License-Identifier: Apache-2.0
"""A wheel as a ZIP archive (the format of PEP 427): the same contents always make the same bytes."""
import base64
import hashlib
import os
import pathlib
import re
import time
import zipfile

# The build id names the folder into which libckpt._tree copies the tree.
BUILD_ID = "build-id"

# Packages whose code is in the binaries; Debian has their licences here.
CONTAINED = ("libfmt-dev", "nlohmann-json3-dev", "libcli11-dev", "libexpected-dev", "liblz4-dev", "libelf1", "libzstd1", "zlib1g",
             "libxxhash0", "libsodium23", "libssl3")


def build_id(version, tree):
    """Of what is in it: two builds that differ in any byte get two folders."""
    digest = hashlib.sha256()
    for path in sorted(p for p in tree.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(tree)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return f"{version}-{digest.hexdigest()[:12]}"


class WheelFile:
    """Writes the files of a wheel, and at the end RECORD."""

    def __init__(self, path, name, tag, metadata):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.name, self.record = name, []
        moment = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # 1980, when ZIP's time begins
        self.time = time.gmtime(max(moment, 315532800))[:6]
        self.write(f"{name}.dist-info/METADATA", metadata.encode())
        self.write(f"{name}.dist-info/WHEEL",
                   f"Wheel-Version: 1.0\nGenerator: ckpt_backend\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())

    def write(self, name, data, executable=False):
        """One file. pip keeps the bit that makes it executable."""
        info = zipfile.ZipInfo(name, self.time)
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def add_folder(self, folder, to):
        """Every file of a folder."""
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            self.write(f"{to}/{path.relative_to(folder)}", path.read_bytes(), os.access(path, os.X_OK))

    def add_module(self, module, tree):
        """The module, with the tree inside."""
        self.add_folder(module, "libckpt")
        self.add_folder(tree, "libckpt/tree")
        self.write(f"libckpt/tree/{BUILD_ID}", (build_id(self.name.partition("-")[2], tree) + "\n").encode())

    def add_pages(self, share, tools):
        """Man pages, which man(1) finds beside a `bin` on PATH, and completions for bash."""
        for page in sorted(share.glob("man/man*/*")):
            if page.name.rpartition(".")[0] in (*tools, "ckpt"):
                self.write(f"{self.name}.data/data/share/{page.relative_to(share)}", page.read_bytes())
        completions = pathlib.PurePath("bash-completion/completions")
        for tool in tools:
            self.write(f"{self.name}.data/data/share/{completions / tool}", (share / completions / "ckpt-run").read_bytes())

    def add_scripts(self, tools, entry):
        """A console script for each tool."""
        lines = "".join(f"{tool} = {entry}\n" for tool in tools)
        self.write(f"{self.name}.dist-info/entry_points.txt", f"[console_scripts]\n{lines}".encode())

    def add_licences(self, root):
        """Ours, and those of the code that the binaries contain."""
        for name in ("LICENSE", "NOTICE"):
            self.write(f"{self.name}.dist-info/licenses/{name}", (root / name).read_bytes())
        for package in CONTAINED:
            text = pathlib.Path("/usr/share/doc") / package / "copyright"
            if text.exists():
                self.write(f"{self.name}.dist-info/licenses/contained/{re.sub('[^a-z0-9.-]', '_', package)}", text.read_bytes())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            record = f"{self.name}.dist-info/RECORD"
            self.zip.writestr(zipfile.ZipInfo(record, self.time), "".join(self.record) + f"{record},,\n")
        self.zip.close()
