// SPDX-License-Identifier: Apache-2.0
//
// The index's parser takes hostile bytes: whatever they are, it ends, and never takes more memory
// than a small multiple of its input.
#include <malloc.h>
#include <xxhash.h>

#include <atomic>
#include <new>

#include "storage/format/index.h"
#include "storage/format/manifest.h"
#include "tests/unit/storage/support.h"

namespace {
std::atomic<size_t> largest_allocation = 0;
}

// Replaced for the whole test program: remembers the largest request.
// Not inlined: g++ 12 would see its malloc() meet a delete (-Wmismatched-new-delete).
[[gnu::noinline]] void *operator new(size_t n) {
  size_t seen = largest_allocation;
  while (seen < n && !largest_allocation.compare_exchange_weak(seen, n)) {
  }
  if (void *p = std::malloc(n)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void *p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void *p, size_t) noexcept { std::free(p); }

namespace ckpt::test {
namespace {

constexpr size_t kVersionAt = 8, kSizeAt = 16;

Index small_index() {
  Index i;
  i.manifest = R"({"a":1})";
  i.generation = 3;
  i.parents = {{{7}, 1000, "base.img"}, {{8}, 2000, "\xc3\xa9"}};
  i.chunks = {{{1, 2}, 3, kChunksHeaderBytes, 40, 40, Codec::Raw},
              {{4, 5}, 6, kChunksHeaderBytes + 40, 30, static_cast<u32>(kChunkBytes), Codec::Zstd},
              {{6, 7}, 8, 1995, 5, 9, Codec::Zstd, 2},
              {{8, 9}, 10, kChunksHeaderBytes + 70, 6, 30, Codec::Delta, 0, 0, 20}};
  i.chunks_file_size = kChunksHeaderBytes + 76;
  i.streams = {
      {"a", 40, {0}}, {"b/c", kChunkBytes + 49, {1, 0, 2}}, {"empty", 0, {}}, {"delta", 30, {3}}};
  return i;
}

// With the size in the header and the checksum made right, so that the rest is looked at.
Bytes seal(Bytes file) {
  u64 size = file.size();
  std::memcpy(file.data() + kSizeAt, &size, sizeof size);
  u64 sum = XXH3_64bits(file.data(), file.size() - kChecksumBytes);
  std::memcpy(file.data() + file.size() - kChecksumBytes, &sum, sizeof sum);
  return file;
}

TEST_CASE("an index comes back") {
  Index in = small_index(), out = must(parse_index(must(encode_index(in))));
  CHECK(out.manifest == in.manifest);
  REQUIRE(out.chunks.size() == 4);
  CHECK(out.chunks[3].base == 0);
  CHECK(out.chunks[3].base_offset == 20);
  CHECK(out.chunks[1].address == in.chunks[1].address);
  CHECK(out.chunks[1].offset == kChunksHeaderBytes + 40);
  REQUIRE(out.streams.size() == 4);
  CHECK(out.streams[1].name == "b/c");
  CHECK(out.streams[1].chunks == std::vector<u32>{1, 0, 2});
  CHECK(out.streams[1].starts == std::vector<u64>{0, kChunkBytes, kChunkBytes + 40});
  for (auto [offset, chunk] : {std::pair{size_t{0}, 0u},
                               {kChunkBytes - 1, 0u},
                               {kChunkBytes, 1u},
                               {kChunkBytes + 40, 2u},
                               {kChunkBytes + 48, 2u}})
    CHECK(out.streams[1].chunk_at(offset) == chunk);
  CHECK(out.generation == 3);
  REQUIRE(out.parents.size() == 2);
  CHECK(out.parents[1].name == "\xc3\xa9");
  CHECK(out.parents[0].uuid == Uuid{7});
  CHECK(out.chunks[2].file == 2);
  CHECK(out.chunks[2].offset == 1995);
}

TEST_CASE("an unknown version is an error that names both") {
  Bytes file = must(encode_index(small_index()));
  file[kVersionAt] = std::byte{9};
  Result<Index> r = parse_index(file);
  REQUIRE_FALSE(r);
  CHECK(r.error().what == "format version 9; this ckpt reads versions 1 to 3");
}

TEST_CASE("any field with a hostile value: an error or a sane index, in bounded memory") {
  Bytes whole = must(encode_index(small_index()));
  REQUIRE(seal(whole) == whole);
  for (size_t at = kIndexMagic.size(); at + kChecksumBytes < whole.size(); ++at)
    for (u64 value : {u64{0}, u64{1}, u64{0x7f}, u64{0xff}, u64{0x7fffffff}, u64{0xffffffff},
                      u64{1} << 46, u64{1} << 63, ~u64{0}})
      for (size_t width : {1, 4, 8}) {
        Bytes file = whole;
        std::memcpy(file.data() + at, &value, std::min(width, file.size() - kChecksumBytes - at));
        file = seal(file);
        largest_allocation = 0;
        Result<Index> r = parse_index(file);
        CHECK(largest_allocation < 16 * file.size() + 4096);
        if (r && r->version == kFormatVersion) CHECK(must(encode_index(*r)).size() == file.size());
      }
}

TEST_CASE("every truncation, resealed") {
  Bytes whole = must(encode_index(small_index()));
  for (size_t n = 0; n < whole.size(); ++n) {
    Bytes file(whole.begin(), whole.begin() + static_cast<long>(n));
    if (n >= kIndexHeaderBytes + kChecksumBytes) file = seal(file);
    CHECK_FALSE(parse_index(file));
  }
}

void check_refused(const Index &index, const char *why) {
  Result<Index> r = parse_index(must(encode_index(index)));
  REQUIRE_FALSE(r);
  CAPTURE(r.error().what);
  CHECK(r.error().what.find(why) != std::string::npos);
}

TEST_CASE("what does not fit together is refused by name") {
  Index i = small_index();
  i.streams[0].chunks = {7};
  check_refused(i, "stream 'a': names chunk 7");
  i = small_index();
  i.streams[0].size = 41;
  check_refused(i, "stream 'a': has 1 bytes more than its chunks");
  i = small_index();
  i.streams[0].size = 39;
  check_refused(i, "stream 'a': needs 39 bytes of chunk 0");
  i = small_index();
  i.chunks[1].offset += 1;
  check_refused(i, "chunk 1: lies at byte");
  i = small_index();
  i.chunks[2].file = 3;
  check_refused(i, "chunk 2: lies in parent 3 of 2");
  i = small_index();
  i.chunks[2].offset += 1;
  check_refused(i, "chunk 2: lies at byte 1996 of a parent that has 2000");
  i = small_index();
  i.chunks[2].offset = ~u64{0} - 3;
  check_refused(i, "of a parent that has 2000");
  for (const char *name : {"", "..", ".", "a/b", "/etc"}) {
    i = small_index();
    i.parents[0].name = name;
    check_refused(i, "is no name of a parent");
  }
  i = small_index();
  i.parents[0].name = std::string("a\0b", 3);
  check_refused(i, "is no name of a parent");
  i = small_index();
  i.parents[1].uuid = i.parents[0].uuid;
  check_refused(i, "twice");
  i = small_index();
  i.parents[1].uuid = i.uuid;
  check_refused(i, "twice");
  i = small_index();
  i.streams[0].name = "../../etc/passwd";
  check_refused(i, "not a plain relative path");
  i = small_index();
  i.streams[0].name = "\x1b[2J";
  check_refused(i, "\\x1b[2J");
  i = small_index();
  i.streams[1].name = "a";
  check_refused(i, "two streams are named 'a'");
  i = small_index();
  i.chunks[0].codec = static_cast<Codec>(9);
  check_refused(i, "chunk 0: codec 9");
  i = small_index();
  i.chunks[0].codec = Codec::Zero;
  check_refused(i, "chunk 0: codec 0");
  i = small_index();
  i.chunks[1].raw_size = kMaxChunkBytes + 1;
  check_refused(i, "chunk 1: holds");
  i = small_index();
  i.chunks[3].base = 4;
  check_refused(i, "chunk 3: has base 4, which does not exist");
  i = small_index();
  i.chunks[3].base = 3;  // itself, or another delta: one would lead to the next
  check_refused(i, "chunk 3: has base 3 of codec 3");
  i = small_index();
  i.chunks[3].base_offset = 40;
  check_refused(i, "chunk 3: begins at byte 40 of base 0, which holds 40");
  i = small_index();
  i.chunks[1].base = 1;
  check_refused(i, "chunk 1: has a base, and is no delta");
  i = small_index();
  i.chunks[3].stored_size = 30;
  i.chunks_file_size += 24;
  check_refused(i, "chunk 3: codec 3 with 30 bytes of 30");
  i = small_index();
  i.chunk_size = kMaxChunkBytes * 2;
  check_refused(i, "chunk size");
  i = small_index();
  i.chunks_file_size += 1;
  check_refused(i, "add up to");
}

TEST_CASE("too many parents are neither written nor read") {
  Index i = small_index();
  for (u32 n = 2; n <= kMaxParents; ++n)
    i.parents.push_back({{9, static_cast<u8>(n), static_cast<u8>(n >> 8)}, 100, "p"});
  Result<Bytes> r = encode_index(i);
  REQUIRE_FALSE(r);
  CHECK(r.error().hint.find("prune") != std::string::npos);
}

TEST_CASE("a manifest must be an object, not too deep") {
  CHECK(parse_manifest("{}"));
  CHECK(parse_manifest(R"({"a":[[[{"b":null}]]]})"));
  for (const char *text : {"", "[]", "1", "null", "{", "{\"a\":}", "{\"a\":\"\xff\"}", "{}x"})
    CHECK_FALSE(parse_manifest(text));
  for (size_t depth : {100, 1000000})
    CHECK_FALSE(
        parse_manifest("{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"));
  CHECK_FALSE(parse_manifest(std::string(1000000, '[')));
}

}  // namespace
}  // namespace ckpt::test
