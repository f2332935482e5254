#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of images, written from docs/FORMAT.md alone, to prove that the document is
complete. `read_image.py IMAGE` lists the streams, `read_image.py IMAGE STREAM` prints one of them."""

import hashlib
import json
import os
import struct
import sys

import nacl.bindings
import nacl.exceptions
import xxhash
import zstandard

ZERO, RAW, ZSTD, DELTA = 0, 1, 2, 3


class Damaged(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Damaged(message)


class Fields:
    """Reads fields from bytes, and never beyond their end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, n):
        require(n <= len(self.data) - self.at, "truncated")
        self.at += n
        return self.data[self.at - n:self.at]

    def numbers(self, layout):
        return struct.unpack("<" + layout, self.raw(struct.calcsize("<" + layout)))

    def number(self, layout):
        return self.numbers(layout)[0]

    def end(self):
        require(self.at == len(self.data), "extra bytes")


class Image:
    def __init__(self, folder, key=None):
        self.folder, self.key = folder, key
        with open(os.path.join(folder, "index.ckpt"), "rb") as f:
            self._read_index(f.read())
        self.files = [self._open_chunks(folder, self.uuid, self.chunks_file_size, True)]
        beside = os.path.dirname(os.path.realpath(folder))
        for uuid, size, name in self.parents:
            self.files.append(self._open_chunks(os.path.join(beside, name), uuid, size, False))

    def _read_index(self, data):
        require(len(data) >= 72 and data[:8] == b"CKPTINDX", "index.ckpt: not the index of an image")
        f = Fields(data[:-8])
        f.raw(8)
        self.version, self.chunk_size = f.numbers("II")
        require(self.version in (1, 2, 3), f"format version {self.version}; this reader reads 1 to 3")
        file_size, self.chunks_file_size, self.seed = f.numbers("QQQ")
        self.uuid = f.raw(16)
        require(file_size == len(data), "index.ckpt: wrong size")
        require(xxhash.xxh3_64_intdigest(data[:-8]) == struct.unpack("<Q", data[-8:])[0],
                "index.ckpt: wrong checksum")
        self.key_check = f.number("Q")
        require(4096 <= self.chunk_size <= 4 << 20, "chunk size")
        if self.key_check:
            require(self.version > 1 and self.seed == 0, "key_check")
            f = self._unseal_body(data)
        self._read_sections(f)

    def _unseal_body(self, data):
        require(self.key, "encrypted, but there is no key")
        check = hashlib.blake2b(b"ckpt image key check" + self.uuid, key=self.key, digest_size=16)
        found = struct.unpack("<Q", check.digest()[:8])[0] or 1
        require(found == self.key_check, "wrong key")
        f = Fields(self._unseal(data[:64], data[64:-8]))
        self.seed = f.number("Q")
        return f

    def _unseal(self, context, sealed):
        require(len(sealed) >= 40, "too short to be sealed")
        try:
            return nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
                sealed[24:], context, sealed[:24], self.key)
        except nacl.exceptions.CryptoError as e:
            raise Damaged("cannot be decrypted") from e

    def _read_sections(self, f):
        manifest, chunks, streams, parents = (self._section(f, tag) for tag in (1, 2, 3, 4))
        f.end()
        self.manifest = json.loads(manifest.data.decode())
        require(isinstance(self.manifest, dict), "manifest")
        self._read_parents(parents)
        self._read_chunks(chunks)
        self._read_streams(streams)

    def _read_parents(self, f):
        self.generation = f.number("Q") if self.version > 1 else 0
        count = f.number("Q")
        require(count <= (256 if self.version > 1 else 0), "parents")
        self.parents = []
        for _ in range(count):
            uuid, size = f.raw(16), f.number("Q")
            name = f.raw(f.number("I"))
            require(1 <= len(name) <= 255 and name not in (b".", b"..") and b"/" not in name
                    and b"\0" not in name, "name of a parent")
            self.parents.append((uuid, size, os.fsdecode(name)))
        uuids = [self.uuid] + [p[0] for p in self.parents]
        require(len(set(uuids)) == len(uuids), "a parent is listed twice")
        f.end()

    @staticmethod
    def _section(f, tag):
        found, reserved, size = f.numbers("IIQ")
        require(found == tag and reserved == 0, f"section {tag}")
        return Fields(f.raw(size))

    def _read_chunks(self, f):
        self.chunks = []
        end, seal = 32, 40 if self.key_check else 0
        for _ in range(f.number("Q")):
            low, high, checksum = f.numbers("QQQ")
            offset = f.number("Q") if self.version > 1 else end
            stored, raw, codec = f.numbers("III")
            file = f.number("I") if self.version > 1 else 0
            base = f.numbers("II") if self.version > 2 else (0, 0)
            require(1 <= raw <= self.chunk_size, "raw_size")
            right = {ZERO: stored == 0, RAW: stored == raw + seal,
                     ZSTD: seal < stored < raw + seal}
            right[DELTA] = right[ZSTD] and self.version > 2
            require(right.get(codec, False), "codec and stored_size")
            if file:
                require(file <= len(self.parents) and codec != ZERO, "file")
                require(32 <= offset and offset + stored <= self.parents[file - 1][1], "offset")
            else:
                require(offset == end, "offset")
                end += stored
            self.chunks.append((high << 64 | low, checksum, offset, stored, raw, codec, file, base))
        f.end()
        for *_, codec, _, (base, at) in self.chunks:
            if codec == DELTA:
                require(base < len(self.chunks) and self.chunks[base][5] in (RAW, ZSTD)
                        and at < self.chunks[base][4], "base")
            else:
                require((base, at) == (0, 0), "base")
        require(end == self.chunks_file_size, "chunks_file_size")

    def _read_streams(self, f):
        self.streams = {}
        for _ in range(f.number("Q")):
            name = f.raw(f.number("I")).decode("ascii")
            require(name not in self.streams and self._is_name(name), f"name {name!r}")
            size = f.number("Q")
            count = f.number("Q") if self.version > 1 else -(-size // self.chunk_size)
            numbers = f.numbers(f"{count}I")
            require(all(n < len(self.chunks) for n in numbers), f"chunks of {name}")
            if self.version == 1:
                require(all(self.chunks[n][4] == self.chunk_size for n in numbers[:-1]), name)
            require(sum(self.chunks[n][4] for n in numbers) == size, f"size of {name}")
            self.streams[name] = (size, numbers)
        f.end()

    @staticmethod
    def _is_name(name):
        return (1 <= len(name) <= 255 and all(0x20 <= ord(c) <= 0x7E and c != "\\" for c in name)
                and all(part not in ("", ".", "..") for part in name.split("/")))

    @staticmethod
    def _open_chunks(folder, uuid, size, exact):
        f = open(os.path.join(folder, "chunks.ckpt"), "rb")
        found = os.fstat(f.fileno()).st_size
        require(found == size if exact else found >= size, f"{folder}/chunks.ckpt: wrong size")
        header = f.read(32)
        require(header in (b"CKPTCHNK" + struct.pack("<II", v, ~v & 0xFFFFFFFF if v > 2 else 0) + uuid
                           for v in (1, 2, 3)),
                f"{folder}/chunks.ckpt: wrong header")
        return f

    def chunk(self, number):
        address, checksum, offset, stored_size, raw_size, codec, file, (base, at) = self.chunks[number]
        self.files[file].seek(offset)
        stored = self.files[file].read(stored_size)
        require(xxhash.xxh3_64_intdigest(stored) == checksum, f"chunk {number}: checksum")
        if self.key_check and codec != ZERO:
            context = address.to_bytes(16, "little") + struct.pack("<II", raw_size, codec)
            stored = self._unseal(context, stored)
        if codec in (ZSTD, DELTA):
            raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)
        else:
            raw = stored if codec == RAW else bytes(raw_size)
        require(len(raw) == raw_size, f"chunk {number}: size")
        if codec == DELTA:
            like = self.chunk(base)[at:at + raw_size].ljust(raw_size, b"\0")
            raw = bytes(a ^ b for a, b in zip(raw, like))
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
