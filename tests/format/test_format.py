# SPDX-License-Identifier: Apache-2.0
"""Two readers, one format: ckpt-image and read_image.py (written from docs/FORMAT.md alone) say the
same of an image, and of every golden image. Run with CKPT_BUILD=the build folder
(default: build/ of the checkout)."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import xxhash

import read_image

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build"))
CKPT_IMAGE = os.environ.get("CKPT_IMAGE", str(BUILD / "tools/ckpt-image"))
MAKE_IMAGE = os.environ.get("CKPT_MAKE_IMAGE", str(BUILD / "tests/format/make-image"))
GOLDEN = sorted((ROOT / "tests/golden").glob("v*/*"))


def run(*args, check=True):
    return subprocess.run(args, check=check, capture_output=True)


def pattern(kind, n):
    """make_image.cc's bytes."""
    if kind == "zero":
        return bytes(n)
    if kind == "smooth":
        return bytes(i // 16 % 251 for i in range(n))
    out, state = bytearray(), 12345
    for _ in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def expected_streams(big):
    streams = {f"device/0/{kind}-{n}": pattern(kind, n)
               for kind in ("random", "smooth", "zero") for n in (0, 1, 300, big)}
    streams["criu/pages-1.img"] = pattern("random", big)
    return streams


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("format") / "image"
    run(MAKE_IMAGE, str(path))
    return path


def check_same(path, streams):
    ours = json.loads(run(CKPT_IMAGE, "show", "--json", str(path)).stdout)
    second = read_image.Image(path)
    assert ours["manifest"] == second.manifest
    assert ours["uuid"].replace("-", "") == second.uuid.hex()
    assert ours["chunk_bytes"] == second.chunk_size
    assert {s["name"]: s["bytes"] for s in ours["streams"]} == \
        {name: size for name, (size, _) in second.streams.items()}
    assert ours["stored_bytes"] == sum(c[3] for c in second.chunks)
    assert set(streams) == set(second.streams)
    for name, want in streams.items():
        assert second.stream(name) == want
        assert run(CKPT_IMAGE, "show", "--extract", name, str(path)).stdout == want


def test_both_readers_agree(image):
    check_same(image, expected_streams((2 << 20) + 77))


def test_there_are_golden_images():
    assert any("v1" in str(p) for p in GOLDEN)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: "/".join(p.parts[-2:]))
def test_golden_images_read_and_verify(path):
    check_same(path, expected_streams(5000))
    assert run(CKPT_IMAGE, "verify", str(path)).returncode == 0


def test_verify_names_file_and_stream(image, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(image, bad)
    with open(bad / "chunks.ckpt", "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last[0] ^ 1]))
    damaged = run(CKPT_IMAGE, "verify", str(bad), check=False)
    assert damaged.returncode == 1
    assert b"chunks.ckpt" in damaged.stdout and b"device/0/" in damaged.stdout
    report = json.loads(run(CKPT_IMAGE, "verify", "--json", str(bad), check=False).stdout)
    assert report["ok"] is False and report["damaged_chunks"] == 1
    with pytest.raises(read_image.Damaged):
        second = read_image.Image(bad)
        for name in second.streams:
            second.stream(name)


def test_damaged_index_is_named(image, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(image, bad)
    with open(bad / "index.ckpt", "r+b") as f:
        f.seek(100)
        f.write(b"\xff")
    damaged = run(CKPT_IMAGE, "verify", str(bad), check=False)
    assert damaged.returncode == 1 and b"index.ckpt" in damaged.stderr


def test_show_neutralises_control_characters(image):
    for args in (("show",), ("show", "--streams")):
        out = run(CKPT_IMAGE, *args, str(image)).stdout
        assert b"\x1b" not in out and "é\\x1b[2J".encode() in out


def test_diff(image, tmp_path):
    assert run(CKPT_IMAGE, "diff", str(image), str(image)).returncode == 0
    out = run(CKPT_IMAGE, "diff", str(image), str(GOLDEN[0]), check=False)
    assert out.returncode == 1 and b"only in the first" in out.stdout
    assert run(CKPT_IMAGE, "diff", str(image), str(tmp_path / "absent"), check=False).returncode == 2


HOSTILE = ['{"argv":7,"processes":[null,3,"x",{"pid":{}}],"participants":[[]],"files":[null,1],'
           '"phases":[{"seconds":"x"},5],"host":[1],"created":{"a":1}}',
           '{"host":{"name":[1]},"processes":{},"argv":[{}, null, "\\u0007\\u009b\\u202e"]}',
           '{"a":' + "[" * 60 + "]" * 60 + "}"]


def with_manifest(image, manifest):
    """The image's index with another manifest."""
    data = (image / "index.ckpt").read_bytes()
    old = int.from_bytes(data[72:80], "little")
    body = bytearray(data[:72] + len(manifest).to_bytes(8, "little") + manifest + data[80 + old:-8])
    body[16:24] = (len(body) + 8).to_bytes(8, "little")
    (image / "index.ckpt").write_bytes(
        bytes(body) + xxhash.xxh3_64_intdigest(bytes(body)).to_bytes(8, "little"))


@pytest.mark.parametrize("manifest", HOSTILE)
def test_hostile_manifests(image, tmp_path, manifest):
    bad = tmp_path / "bad"
    shutil.copytree(image, bad)
    with_manifest(bad, manifest.encode())
    for args in (("show",), ("show", "--json"), ("verify",)):
        out = run(CKPT_IMAGE, *args, str(bad))
        if args == ("show",):
            text = out.stdout.decode()
            assert not any(c in text for c in "\x07\x9b\u202e")
    assert run(CKPT_IMAGE, "diff", str(image), str(bad), check=False).returncode == 1
