// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/store_io.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace ckpt;
using namespace ckpt::agent;

namespace {

constexpr u32 kSlots = 4, kSlotBytes = 1 << 16;

Staging staging() { return *Staging::create(kSlots, kSlotBytes); }

// Saves `bytes` as a participant does.
template <class AnySink>
Result<> save(AnySink &sink, const std::string &name, const std::vector<u8> &bytes) {
  CKPT_TRY(u32 region, sink.region(name, bytes.size()));
  for (size_t at = 0; at < bytes.size(); at += sink.slot_bytes()) {
    u32 n = static_cast<u32>(std::min<size_t>(sink.slot_bytes(), bytes.size() - at));
    CKPT_TRY(Slot slot, sink.acquire());
    std::memcpy(slot.data, bytes.data() + at, n);
    CKPT_CHECK(sink.put(region, at, slot, n));
  }
  return sink.finish();
}

std::vector<u8> load(Source &source, const std::string &name, size_t bytes) {
  std::vector<u8> out(bytes, 0xee);
  Source::Piece piece;
  for (;;) {
    Result<bool> more = source.next(piece);
    REQUIRE(more);
    if (!*more) return out;
    if (piece.region == name) std::memcpy(out.data() + piece.offset, piece.slot.data, piece.bytes);
    REQUIRE(source.release(piece.slot));
  }
}

std::vector<u8> pattern(size_t bytes) {
  std::vector<u8> v(bytes);
  for (size_t i = 0; i < bytes; i++) v[i] = static_cast<u8>(i * 7 + i / 251);
  return v;
}

void round_trip(const std::string &folder) {
  Result<ContentsStore> store = ContentsStore::create(folder);
  REQUIRE(store);
  Staging s = staging();
  // `a` begins inside a stripe (`mixed` precedes it) and covers several.
  std::vector<u8> a = pattern(19'300'000), zeros(200'000), mixed = pattern(200'000);
  std::memset(mixed.data() + kSlotBytes, 0, kSlotBytes);
  StoreSink ocl(*store, s, "ocl/"), cuda(*store, s, "cuda/");
  REQUIRE(save(cuda, "mem-2", mixed));
  REQUIRE(save(ocl, "mem-1", a));
  REQUIRE(save(cuda, "mem-1", zeros));
  CHECK(StoreSource(*store, s, "ocl/").slot_count() == kSlots);
  StoreSource from_ocl(*store, s, "ocl/"), from_cuda(*store, s, "cuda/"), again(*store, s, "cuda/");
  CHECK(load(from_ocl, "mem-1", a.size()) == a);
  CHECK(load(from_cuda, "mem-2", mixed.size()) == mixed);
  CHECK(load(again, "mem-1", zeros.size()) == zeros);
}

}  // namespace

TEST_CASE("a store returns the contents of each API") {
  round_trip("");
  round_trip("/tmp");
}

TEST_CASE("a store refuses contents that do not fit") {
  Result<ContentsStore> store = ContentsStore::create("");
  REQUIRE(store);
  Result<> r = store->region("cuda/mem-1", u64{1} << 62);
  REQUIRE(!r);
  CHECK(r.error().what.find("do not fit") != std::string::npos);
  CHECK(r.error().hint.find("--to") != std::string::npos);
  REQUIRE(store->region("cuda/mem-1", 4096));
  CHECK(!store->region("cuda/mem-1", 4096));
  CHECK(store->place_of("cuda/mem-1", 4080, 16));
  CHECK(!store->place_of("cuda/mem-1", 4090, 16));
  CHECK(!store->place_of("cuda/mem-2", 0, 16));
  CHECK(!ContentsStore::create("/no/such/folder"));
}

TEST_CASE("a store is placed in memory if there is room; without any room it is refused") {
  CHECK(*ContentsStore::place_for(1 << 20) == "");
  Result<std::string> nowhere = ContentsStore::place_for(u64{1} << 62);
  REQUIRE(!nowhere);  // the disk is covered by tests/system/test_cuda.py
  CHECK(nowhere.error().what.find("/var/tmp") != std::string::npos);
  CHECK(nowhere.error().hint.find("TMPDIR") != std::string::npos);
}

TEST_CASE("a sink without a free slot fails instead of waiting") {
  Result<ContentsStore> store = ContentsStore::create("");
  REQUIRE(store);
  Staging s = staging();
  StoreSink sink(*store, s, "cuda/");
  for (u32 i = 0; i < kSlots; i++) REQUIRE(sink.acquire());
  CHECK(!sink.acquire());
}

namespace {

// A tool with few slots, which it returns only when it has all of them.
class Tool : public Sink {
 public:
  explicit Tool(Staging &staging) : staging_(staging) {
    for (u32 i = 0; i < kSlots; i++) free_.push_back(i);
  }
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return kSlotBytes; }
  u32 slot_count() const override { return kSlots; }
  Result<u32> region(const std::string &, u64 bytes) override {
    contents.resize(bytes);
    return 7u;
  }
  Result<Slot> acquire() override {
    if (free_.empty()) free_.swap(full_);
    if (free_.empty()) return fail("a tool would wait without end");
    Slot slot = staging_.slot(free_.back());
    free_.pop_back();
    return slot;
  }
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override {
    if (region != 7) return fail("region {}", region);
    std::memcpy(contents.data() + offset, slot.data, bytes);
    full_.push_back(slot.index);
    return {};
  }
  std::vector<u8> contents;

 private:
  Staging &staging_;
  std::vector<u32> free_, full_;
};

}  // namespace

TEST_CASE("a copying sink writes to the tool and into the store") {
  Result<ContentsStore> store = ContentsStore::create("");
  REQUIRE(store);
  Staging s = staging();
  Tool tool(s);
  CopyingSink both(tool, *store, "cuda/");
  std::vector<u8> bytes = pattern(3'210'000);
  REQUIRE(save(both, "mem-1", bytes));
  CHECK(tool.contents == bytes);
  StoreSource source(*store, s, "cuda/");
  CHECK(load(source, "mem-1", bytes.size()) == bytes);
}

TEST_CASE("a failed copy is reported by take()") {
  std::byte slot[16]{};
  CopyPool pool([](const CopyPiece &p) -> Result<> {
    if (p.offset == 3) return fail("no room");
    return {};
  });
  for (u64 i = 0; i < 8; i++) pool.add({0, i, {0, slot}, 16, 0});
  u64 sum = 0, failed = 0;
  while (pool.in_flight() > 0) {
    Result<CopyPiece> p = pool.take();
    if (p)
      sum += p->offset;
    else
      failed++;
  }
  CHECK(sum == 28 - 3);
  CHECK(failed == 1);
}
