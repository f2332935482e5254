// SPDX-License-Identifier: Apache-2.0
//
// Increments of programs that changed a few bytes in many places: the differences are stored, and
// the base of a delta is never a delta itself.
#include "storage/ops/copy.h"
#include "storage/ops/prune.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMemory = 8u << 20;

// `memory` with changed bytes in every 100th page.
Bytes touched(Bytes memory, u64 seed) {
  for (size_t page = seed % 100; page < memory.size() / kPage; page += 100)
    std::ranges::copy(random_bytes(64, seed + page),
                      memory.begin() + static_cast<long>(page * kPage + 128));
  return memory;
}

enum class Way { Put, Append, Pages };

Result<> write(const std::string &path, const Bytes &bytes, Way way,
               const ImageWriter::Options &options = {}) {
  CKPT_TRY(auto image, ImageWriter::create(path, options));
  auto cut = way == Way::Pages ? Cut::Content : Cut::Fixed;
  CKPT_TRY(StreamId id, image->stream("memory", cut));
  if (way == Way::Put) CKPT_CHECK(image->put(id, 0, bytes));
  for (ByteView rest = bytes; way != Way::Put && !rest.empty();) {
    CKPT_CHECK(image->append(id, rest.first(std::min<size_t>(rest.size(), 70000))));
    rest = rest.subspan(std::min<size_t>(rest.size(), 70000));
  }
  return image->finish({{"program", "test"}});
}

u64 stored(const std::string &path) { return open_image(path)->stats().stored_bytes; }

bool stands_on_whole_chunks(const Index &index) {
  return std::ranges::all_of(index.chunks, [&](const ChunkEntry &c) {
    return c.codec != Codec::Delta || index.chunks[c.base].codec == Codec::Raw ||
           index.chunks[c.base].codec == Codec::Zstd;
  });
}

TEST_CASE("changes in single pages everywhere need less than 3 % of the bytes") {
  for (Way way : {Way::Put, Way::Append, Way::Pages})
    for (bool smooth : {false, true}) {
      CAPTURE(static_cast<int>(way));
      CAPTURE(smooth);
      TempFolder tmp;
      Bytes memory = smooth ? smooth_bytes(kMemory + 5, 1) : random_bytes(kMemory + 5, 1);
      must(write(tmp / "one", memory, way));
      Bytes next = touched(memory, 7);
      must(write(tmp / "two", next, way, {.parent = tmp / "one"}));
      check_holds(tmp / "two", {{"memory", next}});
      CHECK(stored(tmp / "two") * 100 < 3 * std::max(stored(tmp / "one"), u64{kMemory} / 8));
      CHECK(open_image(tmp / "two")->stats().delta_chunks > 5);
    }
}

TEST_CASE(
    "in a long chain the bases are whole chunks, and deltas that grow are replaced by whole "
    "chunks") {
  TempFolder tmp;
  Bytes memory = random_bytes(2u << 20, 1);
  must(write(tmp / "0", memory, Way::Pages));
  bool was_whole = false;
  for (u64 i = 1; i <= 60; ++i) {
    memory = touched(memory, i * 3);
    for (size_t page = i * 8; page < i * 8 + 8; ++page)  // and eight whole pages
      std::ranges::copy(random_bytes(kPage, page),
                        memory.begin() + static_cast<long>(page * kPage));
    must(write(tmp / std::to_string(i), memory, Way::Pages,
               {.parent = tmp / std::to_string(i - 1)}));
    auto image = open_image(tmp / std::to_string(i));
    REQUIRE(stands_on_whole_chunks(image->index()));
    REQUIRE(must(read_stream(*image, "memory")) == memory);
    ImageStats s = image->stats();
    was_whole |= s.raw_chunks > 0;
    if (i == 1) CHECK(s.delta_chunks > 0);
  }
  CHECK(was_whole);
}

TEST_CASE("pages that moved and changed are deltas on the old pages") {
  TempFolder tmp;
  Bytes memory = random_bytes(kMemory, 1);
  must(write(tmp / "one", memory, Way::Pages));
  Bytes moved = random_bytes(3 * kPage, 2);
  Bytes changed = touched(memory, 500);
  std::ranges::copy(memory.begin(), memory.begin() + (2 << 20), changed.begin());  // unchanged
  moved.insert(moved.end(), changed.begin(), changed.end());
  must(write(tmp / "two", moved, Way::Pages, {.parent = tmp / "one"}));
  check_holds(tmp / "two", {{"memory", moved}});
  CHECK(stored(tmp / "two") < 2 * kChunkBytes);
  CHECK(open_image(tmp / "two")->stats().delta_chunks > 5);
}

TEST_CASE("parts of a stream with deltas can be read") {
  TempFolder tmp;
  Bytes memory = random_bytes(kMemory, 1);
  must(write(tmp / "0", memory, Way::Pages));
  for (u64 i = 1; i < 4; ++i) {
    memory = touched(memory, i * 30);
    must(write(tmp / std::to_string(i), memory, Way::Pages,
               {.parent = tmp / std::to_string(i - 1)}));
  }
  auto image = open_image(tmp / "3");
  REQUIRE(image->stats().delta_chunks > 0);
  std::mt19937 rng(3);
  for (int i = 0; i < 100; ++i) {
    size_t at = rng() % memory.size(), n = rng() % std::min<size_t>(memory.size() - at, 3000000);
    Bytes out(n);
    must(image->read(image->streams()[0], at, out));
    REQUIRE(std::ranges::equal(out, ByteView(memory).subspan(at, n)));
  }
  std::filesystem::rename(tmp / "0", tmp / "away");
  auto missing = ImageReader::open(tmp / "3");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().what.find("an increment on the image '0'") != std::string::npos);
}

TEST_CASE("memory that changed completely is stored whole") {
  TempFolder tmp;
  must(write(tmp / "one", random_bytes(kMemory * 4, 1), Way::Put));
  must(write(tmp / "two", random_bytes(kMemory * 4, 2), Way::Put, {.parent = tmp / "one"}));
  CHECK(open_image(tmp / "two")->stats().delta_chunks == 0);
  check_holds(tmp / "two", {{"memory", random_bytes(kMemory * 4, 2)}});
}

TEST_CASE("with a damaged base the writer stores whole chunks, and the reader names the base") {
  TempFolder tmp;
  Bytes memory = random_bytes(kChunkBytes, 1), next = touched(memory, 3);
  must(write(tmp / "one", memory, Way::Put));
  must(write(tmp / "two", next, Way::Put, {.parent = tmp / "one"}));
  Bytes chunks = read_file(tmp / "one/chunks.ckpt");
  chunks[5000] ^= std::byte{4};
  write_file(tmp / "one/chunks.ckpt", chunks);
  must(write(tmp / "three", touched(memory, 4), Way::Put, {.parent = tmp / "one"}));
  check_holds(tmp / "three", {{"memory", touched(memory, 4)}});
  auto two = open_image(tmp / "two");
  Result<Bytes> read = read_stream(*two, "memory");
  REQUIRE_FALSE(read);
  CHECK(read.error().what.find("its base, chunk") != std::string::npos);
  for (auto depth : {ImageReader::Depth::Stored, ImageReader::Depth::Full}) {
    auto report = two->verify(depth);
    REQUIRE_FALSE(report.ok());
    std::string all;
    for (const std::string &d : report.damages) all += d;
    CHECK(all.find(tmp / "one/chunks.ckpt") != std::string::npos);
    CHECK(all.find("stream 'memory'") != std::string::npos);
  }
}

TEST_CASE("every single-bit flip of a delta is found") {
  TempFolder tmp;
  Bytes memory = random_bytes(9000, 1), next = memory;
  next[4000] ^= std::byte{1};
  must(write(tmp / "one", memory, Way::Put));
  must(write(tmp / "two", next, Way::Put, {.parent = tmp / "one"}));
  Bytes whole = read_file(tmp / "two/chunks.ckpt");
  REQUIRE(open_image(tmp / "two")->stats().delta_chunks == 1);
  for (size_t bit = kChunksHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    write_file(tmp / "two/chunks.ckpt", flipped);
    auto two = open_image(tmp / "two");
    REQUIRE_FALSE(two->verify(ImageReader::Depth::Stored, {}, 1).ok());
    REQUIRE_FALSE(read_stream(*two, "memory"));
  }
}

struct Chain {
  explicit Chain(const Key *key) : key(key) {
    for (u64 i = 0; i < 5; ++i) {
      if (i > 0) memory.push_back(touched(memory.back(), i * 11));
      must(write(path(i), memory[i], Way::Put, {.parent = i ? path(i - 1) : "", .key = key}));
    }
  }
  std::string path(u64 i) const { return tmp / std::to_string(i); }
  void check(const std::string &at, u64 i) const {
    check_holds(at, {{"memory", memory[i]}}, {.key = key});
  }
  TempFolder tmp;
  const Key *key;
  std::vector<Bytes> memory = {random_bytes(3 * kChunkBytes, 1)};
};

TEST_CASE("deltas are pruned, flattened and reused without decoding, encrypted or not") {
  Key key = must(Key::from_bytes(random_bytes(Key::kBytes, 1)));
  for (const Key *used : {static_cast<const Key *>(nullptr), static_cast<const Key *>(&key)}) {
    Chain chain(used);
    TempFolder other;
    for (u64 i = 0; i < 5; ++i) chain.check(chain.path(i), i);
    must(flatten_image(*open_image(chain.path(4), {.key = used}), other / "flat", {.key = used}));
    {
      auto next =
          must(ImageWriter::create(chain.tmp / "next", {.parent = chain.path(4), .key = used}));
      StreamId id = must(next->stream("memory"));
      must(next->reuse(id, "memory", chain.memory[4].size()));
      must(next->finish({{"n", 1}}));
    }
    chain.check(chain.tmp / "next", 4);
    std::filesystem::remove_all(chain.tmp / "next");
    must(prune_chain(chain.path(4), 2, {.key = used}));
    CHECK_FALSE(std::filesystem::exists(chain.path(0)));
    for (u64 i : {3, 4}) chain.check(chain.path(i), i);
    CHECK(open_image(chain.path(4), {.key = used})->stats().delta_chunks > 0);
    must(prune_chain(chain.path(4), 1, {.key = used}));
    chain.check(chain.path(4), 4);
    chain.check(other / "flat", 4);
  }
}

}  // namespace
}  // namespace ckpt::test
