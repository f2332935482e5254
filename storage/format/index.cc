// SPDX-License-Identifier: Apache-2.0
#include "storage/format/index.h"

#include "storage/format/hash.h"
#include "storage/format/index_tables.h"

namespace ckpt::storage {
namespace {

// ---- writing

void put_header(Writer &w, const Index &index, u64 file_size, const Key *key) {
  w.raw(kIndexMagic.data(), kIndexMagic.size());
  w.put(kFormatVersion).put(index.chunk_size).put(file_size).put(index.chunks_file_size);
  w.put(key ? u64{0} : index.seed).raw(index.uuid.data(), index.uuid.size());
  w.put(key ? key->check(index.uuid) : u64{0});
}

void put_section(Writer &w, Section tag, ByteView body) {
  w.put(tag).put(u32{0}).put(u64{body.size()}).raw(body.data(), body.size());
}

// A sealed body starts with the seed, because the header is readable without the key.
Writer encode_body(const Index &index, bool sealed) {
  Writer body;
  if (sealed) body.put(index.seed);
  put_section(body, Section::Manifest, view(index.manifest));
  put_section(body, Section::Chunks, encode_chunks(index).bytes());
  put_section(body, Section::Streams, encode_streams(index).bytes());
  put_section(body, Section::Parents, encode_parents(index).bytes());
  return body;
}

Result<> check_limits(const Index &index, u64 file_size) {
  if (index.manifest.size() > kMaxManifestBytes)
    return fail("the manifest has {} bytes; the limit is {}", index.manifest.size(),
                kMaxManifestBytes);
  if (index.streams.size() > kMaxStreams)
    return fail("the image has {} streams; the limit is {}", index.streams.size(), kMaxStreams);
  if (index.parents.size() > kMaxParents)
    return fail_with_hint(fmt::format("the image has {} parent images; the limit is {}",
                                      index.parents.size(), kMaxParents),
                          "shorten the chain with ckpt-image prune, or start a new one");
  if (file_size > kMaxIndexBytes)
    return fail("the index has {} bytes; the limit is {}", file_size, kMaxIndexBytes);
  return {};
}

// ---- reading

Result<> check_header_fits(ByteView file) {
  if (file.size() < kIndexHeaderBytes + kChecksumBytes)
    return fail("truncated: {} bytes are too few for an index", file.size());
  if (text(file.first(kIndexMagic.size())) != kIndexMagic)
    return fail("not the index of a ckpt image (wrong magic)");
  return {};
}

Result<> check_version(u32 version) {
  if (version >= kFirstVersion && version <= kFormatVersion) return {};
  return fail_with_hint(
      fmt::format("format version {}; this ckpt reads versions {} to {}", version, kFirstVersion,
                  kFormatVersion),
      version > kFormatVersion ? "use a newer ckpt, unless the file is damaged" : "");
}

Result<> check_size_and_checksum(ByteView file, u64 declared) {
  if (declared != file.size())
    return fail("{} bytes, but the header says {}: truncated or damaged", file.size(), declared);
  ByteView body = file.first(file.size() - kChecksumBytes);
  u64 stored = Reader(file.last(kChecksumBytes)).get<u64>();
  if (xxh3_64(body) != stored) return fail("wrong checksum: damaged");
  return {};
}

Result<> check_header_fields(const Index &index) {
  if (index.version == 1 && index.key_check != 0)
    return fail("reserved bytes of the header are not zero");
  if (index.key_check != 0 && index.seed != 0) return fail("encrypted, but the seed is not");
  if (index.chunk_size < kMinChunkBytes || index.chunk_size > kMaxChunkBytes)
    return fail("chunk size {} is outside {} to {}", index.chunk_size, kMinChunkBytes,
                kMaxChunkBytes);
  return {};
}

Result<> parse_header(Reader &in, Index &index, ByteView file) {
  in.raw(kIndexMagic.size());
  index.version = in.get<u32>();
  CKPT_CHECK(check_version(index.version));
  index.chunk_size = in.get<u32>();
  CKPT_CHECK(check_size_and_checksum(file, in.get<u64>()));
  index.chunks_file_size = in.get<u64>();
  index.seed = in.get<u64>();
  std::memcpy(index.uuid.data(), in.raw(index.uuid.size()).data(), index.uuid.size());
  index.key_check = in.get<u64>();
  return check_header_fields(index);
}

// Returns the decrypted sections and sets the seed.
Result<Bytes> unseal_body(ByteView header, ByteView sealed, Index &index, const Key *key) {
  if (!key) return fail_with_hint("the image is encrypted", "pass its key with --key-file");
  if (key->check(index.uuid) != index.key_check)
    return fail_with_hint("the image is encrypted with another key: wrong key",
                          "pass the key that the image was written with");
  if (sealed.size() < kSealBytes + sizeof index.seed) return fail("too short to be encrypted");
  Bytes body(sealed.size() - kSealBytes);
  CKPT_CHECK(key->open(header, sealed, body));
  index.seed = Reader(body).get<u64>();
  body.erase(body.begin(), body.begin() + sizeof index.seed);
  return body;
}

Result<Reader> section(Reader &in, Section tag, const char *name) {
  u32 found = in.get<u32>();
  u32 reserved = in.get<u32>();
  u64 size = in.get<u64>();
  if (!in.ok() || found != static_cast<u32>(tag) || reserved != 0 || size > in.left())
    return fail("the section '{}' is malformed", name);
  return Reader(in.raw(size));
}

Result<> parse_body(Reader in, Index &index) {
  CKPT_TRY(Reader manifest, section(in, Section::Manifest, "manifest"));
  if (manifest.left() > kMaxManifestBytes)
    return fail("the manifest has {} bytes; the limit is {}", manifest.left(), kMaxManifestBytes);
  index.manifest = text(manifest.raw(manifest.left()));
  CKPT_TRY(Reader chunks, section(in, Section::Chunks, "chunks"));
  CKPT_TRY(Reader streams, section(in, Section::Streams, "streams"));
  CKPT_TRY(Reader parents, section(in, Section::Parents, "parents"));
  if (!in.done()) return fail("{} extra bytes after the last section", in.left());
  CKPT_CHECK(parse_parents(parents, index));
  CKPT_CHECK(parse_chunks(chunks, index));
  return parse_streams(streams, index);
}

}  // namespace

Result<Bytes> encode_index(const Index &index, const Key *key) {
  Writer body = encode_body(index, key != nullptr);
  u64 seal = key ? kSealBytes : 0;
  u64 file_size = kIndexHeaderBytes + body.size() + seal + kChecksumBytes;
  CKPT_CHECK(check_limits(index, file_size));
  Writer file;
  put_header(file, index, file_size, key);
  if (key) {
    Bytes sealed(body.size() + seal);
    key->seal(file.bytes(), body.bytes(), sealed);
    file.raw(sealed.data(), sealed.size());
  } else {
    file.raw(body.bytes().data(), body.size());
  }
  file.put(xxh3_64(file.bytes()));
  return file.take();
}

Result<Index> parse_index(ByteView file, const Key *key) {
  CKPT_CHECK(check_header_fits(file));
  Index index;
  Reader in(file.first(file.size() - kChecksumBytes));
  CKPT_CHECK(parse_header(in, index, file));
  ByteView rest = in.raw(in.left());
  Bytes clear;
  if (index.key_check != 0) {
    CKPT_TRY(clear, unseal_body(file.first(kIndexHeaderBytes), rest, index, key));
    rest = clear;
  }
  CKPT_CHECK(parse_body(Reader(rest), index));
  return index;
}

Bytes encode_chunks_header(const Uuid &uuid, u32 version) {
  Writer w;
  w.raw(kChunksMagic.data(), kChunksMagic.size());
  // The complement of the version: a single flipped bit must not turn the header into that of
  // another version, because a parent's chunks.ckpt may have any version.
  w.put(version).put(version < 3 ? u32{0} : ~version).raw(uuid.data(), uuid.size());
  return w.take();
}

}  // namespace ckpt::storage
