# SPDX-License-Identifier: Apache-2.0
"""Images that ckpt-dump would never write, with right magic, sizes and checksums, so that a reader gets
beyond these. Written from docs/FORMAT.md; every field can be given a wrong value."""
import json
import struct

import xxhash

ZERO, RAW, ZSTD, DELTA = range(4)
CHUNK = 1 << 20
UUID = bytes(range(16))
NO_BYTES = xxhash.xxh3_64_intdigest(b"")

# The fields that ckpt-restore needs.
MANIFEST = {
    "program": "/bin/true", "argv": ["true"], "cwd": "/", "protocol": 1, "root_pid": 100, "session_dir": "/x",
    "processes": [{"pid": 100, "group": 100, "session": 100, "threads": [100]}],
    "agents": [], "participants": [], "files": [], "mapped_files": [], "pipes": [], "streams": {"terminal": False},
}


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def address(raw, seed=0):
    low_high = xxhash.xxh3_128_intdigest(raw, seed=seed)
    return struct.pack("<QQ", low_high & (1 << 64) - 1, low_high >> 64)


def entry(raw, codec=RAW, stored=None, offset=32, file=0, base=0, base_offset=0, raw_size=None, checksum=None):
    """An entry of the chunk table. `stored`: its stored bytes (default: the raw ones)."""
    stored = (b"" if codec == ZERO else raw) if stored is None else stored
    checksum = xxhash.xxh3_64_intdigest(stored) if checksum is None else checksum
    return address(raw) + struct.pack("<QQIIIIII", checksum, offset, len(stored),
                                      len(raw) if raw_size is None else raw_size, codec, file, base, base_offset)


def zeros(size=CHUNK):
    return entry(bytes(size), ZERO)


def stream(name, size, chunks):
    """`chunks`: numbers, or the packed table of them."""
    packed = chunks if isinstance(chunks, bytes) else struct.pack(f"<{len(chunks)}I", *chunks)
    return string(name) + struct.pack("<QQ", size, len(packed) // 4) + packed


def parent(name, uuid=bytes(16), size=32):
    return uuid + struct.pack("<Q", size) + string(name)


def section(tag, body):
    return struct.pack("<IIQ", tag, 0, len(body)) + body


def table(entries, count=None):
    count = len(entries) if count is None else count
    return struct.pack("<Q", count) + b"".join(entries)


def write(path, manifest=None, chunks=(), streams=(), parents=(), stored=b"", chunk_size=CHUNK, chunk_table=None,
          stream_table=None, version=3, file_size=None):
    """Writes the image. The tables may also be given packed, or their counts falsified by table()."""
    manifest = MANIFEST if manifest is None else manifest
    text = manifest if isinstance(manifest, (bytes, str)) else json.dumps(manifest)
    body = section(1, text if isinstance(text, bytes) else text.encode())
    body += section(2, table(chunks) if chunk_table is None else chunk_table)
    body += section(3, table(streams) if stream_table is None else stream_table)
    body += section(4, struct.pack("<Q", 1 if parents else 0) + table(parents))
    file_size = 64 + len(body) + 8 if file_size is None else file_size
    head = b"CKPTINDX" + struct.pack("<IIQQQ", version, chunk_size, file_size, 32 + len(stored), 0) + UUID
    index = head + struct.pack("<Q", 0) + body
    index += struct.pack("<Q", xxhash.xxh3_64_intdigest(index))
    path.mkdir()
    (path / "index.ckpt").write_bytes(index)
    (path / "chunks.ckpt").write_bytes(b"CKPTCHNK" + struct.pack("<II", version, ~version & 0xFFFFFFFF) + UUID + stored)
    return path
