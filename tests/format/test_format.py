# SPDX-License-Identifier: Apache-2.0
"""ckpt-image and read_image.py (which was written from docs/FORMAT.md alone) read the same from each
image, golden images included. CKPT_BUILD is the build folder (default: build/ of the checkout)."""

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


GOLDEN_KEY = ROOT / "tests/golden/golden.key"


@pytest.fixture(scope="session", autouse=True)
def private_key(tmp_path_factory):
    """A key file must be its owner's alone, which the checkout's is not."""
    global KEY_FILE
    KEY_FILE = tmp_path_factory.mktemp("key") / "key"
    KEY_FILE.touch(0o600)
    KEY_FILE.write_bytes(GOLDEN_KEY.read_bytes())


def run(*args, check=True):
    return subprocess.run(args, check=check, capture_output=True)


def pattern(kind, n):
    """The bytes of pattern() in make_image.cc."""
    if kind == "zero":
        return bytes(n)
    if kind == "smooth":
        return bytes(i // 16 % 251 for i in range(n))
    out, state = bytearray(), 12345
    for _ in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def expected_streams(big, version=3, increment=False):
    streams = {f"device/0/{kind}-{n}": pattern(kind, n)
               for kind in ("random", "smooth", "zero") for n in (0, 1, 300, big)}
    streams["criu/pages-1.img"] = pattern("random", big)
    if version > 1:
        streams["criu/pages-2.img"] = pattern("smooth", 600000)
    if version > 2:
        like = bytearray(pattern("random", big))
        like[100] ^= increment
        streams["device/0/like"] = bytes(like)
    if increment:
        streams["device/0/random-700"] = pattern("random", 700)
    return streams


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("format") / "image"
    run(MAKE_IMAGE, str(path))
    return path


def deltas(path, key=None):
    return sum(c[5] == read_image.DELTA for c in read_image.Image(path, key).chunks)


def check_same(path, streams, sealed=False):
    key = ("--key-file", str(KEY_FILE)) if sealed else ()
    ours = json.loads(run(CKPT_IMAGE, "show", "--json", *key, str(path)).stdout)
    second = read_image.Image(path, KEY_FILE.read_bytes() if sealed else None)
    assert ours["manifest"] == second.manifest
    assert ours["uuid"].replace("-", "") == second.uuid.hex()
    assert ours["chunk_bytes"] == second.chunk_size
    assert {s["name"]: s["bytes"] for s in ours["streams"]} == \
        {name: size for name, (size, _) in second.streams.items()}
    assert ours["format_version"] == second.version and ours["encrypted"] == sealed
    assert ours["stored_bytes"] == sum(c[3] for c in second.chunks if c[6] == 0)
    assert ours["parent_bytes"] == sum(c[3] for c in second.chunks if c[6] != 0)
    assert [(p["name"], p["uuid"].replace("-", "")) for p in ours["parents"]] == \
        [(name, uuid.hex()) for uuid, _, name in second.parents]
    assert set(streams) == set(second.streams)
    for name, want in streams.items():
        assert second.stream(name) == want
        assert run(CKPT_IMAGE, "show", *key, "--extract", name, str(path)).stdout == want


def test_both_readers_agree(image):
    check_same(image, expected_streams((2 << 20) + 77))


@pytest.mark.parametrize("sealed", (False, True), ids=("clear", "sealed"))
def test_both_readers_agree_on_increments(tmp_path, sealed):
    key = ("--key-file", str(KEY_FILE)) if sealed else ()
    big = (2 << 20) + 77
    run(MAKE_IMAGE, str(tmp_path / "one"), *key)
    run(MAKE_IMAGE, str(tmp_path / "two"), "--parent", str(tmp_path / "one"), *key)
    check_same(tmp_path / "one", expected_streams(big), sealed)
    check_same(tmp_path / "two", expected_streams(big, increment=True), sealed)
    assert (tmp_path / "two/chunks.ckpt").stat().st_size < 1000
    assert deltas(tmp_path / "two", KEY_FILE.read_bytes()) == 1
    run(CKPT_IMAGE, "flatten", *key, str(tmp_path / "two"))
    shutil.rmtree(tmp_path / "one")
    check_same(tmp_path / "two", expected_streams(big, increment=True), sealed)


def test_there_are_golden_images_of_every_version():
    assert {p.parent.name for p in GOLDEN} == {"v1", "v2", "v3"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: "/".join(p.parts[-2:]))
def test_golden_images_read_and_verify(path):
    version, sealed = int(path.parent.name[1:]), path.name == "sealed"
    check_same(path, expected_streams(5000, version, path.name == "increment"), sealed)
    key = ("--key-file", str(KEY_FILE)) if sealed else ()
    assert run(CKPT_IMAGE, "verify", *key, str(path)).returncode == 0
    if path.parts[-2:] == ("v3", "increment"):
        assert deltas(path) == 1


def test_a_missing_or_wrong_key_is_named(image, tmp_path):
    sealed = ROOT / "tests/golden/v2/sealed"
    (tmp_path / "key").write_bytes(bytes(32))
    (tmp_path / "short").write_bytes(bytes(31))
    for name in ("key", "short"):
        (tmp_path / name).chmod(0o600)
    for key, words in (((), b"is encrypted"), (("--key-file", "key"), b"wrong key"),
                       (("--key-file", "short"), b"is not a key"),
                       (("--key-file", "absent"), b"No such file")):
        key = [str(tmp_path / k) if k[0] != "-" else k for k in key]
        out = run(CKPT_IMAGE, "show", *key, str(sealed), check=False)
        assert out.returncode == 1 and words in out.stderr and not out.stdout
    with pytest.raises(read_image.Damaged):
        read_image.Image(sealed, bytes(32))


def test_an_image_can_be_sent_and_received(image, tmp_path):
    sent = run(CKPT_IMAGE, "flatten", "-o", "-", str(image)).stdout
    got = subprocess.run([CKPT_IMAGE, "receive", str(tmp_path / "got")], input=sent, check=True)
    assert got.returncode == 0
    check_same(tmp_path / "got", expected_streams((2 << 20) + 77))
    cut = subprocess.run([CKPT_IMAGE, "receive", str(tmp_path / "cut")], input=sent[:-1],
                         check=False, capture_output=True)
    assert cut.returncode == 1 and b"ends too early" in cut.stderr
    assert os.listdir(tmp_path) == ["got"]


def test_prune_keeps_the_newest(tmp_path):
    for i in range(4):
        parent = ("--parent", str(tmp_path / f"i{i - 1}")) if i else ()
        run(MAKE_IMAGE, str(tmp_path / f"i{i}"), "--small", *parent)
    out = json.loads(run(CKPT_IMAGE, "prune", "--keep", "2", "--json", str(tmp_path / "i3")).stdout)
    assert [os.path.basename(p) for p in out["removed"]] == ["i0", "i1"]
    assert sorted(os.listdir(tmp_path)) == ["i2", "i3"]
    for name in ("i2", "i3"):
        check_same(tmp_path / name, expected_streams(5000, increment=True))
    shutil.move(tmp_path / "i2", tmp_path / "away")
    lost = run(CKPT_IMAGE, "verify", str(tmp_path / "i3"), check=False)
    assert lost.returncode == 1 and b"an increment on the image 'i2'" in lost.stderr


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
    assert b"chunks.ckpt" in damaged.stdout and b"'criu/pages-2.img'" in damaged.stdout
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


def test_diff_compares_two_images(image, tmp_path):
    assert run(CKPT_IMAGE, "diff", str(image), str(image)).returncode == 0
    out = run(CKPT_IMAGE, "diff", str(image), str(GOLDEN[0]), check=False)
    assert out.returncode == 1 and b"only in the first" in out.stdout
    assert run(CKPT_IMAGE, "diff", str(image), str(tmp_path / "absent"), check=False).returncode == 2


HOSTILE = ['{"argv":7,"processes":[null,3,"x",{"pid":{}}],"participants":[[]],"files":[null,1],'
           '"phases":[{"seconds":"x"},5],"host":[1],"created":{"a":1}}',
           '{"host":{"name":[1]},"processes":{},"argv":[{}, null, "\\u0007\\u009b\\u202e"]}',
           '{"a":' + "[" * 60 + "]" * 60 + "}"]


def with_manifest(image, manifest):
    """Replaces the manifest in the index of the image."""
    data = (image / "index.ckpt").read_bytes()
    old = int.from_bytes(data[72:80], "little")
    body = bytearray(data[:72] + len(manifest).to_bytes(8, "little") + manifest + data[80 + old:-8])
    body[16:24] = (len(body) + 8).to_bytes(8, "little")
    (image / "index.ckpt").write_bytes(
        bytes(body) + xxhash.xxh3_64_intdigest(bytes(body)).to_bytes(8, "little"))


@pytest.mark.parametrize("manifest", HOSTILE)
def test_hostile_manifests_are_shown_safely(image, tmp_path, manifest):
    bad = tmp_path / "bad"
    shutil.copytree(image, bad)
    with_manifest(bad, manifest.encode())
    for args in (("show",), ("show", "--json"), ("verify",)):
        out = run(CKPT_IMAGE, *args, str(bad))
        if args == ("show",):
            text = out.stdout.decode()
            assert not any(c in text for c in "\x07\x9b\u202e")
    assert run(CKPT_IMAGE, "diff", str(image), str(bad), check=False).returncode == 1
