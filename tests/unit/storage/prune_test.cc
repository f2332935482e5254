// SPDX-License-Identifier: Apache-2.0
//
// Pruning and flattening chains: whatever call fails, every image that is kept can still be read.
#include "storage/ops/prune.h"

#include "common/base/log.h"
#include "storage/ops/copy.h"
#include "tests/unit/storage/faulty_file_system.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

using Fault = FaultyFileSystem::Fault;
constexpr u64 kImages = 5;

// Image i has a new stream i and the streams of the images before it (stream 1 only up to image 3).
NamedBytes streams_of(u64 i) {
  NamedBytes out = {{"zero", zeros(5000)}};
  for (u64 k = 0; k <= i; ++k)
    if (k != 1 || i < 4) out.emplace_back(fmt::format("s{}", k), random_bytes(40000 + k, k));
  return out;
}

struct Chain {
  explicit Chain(const Key *key = nullptr) : key(key) {
    for (u64 i = 0; i < kImages; ++i)
      must(write_image(path(i), streams_of(i), {.parent = i ? path(i - 1) : "", .key = key}));
  }
  std::string path(u64 i) const { return tmp / fmt::format("image-{}", i); }
  void check_kept(u64 first) const {
    for (u64 i = first; i < kImages; ++i) check_holds(path(i), streams_of(i), {.key = key});
  }
  u64 bytes() const {
    u64 sum = 0;
    for (const auto &e : std::filesystem::recursive_directory_iterator(tmp.path()))
      if (e.is_regular_file()) sum += e.file_size();
    return sum;
  }
  TempFolder tmp;
  const Key *key;
};

TEST_CASE("a flattened image needs no parent") {
  Chain chain;
  must(flatten_image(*open_image(chain.path(4)), chain.tmp / "flat", {}));
  CHECK(open_image(chain.tmp / "flat")->index().parents.empty());
  must(flatten_image(*open_image(chain.path(3)), chain.path(3), {.overwrite = true}));
  for (u64 i : {0, 1, 2}) std::filesystem::remove_all(chain.path(i));
  check_holds(chain.tmp / "flat", streams_of(4));
  check_holds(chain.path(3), streams_of(3));
}

TEST_CASE("prune keeps the newest images and their contents") {
  for (u64 keep : {1, 2, 3, 5, 9}) {
    CAPTURE(keep);
    Chain chain;
    must(write_image(chain.tmp / "stranger", {{"s0", random_bytes(40000, 0)}}));
    u64 before = chain.bytes();
    PruneReport report = must(prune_chain(chain.path(2), keep));
    u64 first = kImages - std::min(keep, kImages);
    CHECK(report.removed.size() == first);
    CHECK(report.kept.size() == kImages - first);
    CHECK(chain.tmp.names().size() == kImages - first + 1);
    chain.check_kept(first);
    // Equal chunks are still stored once: only the indexes have grown.
    CHECK(chain.bytes() < before + 5000);
    check_holds(chain.tmp / "stranger", {{"s0", random_bytes(40000, 0)}});
    // An increment on the pruned chain stores nothing again.
    must(write_image(chain.tmp / "next", streams_of(4), {.parent = chain.path(4)}));
    CHECK(open_image(chain.tmp / "next")->stats().unique_chunks == 0);
  }
}

TEST_CASE("a chain can be pruned step by step, as --keep does after each dump") {
  Chain chain;
  must(prune_chain(chain.path(4), 4));
  must(prune_chain(chain.path(4), 3));
  must(prune_chain(chain.path(4), 2));
  chain.check_kept(3);
  CHECK_FALSE(prune_chain(chain.path(4), 0));
  CHECK_FALSE(prune_chain(chain.path(0), 1));
}

TEST_CASE("nothing is pruned while a dump needs it") {
  Chain chain;
  auto writer = must(ImageWriter::create(chain.tmp / "next", {.parent = chain.path(4)}));
  Result<PruneReport> r = prune_chain(chain.path(4), 2);
  REQUIRE_FALSE(r);
  CHECK(r.error().what.find("in progress") != std::string::npos);
  CHECK(chain.tmp.names().size() == kImages + 1);
  must(writer->finish({{"n", 1}}));
  writer.reset();
  must(prune_chain(chain.path(4), 2));
  chain.check_kept(4);
}

TEST_CASE("nothing is pruned beside an unreadable image, unless that has another key") {
  Chain chain;
  Key key = must(Key::from_bytes(random_bytes(Key::kBytes, 1)));
  must(write_image(chain.tmp / "sealed", {{"a", zeros(1)}}, {.key = &key}));
  std::filesystem::rename(chain.path(0), chain.tmp / "away");
  Result<PruneReport> r = prune_chain(chain.path(1), 2);
  CHECK_FALSE(r);
  std::filesystem::rename(chain.tmp / "away", chain.path(0));
  Bytes index = read_file(chain.path(4) + "/index.ckpt"), bad = index;
  bad[100] ^= std::byte{1};
  write_file(chain.path(4) + "/index.ckpt", bad);
  r = prune_chain(chain.path(3), 1);
  REQUIRE_FALSE(r);
  CHECK(r.error().what.find("image-4") != std::string::npos);
  write_file(chain.path(4) + "/index.ckpt", index);
  chain.check_kept(0);
  must(prune_chain(chain.path(3), 1));
  chain.check_kept(4);
}

TEST_CASE("prune survives the failure of each of its calls") {
  log::set_level(log::Level::Off);
  Chain whole;
  for (int call = 0;; ++call) {
    CAPTURE(call);
    TempFolder tmp;
    std::filesystem::copy(whole.tmp.path(), tmp.path(), std::filesystem::copy_options::recursive);
    FaultyFileSystem fs(call, Fault::Fail);
    Result<PruneReport> r = prune_chain(tmp / "image-4", 2, {.file_system = &fs});
    for (u64 i : {3, 4}) check_holds(tmp / fmt::format("image-{}", i), streams_of(i));
    must(prune_chain(tmp / "image-4", 2));
    for (u64 i : {3, 4}) check_holds(tmp / fmt::format("image-{}", i), streams_of(i));
    if (fs.struck().empty()) {
      CHECK(r);
      CHECK(call > 20);
      break;
    }
  }
  log::set_level(log::Level::Warn);
}

TEST_CASE("encrypted chains are pruned and flattened without decryption") {
  Key key = must(Key::from_bytes(random_bytes(Key::kBytes, 1)));
  Chain chain(&key);
  CHECK_FALSE(prune_chain(chain.path(4), 2));  // without the key
  must(prune_chain(chain.path(4), 2, {.key = &key}));
  chain.check_kept(3);
  must(flatten_image(*open_image(chain.path(4), {.key = &key}), chain.tmp / "flat", {.key = &key}));
  check_holds(chain.tmp / "flat", streams_of(4), {.key = &key});
  CHECK_FALSE(ImageReader::open(chain.tmp / "flat"));
}

}  // namespace
}  // namespace ckpt::test
