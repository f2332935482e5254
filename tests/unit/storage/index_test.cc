// SPDX-License-Identifier: Apache-2.0
//
// The parser of the index accepts hostile bytes: it always returns, and never allocates more than a
// small multiple of its input.
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

// Replaces operator new of the whole test program, to record the largest request. Not inlined,
// because g++ 12 would warn of malloc() and delete (-Wmismatched-new-delete).
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

// Corrects the size in the header and the checksum, so that the parser reaches the rest.
Bytes seal(Bytes file) {
  u64 size = file.size();
  std::memcpy(file.data() + kSizeAt, &size, sizeof size);
  u64 sum = XXH3_64bits(file.data(), file.size() - kChecksumBytes);
  std::memcpy(file.data() + file.size() - kChecksumBytes, &sum, sizeof sum);
  return file;
}

TEST_CASE("an index can be encoded and parsed") {
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

TEST_CASE("the error for an unknown version names both versions") {
  Bytes file = must(encode_index(small_index()));
  file[kVersionAt] = std::byte{9};
  Result<Index> r = parse_index(file);
  REQUIRE_FALSE(r);
  CHECK(r.error().what == "format version 9; this ckpt reads versions 1 to 3");
}

TEST_CASE("a hostile value in any field gives an error or a valid index, in bounded memory") {
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

TEST_CASE("every truncation with a correct checksum is refused") {
  Bytes whole = must(encode_index(small_index()));
  for (size_t n = 0; n < whole.size(); ++n) {
    Bytes file(whole.begin(), whole.begin() + static_cast<long>(n));
    if (n >= kIndexHeaderBytes + kChecksumBytes) file = seal(file);
    CHECK_FALSE(parse_index(file));
  }
}

// small_index() with one change must be refused with an error that contains `why`.
struct Inconsistency {
  void (*change)(Index &index);
  const char *why;
};

void check_refused(const std::vector<Inconsistency> &cases) {
  for (const Inconsistency &c : cases) {
    Index index = small_index();
    c.change(index);
    Result<Index> r = parse_index(must(encode_index(index)));
    CAPTURE(c.why);
    REQUIRE_FALSE(r);
    CAPTURE(r.error().what);
    CHECK(r.error().what.find(c.why) != std::string::npos);
  }
}

TEST_CASE("inconsistent streams are refused, and the error names them") {
  check_refused({
      {[](Index &i) { i.streams[0].chunks = {7}; }, "stream 'a': refers to chunk 7"},
      {[](Index &i) { i.streams[0].size = 41; }, "stream 'a': is 1 bytes longer than its chunks"},
      {[](Index &i) { i.streams[0].size = 39; }, "stream 'a': needs 39 bytes of chunk 0"},
      {[](Index &i) { i.streams[0].name = "../../etc/passwd"; }, "not a plain relative path"},
      {[](Index &i) { i.streams[0].name = "\x1b[2J"; }, "\\x1b[2J"},
      {[](Index &i) { i.streams[1].name = "a"; }, "two streams are named 'a'"},
  });
}

TEST_CASE("inconsistent parents are refused") {
  check_refused({
      {[](Index &i) { i.parents[0].name = ""; }, "is not a valid name of a parent"},
      {[](Index &i) { i.parents[0].name = ".."; }, "is not a valid name of a parent"},
      {[](Index &i) { i.parents[0].name = "."; }, "is not a valid name of a parent"},
      {[](Index &i) { i.parents[0].name = "a/b"; }, "is not a valid name of a parent"},
      {[](Index &i) { i.parents[0].name = "/etc"; }, "is not a valid name of a parent"},
      {[](Index &i) { i.parents[0].name = std::string("a\0b", 3); },
       "is not a valid name of a parent"},
      {[](Index &i) { i.parents[1].uuid = i.parents[0].uuid; }, "twice"},
      {[](Index &i) { i.parents[1].uuid = i.uuid; }, "twice"},
  });
}

TEST_CASE("inconsistent chunks are refused, and the error names them") {
  check_refused({
      {[](Index &i) { i.chunks[1].offset += 1; }, "chunk 1: is at byte"},
      {[](Index &i) { i.chunks[2].file = 3; }, "chunk 2: is in parent 3 of 2"},
      {[](Index &i) { i.chunks[2].offset += 1; },
       "chunk 2: is at byte 1996 of a parent that has 2000"},
      {[](Index &i) { i.chunks[2].offset = ~u64{0} - 3; }, "of a parent that has 2000"},
      {[](Index &i) { i.chunks[0].codec = static_cast<Codec>(9); }, "chunk 0: codec 9"},
      {[](Index &i) { i.chunks[0].codec = Codec::Zero; }, "chunk 0: codec 0"},
      {[](Index &i) { i.chunks[1].raw_size = kMaxChunkBytes + 1; }, "chunk 1: has"},
      {[](Index &i) { i.chunk_size = kMaxChunkBytes * 2; }, "chunk size"},
      {[](Index &i) { i.chunks_file_size += 1; }, "add up to"},
  });
}

TEST_CASE("inconsistent deltas are refused, and the error names them") {
  check_refused({
      {[](Index &i) { i.chunks[3].base = 4; }, "chunk 3: has base 4, which does not exist"},
      // The base is a delta, here itself.
      {[](Index &i) { i.chunks[3].base = 3; }, "chunk 3: has base 3 of codec 3"},
      {[](Index &i) { i.chunks[3].base_offset = 40; },
       "chunk 3: starts at byte 40 of base 0, which has 40"},
      {[](Index &i) { i.chunks[1].base = 1; }, "chunk 1: has a base but is not a delta"},
      {[](Index &i) {
         i.chunks[3].stored_size = 30;
         i.chunks_file_size += 24;
       },
       "chunk 3: codec 3 with 30 stored bytes for 30 raw bytes"},
  });
}

TEST_CASE("an index with too many parents is not written") {
  Index i = small_index();
  for (u32 n = 2; n <= kMaxParents; ++n)
    i.parents.push_back({{9, static_cast<u8>(n), static_cast<u8>(n >> 8)}, 100, "p"});
  Result<Bytes> r = encode_index(i);
  REQUIRE_FALSE(r);
  CHECK(r.error().hint.find("prune") != std::string::npos);
}

TEST_CASE("a manifest has 64 levels at most, and brackets in strings are none") {
  auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  CHECK(parse_manifest(nested(64)));
  CHECK_FALSE(parse_manifest(nested(65)));
  CHECK(
      parse_manifest("{\"" + std::string(100, '[') + "\":\"\\\"" + std::string(100, '{') + "\"}"));
}

TEST_CASE("a manifest must be an object of limited depth") {
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
