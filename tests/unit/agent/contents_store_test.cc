// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/store_io.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "common/ipc/unix_socket.h"

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
  CHECK(r.error().hint.find("suspend the program to a disk") != std::string::npos);
  Result<ContentsStore> in_folder = ContentsStore::create("/tmp");
  REQUIRE(in_folder);
  Result<> full = in_folder->region("cuda/mem-1", u64{1} << 62);
  REQUIRE(!full);  // the folder was chosen with --to
  CHECK(full.error().what.find("in /tmp") != std::string::npos);
  CHECK(full.error().hint.find("make room there, or choose a folder") != std::string::npos);
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

namespace {

// Saves `bytes` as a device does that writes to places, and to slots where there are none.
Result<> save_to_places(StoreSink &sink, const std::string &name, const std::vector<u8> &bytes) {
  CKPT_TRY(u32 region, sink.region(name, bytes.size()));
  for (size_t at = 0; at < bytes.size();) {
    CKPT_TRY(std::span<std::byte> place, sink.place(region, at, bytes.size() - at));
    if (place.empty()) {
      size_t n = std::min<size_t>(kSlotBytes, bytes.size() - at);
      CKPT_TRY(Slot slot, sink.acquire());
      std::memcpy(slot.data, bytes.data() + at, n);
      CKPT_CHECK(sink.put(region, at, slot, static_cast<u32>(n)));
      at += n;
      continue;
    }
    std::memcpy(place.data(), bytes.data() + at, place.size());
    CKPT_CHECK(sink.placed(region, at, place));
    at += place.size();
  }
  return sink.finish();
}

// load() for a device, which clears its memory where a piece has zeros.
std::vector<u8> load_places(Source &source, const std::string &name, size_t bytes) {
  std::vector<u8> out(bytes, 0xee);
  Source::Piece piece;
  for (;;) {
    Result<bool> more = source.next(piece);
    REQUIRE(more);
    if (!*more) return out;
    if (piece.region == name && piece.zeros) std::memset(out.data() + piece.offset, 0, piece.bytes);
    if (piece.region == name && !piece.zeros)
      std::memcpy(out.data() + piece.offset, piece.slot.data, piece.bytes);
    if (!piece.zeros) REQUIRE(source.release(piece.slot));
  }
}

// 70 MB that cross the ends of pieces, and small regions.
void round_trip_of_places(u64 direct_bytes) {
  Result<ContentsStore> store = ContentsStore::create("", direct_bytes);
  REQUIRE(store);
  REQUIRE(store->direct() != nullptr);
  Staging s = staging();
  std::vector<u8> small = pattern(12'345), large = pattern(70'000'000), last = pattern(2'000'000);
  {
    StoreSink sink(*store, s, "cuda/");
    REQUIRE(save_to_places(sink, "mem-1", small));
    REQUIRE(save_to_places(sink, "mem-2", large));
    REQUIRE(save_to_places(sink, "mem-3", last));
  }
  for (const char *name : {"mem-1", "mem-2", "mem-3"}) {
    const std::vector<u8> &expected = name[4] == '1' ? small : name[4] == '2' ? large : last;
    StoreSource source(*store, s, "cuda/");
    CHECK(load_places(source, name, expected.size()) == expected);
  }
}

// One chunk, as a device does that writes to places, and to slots where there are none.
Result<> copy_chunk(StoreSink &sink, u32 region, u64 at, std::span<const u8> bytes) {
  for (u64 done = 0; done < bytes.size();) {
    u64 left = bytes.size() - done;
    CKPT_TRY(std::span<std::byte> place, sink.place(region, at + done, left));
    u64 n = place.empty() ? std::min<u64>(kSlotBytes, left) : place.size();
    Slot slot;
    if (place.empty()) {
      CKPT_TRY(slot, sink.acquire());
    }
    std::memcpy(place.empty() ? slot.data : place.data(), bytes.data() + done, n);
    CKPT_CHECK(place.empty() ? sink.put(region, at + done, slot, static_cast<u32>(n))
                             : sink.placed(region, at + done, place));
    done += n;
  }
  return {};
}

// Six chunks, of which the device has seen that the second, the third and the last are zero. In
// places, in slots, or in files on a disk.
void round_trip_of_seen_zeros(const std::string &folder, u64 direct_bytes) {
  constexpr u64 kChunk = 1 << 20, kBytes = 6 * kChunk - 777;
  Result<ContentsStore> store = ContentsStore::create(folder, direct_bytes);
  REQUIRE(store);
  Staging s = staging();
  std::vector<u8> bytes = pattern(kBytes);
  std::fill(bytes.begin() + kChunk, bytes.begin() + 3 * kChunk, u8{0});
  std::fill(bytes.begin() + 5 * kChunk, bytes.end(), u8{0});
  {
    StoreSink sink(*store, s, "cuda/");
    CHECK(sink.takes_zeros());
    Result<u32> region = sink.region("mem-1", kBytes);
    REQUIRE(region);
    REQUIRE(sink.zeros(*region, 5 * kChunk, kChunk - 777));
    REQUIRE(sink.zeros(*region, kChunk, 2 * kChunk));
    CHECK(!sink.zeros(*region, 5 * kChunk, kChunk));
    for (u64 at : {u64{0}, 3 * kChunk, 4 * kChunk})
      REQUIRE(copy_chunk(sink, *region, at, {bytes.data() + at, kChunk}));
    REQUIRE(sink.finish());
  }
  StoreSource source(*store, s, "cuda/");
  CHECK(load_places(source, "mem-1", bytes.size()) == bytes);
}

// A process that reads a parent image: it has one chunk, whose address is {1, 2}.
void answer_chunks(int socket, const std::vector<u8> &chunk, int requests) {
  for (int i = 0; i < requests; i++) {
    Result<std::optional<Message>> m = receive_message(socket);
    REQUIRE(m);
    REQUIRE(*m);
    Reader in = (*m)->reader();
    bool known = in.get<u64>() == 1 && in.get<u64>() == 2 && in.get<u32>() == chunk.size();
    Writer why;
    why.str("it is not there").str("");
    REQUIRE(send_message(socket,
                         static_cast<u16>(known ? protocol::Type::Ok : protocol::Type::Failed),
                         known ? view(chunk.data(), chunk.size()) : why.bytes()));
  }
}

std::shared_ptr<ParentChunks> parent_with(const std::vector<ChunkAddress> &addresses,
                                          UniqueFd socket) {
  UniqueFd file(::memfd_create("addresses", MFD_CLOEXEC));
  REQUIRE(write_all(file.get(), view(addresses.data(), addresses.size() * sizeof addresses[0])));
  Incoming request{protocol::Type::ParentChunks, {}, {}};
  Writer body;
  body.put(static_cast<u64>(addresses.size()));
  request.body.assign(body.bytes().begin(), body.bytes().end());
  for (UniqueFd *fd : {&file, &socket}) {
    Result<OwnFd> own = OwnFd::make([fd]() -> Result<UniqueFd> { return std::move(*fd); });
    REQUIRE(own);
    request.fds.push_back(std::move(*own));
  }
  Result<ParentChunks> chunks = ParentChunks::from(request);
  REQUIRE(chunks);
  return std::make_shared<ParentChunks>(std::move(*chunks));
}

}  // namespace

TEST_CASE("what a device writes to places comes back from there") {
  round_trip_of_places(72'100'000);
}

TEST_CASE("what finds no place goes through slots, also in the middle of a region") {
  round_trip_of_places(40'000'000);
  round_trip_of_places(1);
}

TEST_CASE("zeros take no memory in places") {
  constexpr u64 kBytes = 4 * DirectMemory::kPieceBytes;
  Result<ContentsStore> store = ContentsStore::create("", kBytes);
  REQUIRE(store);
  Staging s = staging();
  std::vector<u8> zeros(kBytes);
  {
    StoreSink sink(*store, s, "cuda/");
    REQUIRE(save_to_places(sink, "mem-1", zeros));
  }
  CHECK(store->direct()->next_piece() == 1);
  StoreSource source(*store, s, "cuda/");
  CHECK(load_places(source, "mem-1", zeros.size()) == zeros);
}

TEST_CASE("zeros that a device has seen are between what it has copied") {
  round_trip_of_seen_zeros("", 16 << 20);
  round_trip_of_seen_zeros("", 0);
  round_trip_of_seen_zeros("/tmp", 0);
}

TEST_CASE("what the parent image has is read from there, and what it lacks is an error") {
  constexpr u32 kChunk = 1 << 20;
  auto ends = *socket_pair();
  std::vector<u8> chunk = pattern(kChunk);
  std::thread reader([&] { answer_chunks(ends.second.get(), chunk, 2); });
  std::shared_ptr<ParentChunks> parent = parent_with({{3, 4}, {1, 2}}, std::move(ends.first));
  CHECK(parent->contains({1, 2}));
  CHECK(parent->contains({3, 4}));
  CHECK(!parent->contains({2, 1}));
  Result<ContentsStore> store = ContentsStore::create("", 4 * kChunk);
  REQUIRE(store);
  store->use_parent(parent);
  REQUIRE(store->region("cuda/mem-1", 2 * kChunk));
  REQUIRE(store->same_chunk("cuda/mem-1", kChunk, kChunk, {1, 2}));
  REQUIRE(store->zeros("cuda/mem-1", 0, kChunk));
  Staging s = *Staging::create(kSlots, kChunk);
  {
    StoreSource source(*store, s, "cuda/");
    std::vector<u8> loaded = load_places(source, "mem-1", 2 * kChunk);
    CHECK(std::equal(chunk.begin(), chunk.end(), loaded.begin() + kChunk));
    CHECK(std::all_of(loaded.begin(), loaded.begin() + kChunk, [](u8 b) { return b == 0; }));
  }
  REQUIRE(store->region("cuda/mem-2", kChunk));
  REQUIRE(store->same_chunk("cuda/mem-2", 0, kChunk, {3, 4}));
  std::vector<std::byte> into(kChunk);
  u64 at = *store->place_of("cuda/mem-2", 0, kChunk);
  Result<> lacking = store->read(at, into);
  REQUIRE(!lacking);
  CHECK(lacking.error().what.find("cannot read device memory from the parent image") == 0);
  reader.join();
  ends.second.reset();
  CHECK(!store->read(at, into));
}

TEST_CASE("pieces keep their contents when their file is mapped again, and have their pages then") {
  DirectMemory memory(2 * DirectMemory::kPieceBytes);
  Result<OwnFd> file = memory.make_file();
  REQUIRE(file);
  REQUIRE(memory.populate(0));
  std::ranges::fill(memory.piece(0), std::byte{7});
  for (int mapped = 0; mapped < 2; mapped++) {
    REQUIRE(memory.map(file->get()));
    REQUIRE(memory.populate(0));
    REQUIRE(memory.populate(0));
    constexpr u64 kPage = 4096;
    u64 number = reinterpret_cast<u64>(memory.piece(0).data()) / kPage;
    std::vector<u64> pages(DirectMemory::kPieceBytes / kPage);
    UniqueFd maps(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    REQUIRE(::pread(maps.get(), pages.data(), pages.size() * 8, static_cast<off_t>(number * 8)) ==
            static_cast<ssize_t>(pages.size() * 8));
    CHECK(std::ranges::all_of(pages, [](u64 page) { return (page >> 63) == 1; }));
    CHECK(std::ranges::all_of(memory.piece(0), [](std::byte b) { return b == std::byte{7}; }));
  }
}

TEST_CASE("the memory for places cannot change its size, and a limit on files leaves slots") {
  Result<ContentsStore> store = ContentsStore::create("", 1 << 20);
  REQUIRE(store);
  CHECK(::ftruncate(store->direct_fd(), 0) < 0);
  rlimit before{}, small{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = {1 << 20, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  Result<ContentsStore> limited = ContentsStore::create("", 64 << 20);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(limited);
  CHECK(limited->direct() == nullptr);
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
class StagingReader : public Sink {
 public:
  explicit StagingReader(Staging &staging) : staging_(staging) {
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
  StagingReader tool(s);
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
