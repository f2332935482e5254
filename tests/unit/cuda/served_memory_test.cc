// SPDX-License-Identifier: Apache-2.0
//
// Random histories of the program's own memory and of pools against a model, with a driver that
// keeps account (fake_driver.h): checkpoints in between, and calls of the driver that fail.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "libckpt-cuda/memory/pools.h"
#include "libckpt-cuda/memory/program_memory.h"
#include "tests/unit/cuda/fake_driver.h"

using namespace ckpt;
using namespace ckpt::cuda;
using fake::kGranule;

namespace {

const CUmemAccess_flags kNone = CU_MEM_ACCESS_FLAGS_PROT_NONE;
const CUmemAccess_flags kWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

CUmemAllocationProp on_device(CUdevice device) { return memory_of(device); }

struct ModelPiece {
  std::vector<u64> words;
  unsigned handles = 1;
};
struct ModelMapping {
  Handle piece = 0;
  u64 slots = 0, first = 0;  // granules, and the first one of the piece
  CUmemAccess_flags access[fake::kDevices] = {};
};
struct ModelAllocation {
  u64 bytes = 0, word = 0;
};
struct FreedAt {
  CUevent event = nullptr;
};

class History {
 public:
  explicit History(unsigned seed) : random_(seed) {
    fake::reset();
    fake::state().free_granules = 8 + below(24);  // memory is short now and then
    driver().cuMemAddressReserve(&base_, kSlots * kGranule, 0, 0, 0);
    memory_.reserved(base_);
    driver().cuMemAddressReserve(&second_, kSlots * kGranule, 0, 0, 0);  // directly behind
    memory_.reserved(second_);
  }

  void run() {
    for (u64 steps = 20 + below(60); steps > 0; --steps) {
      if (below(4) == 0) fake::state().fail_after = below(6);
      step();
      fake::state().fail_after.reset();
      if (below(12) == 0) checkpoint();
      check();
    }
    end();
  }

 private:
  static constexpr u64 kSlots = 16;

  u64 below(u64 n) { return random_() % n; }
  template <class Map>
  auto any(Map &map) {
    return std::next(map.begin(), static_cast<long>(below(map.size())));
  }

  void step() {
    switch (below(10)) {
      case 0: return create();
      case 1:
      case 2: return map();
      case 3: return unmap();
      case 4: return access();
      case 5: return write();
      case 6: return below(2) == 0 ? release() : retain();
      case 7:
      case 8: return allocate();
      default: return below(3) == 0 ? happen() : free();
    }
  }

  // ---- the program's own memory

  void create() {
    Handle handle = 0;
    u64 granules = 1 + below(3);
    if (memory_.create(granules * kGranule, on_device(static_cast<CUdevice>(below(2))), handle) !=
        CUDA_SUCCESS)
      return;
    REQUIRE(is_ours(handle));
    REQUIRE(!pieces_.contains(handle));
    pieces_[handle].words.resize(granules);
  }

  void map() {
    if (pieces_.empty()) return create();
    auto &[handle, piece] = *any(pieces_);
    u64 first = below(piece.words.size()), slots = 1 + below(piece.words.size() - first);
    u64 at = base_ + below(2 * kSlots) * kGranule;
    CUresult e = memory_.map(at, slots * kGranule, first * kGranule, handle, 0);
    if (piece.handles == 0) REQUIRE(e == CUDA_ERROR_INVALID_VALUE);
    if (e == CUDA_SUCCESS) mappings_[at] = {handle, slots, first, {}};
  }

  void unmap() {
    if (mappings_.empty()) return;
    auto it = any(mappings_);
    u64 freed = 0;
    if (memory_.unmap(it->first, it->second.slots * kGranule, freed) != CUDA_SUCCESS) return;
    Handle handle = it->second.piece;
    u64 bytes = pieces_.at(handle).words.size() * kGranule;
    mappings_.erase(it);
    REQUIRE(freed == (forget_if_unused(handle) ? bytes : 0));
  }

  bool is_mapped(Handle handle) const {
    for (auto &[at, m] : mappings_)
      if (m.piece == handle) return true;
    return false;
  }
  bool forget_if_unused(Handle handle) {
    if (pieces_.at(handle).handles > 0 || is_mapped(handle)) return false;
    pieces_.erase(handle);
    return true;
  }

  void access() {
    if (mappings_.empty()) return;
    auto &[at, m] = *any(mappings_);
    CUmemAccessDesc a = access_from(static_cast<CUdevice>(below(2)), below(3) > 0);
    if (memory_.set_access(at, m.slots * kGranule, {&a, 1}) == CUDA_SUCCESS)
      m.access[a.location.id] = a.flags;
  }

  void write() {
    if (mappings_.empty()) return;
    auto &[at, m] = *any(mappings_);
    u64 slot = below(m.slots);
    pieces_.at(m.piece).words[m.first + slot] = random_();
    *fake::state().word(at + slot * kGranule) = pieces_.at(m.piece).words[m.first + slot];
  }

  void retain() {
    if (mappings_.empty()) return;
    auto &[at, m] = *any(mappings_);
    Handle got = 0;
    REQUIRE(memory_.retain(at + below(m.slots * kGranule), got));
    REQUIRE(got == m.piece);
    pieces_.at(got).handles++;
  }

  void release() {
    if (pieces_.empty()) return;
    auto &[handle, piece] = *any(pieces_);
    u64 freed = 0;
    CUresult e = memory_.release(handle, freed);
    REQUIRE((e == CUDA_SUCCESS) == (piece.handles > 0));
    if (e != CUDA_SUCCESS) return;
    piece.handles--;
    u64 bytes = piece.words.size() * kGranule;
    REQUIRE(freed == (forget_if_unused(handle) ? bytes : 0));
  }

  // ---- pools

  StreamPlace place() {
    return {reinterpret_cast<CUstream>(1 + below(3)), reinterpret_cast<CUcontext>(u64{7})};
  }
  std::shared_ptr<Pools::Pool> pool() {
    CUmemoryPool handle = nullptr;
    driver().cuDeviceGetDefaultMemPool(&handle, static_cast<CUdevice>(below(2)));
    std::shared_ptr<Pools::Pool> p = pools_.find_pool(handle);
    REQUIRE(p != nullptr);
    cuuint64_t threshold = below(4) * kGranule;
    int on = below(2) == 0;
    pools_.set_attribute(*p, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    pools_.set_attribute(*p, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &on);
    return p;
  }

  void allocate() {
    StreamPlace where = place();
    std::shared_ptr<Pools::Pool> p = pool();
    u64 bytes = 1 + below(3 * kGranule), at = 0;
    if (!pools_.allocate_from_freed(p, bytes, where, at) &&
        pools_.allocate(p, bytes, where, at) != CUDA_SUCCESS)
      return;
    REQUIRE(!live_.contains(at));
    // The last work that used the block comes before the next in this stream.
    if (auto it = freed_.find(at); it != freed_.end() && it->second.event != nullptr) {
      const fake::EventState &event = fake::state().events.at(it->second.event);
      REQUIRE((event.happened || event.waiting.contains(where.stream)));
    }
    freed_.erase(at);
    live_[at] = {bytes, random_()};
    *fake::state().word(at) = live_[at].word;
    std::optional<Pools::Allocation> found = pools_.find(at + below(bytes));
    REQUIRE((found && found->base == at && found->bytes == bytes));
  }

  void free() {
    if (live_.empty()) return allocate();
    auto it = any(live_);
    u64 at = it->first, freed = 0;
    fake::state().fail_after.reset();  // what the driver does not unmap is lost, and logged
    StreamPlace where = place();
    bool finished = below(4) == 0;
    REQUIRE(pools_.release(at, finished ? nullptr : &where, freed) == CUDA_SUCCESS);
    freed_[at] = {finished ? nullptr : fake::state().last_event};
    live_.erase(it);
    REQUIRE(!pools_.find(at));
    REQUIRE(!pools_.release(at, nullptr, freed));
  }

  void happen() {
    for (auto &[event, s] : fake::state().events) s.happened = s.happened || below(2) == 0;
  }

  // ---- checkpoints

  // A call that fails leaves something that can be done again.
  void checkpoint() {
    fake::state().idle = true;
    for (auto &[event, s] : fake::state().events) s.happened = true;
    if (below(3) == 0) fake::state().fail_after = below(8);
    Result<> gone = memory_.unmap_all();
    if (gone) gone = pools_.unmap_all();
    fake::state().fail_after.reset();
    if (gone) {
      REQUIRE(fake::state().physicals.empty());
      REQUIRE(fake::state().mappings.empty());
    }
    if (below(3) == 0) fake::state().fail_after = below(8);
    Result<> back = remap();
    fake::state().fail_after.reset();
    if (!back) {
      REQUIRE((memory_.unmap_all() && pools_.unmap_all()));
      REQUIRE(fake::state().physicals.empty());
      REQUIRE(remap());
    }
    load();
    freed_.clear();
    fake::state().idle = false;
  }
  Result<> remap() {
    CKPT_CHECK(memory_.remap_all());
    return pools_.remap_all();
  }
  // The contents that a checkpoint saves are those of the whole pieces, mapped or not.
  void load() {
    size_t saved = 0;
    for (const ProgramMemory::Whole &w : memory_.wholes()) {
      Handle handle = kFirstHandle + std::strtoull(w.region.c_str() + 4, nullptr, 10);
      fake::state().physicals.at(w.physical).words = pieces_.at(handle).words;
      REQUIRE(w.bytes == pieces_.at(handle).words.size() * kGranule);
      saved++;
    }
    REQUIRE(saved == pieces_.size());
    REQUIRE(pools_.contents().size() == live_.size());
    for (const Contents &c : pools_.contents()) *fake::state().word(c.base) = live_.at(c.base).word;
  }

  // ---- the model

  void check() {
    u64 granules = 0;
    for (auto &[handle, piece] : pieces_) granules += piece.words.size();
    REQUIRE(memory_.bytes() == granules * kGranule);
    REQUIRE(memory_.bytes() + pools_.bytes() == [] {
      u64 all = 0;
      for (auto &[handle, p] : fake::state().physicals) all += p.words.size() * kGranule;
      return all;
    }());
    for (auto &[at, m] : mappings_) check_mapping(at, m);
    for (auto &[at, a] : live_) REQUIRE(*fake::state().word(at) == a.word);
  }
  void check_mapping(u64 at, const ModelMapping &m) {
    const fake::MappedRange &real = fake::state().mappings.at(at);
    REQUIRE(real.bytes == m.slots * kGranule);
    for (u64 i = 0; i < m.slots; ++i)
      REQUIRE(*fake::state().word(at + i * kGranule) == pieces_.at(m.piece).words[m.first + i]);
    for (int d = 0; d < fake::kDevices; ++d) REQUIRE(real.access[d] == m.access[d]);
  }

  void end() {
    while (!mappings_.empty()) unmap();
    while (!pieces_.empty()) release();
    while (!live_.empty()) free();
    fake::state().idle = true;
    pools_.drop_freed();
    REQUIRE(fake::state().physicals.empty());
    REQUIRE(memory_.bytes() + pools_.bytes() == 0);
  }

  std::mt19937 random_;
  CUdeviceptr base_ = 0, second_ = 0;
  ProgramMemory memory_;
  Pools pools_;
  std::map<Handle, ModelPiece> pieces_;
  std::map<u64, ModelMapping> mappings_;
  std::map<u64, ModelAllocation> live_;
  std::map<u64, FreedAt> freed_;
};

}  // namespace

TEST_CASE("10,000 random histories of served memory, with checkpoints and calls that fail") {
  const char *given = std::getenv("CKPT_HISTORY");
  if (given != nullptr) return History(static_cast<unsigned>(std::atoi(given))).run();
  for (unsigned seed = 1; seed <= 10'000; ++seed) {
    INFO("CKPT_HISTORY=" << seed);
    History(seed).run();
  }
}

TEST_CASE("only pinned memory of a device without a special use is served") {
  CUmemAllocationProp prop = on_device(1);
  CHECK(ProgramMemory::serves(prop));
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(ProgramMemory::serves(prop));
  prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  CHECK(!ProgramMemory::serves(prop));
  prop = on_device(1);
  prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
  CHECK(!ProgramMemory::serves(prop));
  prop = on_device(1);
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  CHECK(!ProgramMemory::serves(prop));
}

TEST_CASE("memory that is left to the driver is neither saved nor given back") {
  fake::reset();
  ProgramMemory memory;
  CUdeviceptr at = 0;
  Handle handle = 0;
  driver().cuMemAddressReserve(&at, kGranule, 0, 0, 0);
  REQUIRE(memory.create(kGranule, on_device(0), handle) == CUDA_SUCCESS);
  REQUIRE(memory.map(at, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  memory.leave_to_driver(handle);
  Physical real = memory.real(handle);
  CHECK(memory.wholes().empty());
  REQUIRE(memory.unmap_all());
  CHECK(fake::state().mappings.contains(at));
  REQUIRE(memory.remap_all());
  CHECK(memory.real(handle) == real);
}
