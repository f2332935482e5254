#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of images, written from docs/FORMAT.md alone, to prove that the document is
complete. `read_image.py IMAGE` prints the streams; `read_image.py IMAGE STREAM` a stream's bytes."""

import json
import os
import struct
import sys

import xxhash
import zstandard

ZERO, RAW, ZSTD = 0, 1, 2


class Damaged(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Damaged(message)


class Fields:
    """Takes fields off the front of some bytes, and never more than there are."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, n):
        require(n <= len(self.data) - self.at, "cut short")
        self.at += n
        return self.data[self.at - n:self.at]

    def numbers(self, layout):
        return struct.unpack("<" + layout, self.raw(struct.calcsize("<" + layout)))

    def number(self, layout):
        return self.numbers(layout)[0]

    def end(self):
        require(self.at == len(self.data), "bytes left over")


class Image:
    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "index.ckpt"), "rb") as f:
            self._read_index(f.read())
        self.chunks_file = open(os.path.join(folder, "chunks.ckpt"), "rb")
        self._check_chunks_header()

    def _read_index(self, data):
        require(len(data) >= 72 and data[:8] == b"CKPTINDX", "index.ckpt: no index of an image")
        f = Fields(data[:-8])
        f.raw(8)
        self.version, self.chunk_size = f.numbers("II")
        require(self.version == 1, f"format version {self.version}, this reader reads 1")
        file_size, self.chunks_file_size, self.seed = f.numbers("QQQ")
        self.uuid = f.raw(16)
        require(file_size == len(data), "index.ckpt: wrong size")
        require(xxhash.xxh3_64_intdigest(data[:-8]) == struct.unpack("<Q", data[-8:])[0],
                "index.ckpt: wrong checksum")
        require(f.number("Q") == 0, "reserved field")
        require(4096 <= self.chunk_size <= 4 << 20, "chunk size")
        self.manifest = json.loads(self._section(f, 1).data.decode())
        require(isinstance(self.manifest, dict), "manifest")
        self._read_chunks(self._section(f, 2))
        self._read_streams(self._section(f, 3))
        parents = self._section(f, 4)
        require(parents.number("Q") == 0, "parents")
        parents.end()
        f.end()

    @staticmethod
    def _section(f, tag):
        found, reserved, size = f.numbers("IIQ")
        require(found == tag and reserved == 0, f"section {tag}")
        return Fields(f.raw(size))

    def _read_chunks(self, f):
        self.chunks = []
        offset = 32
        for _ in range(f.number("Q")):
            low, high, checksum, stored, raw, codec = f.numbers("QQQIII")
            require(1 <= raw <= self.chunk_size, "raw_size")
            right = {ZERO: stored == 0, RAW: stored == raw, ZSTD: 0 < stored < raw}
            require(right.get(codec, False), "codec and stored_size")
            self.chunks.append((high << 64 | low, checksum, offset, stored, raw, codec))
            offset += stored
        f.end()
        require(offset == self.chunks_file_size, "chunks_file_size")

    def _read_streams(self, f):
        self.streams = {}
        for _ in range(f.number("Q")):
            name = f.raw(f.number("I")).decode("ascii")
            require(name not in self.streams and self._is_name(name), f"name {name!r}")
            size = f.number("Q")
            count = -(-size // self.chunk_size)
            numbers = f.numbers(f"{count}I")
            for i, n in enumerate(numbers):
                want = min(self.chunk_size, size - i * self.chunk_size)
                require(n < len(self.chunks) and self.chunks[n][4] == want, f"chunks of {name}")
            self.streams[name] = (size, numbers)
        f.end()

    @staticmethod
    def _is_name(name):
        return (1 <= len(name) <= 255 and all(0x20 <= ord(c) <= 0x7E and c != "\\" for c in name)
                and all(part not in ("", ".", "..") for part in name.split("/")))

    def _check_chunks_header(self):
        size = os.fstat(self.chunks_file.fileno()).st_size
        require(size == self.chunks_file_size, "chunks.ckpt: wrong size")
        want = b"CKPTCHNK" + struct.pack("<II", 1, 0) + self.uuid
        require(self.chunks_file.read(32) == want, "chunks.ckpt: wrong header")

    def chunk(self, number):
        address, checksum, offset, stored_size, raw_size, codec = self.chunks[number]
        self.chunks_file.seek(offset)
        stored = self.chunks_file.read(stored_size)
        require(xxhash.xxh3_64_intdigest(stored) == checksum, f"chunk {number}: checksum")
        if codec == ZSTD:
            raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)
        else:
            raw = stored if codec == RAW else bytes(raw_size)
        require(len(raw) == raw_size, f"chunk {number}: size")
        require(xxhash.xxh3_128_intdigest(raw, self.seed) == address, f"chunk {number}: address")
        return raw

    def stream(self, name):
        return b"".join(self.chunk(n) for n in self.streams[name][1])


def main():
    image = Image(sys.argv[1])
    if len(sys.argv) > 2:
        sys.stdout.buffer.write(image.stream(sys.argv[2]))
        return
    for name, (size, _) in image.streams.items():
        print(f"{size:12} {name}")


if __name__ == "__main__":
    main()
