// SPDX-License-Identifier: Apache-2.0
//
// The index's parser takes hostile bytes: whatever they are, it ends, and never takes more memory
// than a small multiple of its input.
#include <malloc.h>
#include <xxhash.h>

#include <atomic>
#include <new>

#include "storage/index.h"
#include "storage/manifest.h"
#include "tests/unit/storage/support.h"

namespace {
std::atomic<size_t> largest_allocation = 0;
}

// Replaced for the whole test program: remembers the largest request.
void *operator new(size_t n) {
  size_t seen = largest_allocation;
  while (seen < n && !largest_allocation.compare_exchange_weak(seen, n)) {
  }
  if (void *p = std::malloc(n)) return p;
  std::abort();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, size_t) noexcept { std::free(p); }

namespace ckpt::test {
namespace {

constexpr size_t kVersionAt = 8, kSizeAt = 16;

Index small_index() {
  Index i;
  i.manifest = R"({"a":1})";
  i.chunks = {{{1, 2}, 3, kChunksHeaderBytes, 40, 40, Codec::Raw},
              {{4, 5}, 6, kChunksHeaderBytes + 40, 30, static_cast<u32>(kChunkBytes), Codec::Zstd}};
  i.chunks_file_size = kChunksHeaderBytes + 70;
  i.streams = {{"a", 40, {0}}, {"b/c", kChunkBytes + 40, {1, 0}}, {"empty", 0, {}}};
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
  REQUIRE(out.chunks.size() == 2);
  CHECK(out.chunks[1].address == in.chunks[1].address);
  CHECK(out.chunks[1].offset == kChunksHeaderBytes + 40);
  REQUIRE(out.streams.size() == 3);
  CHECK(out.streams[1].name == "b/c");
  CHECK(out.streams[1].chunks == std::vector<u32>{1, 0});
}

TEST_CASE("an unknown version is an error that names both") {
  Bytes file = must(encode_index(small_index()));
  file[kVersionAt] = std::byte{9};
  Result<Index> r = parse_index(file);
  REQUIRE_FALSE(r);
  CHECK(r.error().what == "format version 9; this ckpt reads version 1");
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
        if (r) CHECK(must(encode_index(*r)).size() == file.size());
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

void check_refused(Index index, const char *why) {
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
  check_refused(i, "stream 'a': needs 41 bytes of chunk 0");
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
  i.chunk_size = kMaxChunkBytes * 2;
  check_refused(i, "chunk size");
  i = small_index();
  i.chunks_file_size += 1;
  check_refused(i, "add up to");
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
