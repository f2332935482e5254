// SPDX-License-Identifier: Apache-2.0
//
// histories SEED COUNT [SUSPENDS]: random histories of virtual memory and pools against a model on
// the host. A history makes physical memory, maps whole pieces and parts of them, several times and
// with any access, moves and releases them; it allocates from pools and frees, in several streams;
// and after it everything that can be read must be what the model says. With SUSPENDS, the process
// suspends and resumes itself that many times in each history on average, in tenths. Prints
// "history N" at the beginning of every 10th, and waits there while the file "pause" exists. The
// same program is right without ckpt.
#include <ckpt/ckpt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "driver_check.h"

static constexpr size_t kGranule = 2u << 20;
static constexpr size_t kSlots = 24;     // of the reserved range, in granules
static constexpr unsigned kUnknown = 0;  // of a granule that was never written

static std::mt19937 rnd;
static size_t below(size_t n) { return rnd() % n; }
static bool chance(unsigned percent) { return below(100) < percent; }
static unsigned fresh_value() { return rnd() | 1; }

static CUdevice device;
static std::vector<CUstream> streams;
static CUstream any_stream() { return streams[below(streams.size())]; }

static CUmemAccessDesc access_of(CUmemAccess_flags flags) {
  CUmemAccessDesc a{};
  a.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  a.location.id = device;
  a.flags = flags;
  return a;
}

// Writes and reads the first and the last word of a granule, so that a shift is noticed, too.
static void write_granule(CUdeviceptr p, unsigned value) {
  OK(cuMemcpyHtoD(p, &value, sizeof value));
  OK(cuMemcpyHtoD(p + kGranule - sizeof value, &value, sizeof value));
}
static void check_granule(CUdeviceptr p, unsigned value) {
  unsigned first = 0, last = 0;
  OK(cuMemcpyDtoH(&first, p, sizeof first));
  OK(cuMemcpyDtoH(&last, p + kGranule - sizeof last, sizeof last));
  CHECK(value == kUnknown || (first == value && last == value));
}

// ---- virtual memory

struct Piece {
  CUmemGenericAllocationHandle handle = 0;
  std::vector<unsigned> granules;  // their values
  unsigned handles = 1, mappings = 0;
};
using PiecePtr = std::shared_ptr<Piece>;

struct Mapping {
  PiecePtr piece;
  size_t slot = 0, slots = 0;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

class Vmm {
 public:
  Vmm() { OK(cuMemAddressReserve(&base_, (kSlots + 8) * kGranule, 0, 0, 0)); }
  ~Vmm() {
    check();
    while (!mappings_.empty()) unmap(mappings_.size() - 1);
    while (PiecePtr p = any_piece_with_handle()) release(p);
    OK(cuMemAddressFree(base_, (kSlots + 8) * kGranule));
  }
  void step() {
    switch (below(9)) {
      case 0: return create();
      case 1:
      case 2: return map();
      case 3: return mappings_.empty() ? create() : unmap_some();
      case 4: return set_access();
      case 5: return write();
      case 6: return retain();
      case 7: return release_some();
      default: return chance(20) ? check() : write();
    }
  }
  void check() {
    for (Mapping &m : mappings_) check_mapping(m);
    for (PiecePtr &p : pieces_)
      if (p->handles > 0) check_whole(*p);
  }

 private:
  CUdeviceptr at(size_t slot) const { return base_ + slot * kGranule; }

  void create() {
    if (pieces_.size() > 6) return;
    auto p = std::make_shared<Piece>();
    p->granules.resize(1 + below(3));
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = access_of(CU_MEM_ACCESS_FLAGS_PROT_NONE).location;
    OK(cuMemCreate(&p->handle, p->granules.size() * kGranule, &prop, 0));
    for (PiecePtr &other : pieces_) CHECK(other->handles == 0 || other->handle != p->handle);
    CUmemAllocationProp got{};
    OK(cuMemGetAllocationPropertiesFromHandle(&got, p->handle));
    CHECK(got.type == prop.type && got.location.id == device && got.requestedHandleTypes == 0);
    pieces_.push_back(p);
  }
  PiecePtr any_piece_with_handle() {
    std::vector<PiecePtr> all;
    for (PiecePtr &p : pieces_)
      if (p->handles > 0) all.push_back(p);
    return all.empty() ? nullptr : all[below(all.size())];
  }
  bool is_free(size_t slot, size_t slots) const {
    for (const Mapping &m : mappings_)
      if (slot < m.slot + m.slots && m.slot < slot + slots) return false;
    return slot + slots <= kSlots;
  }
  // All of a piece or its beginning, at any place. A place that is in use is refused.
  void map() {
    PiecePtr p = any_piece_with_handle();
    if (!p) return create();
    size_t slots = chance(70) ? p->granules.size() : 1 + below(p->granules.size());
    size_t slot = below(kSlots);
    CUresult e = cuMemMap(at(slot), slots * kGranule, 0, p->handle, 0);
    CHECK((e == CUDA_SUCCESS) == is_free(slot, slots) || slot + slots > kSlots);
    if (e != CUDA_SUCCESS) return;
    if (slot + slots > kSlots) {
      OK(cuMemUnmap(at(slot), slots * kGranule));
      return;
    }
    p->mappings++;
    mappings_.push_back({p, slot, slots, CU_MEM_ACCESS_FLAGS_PROT_NONE});
    if (chance(80)) give(mappings_.back(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  void give(Mapping &m, CUmemAccess_flags flags) {
    CUmemAccessDesc a = access_of(flags);
    OK(cuMemSetAccess(at(m.slot), m.slots * kGranule, &a, 1));
    m.access = flags;
  }
  void set_access() {
    if (mappings_.empty()) return;
    constexpr CUmemAccess_flags kAll[] = {CU_MEM_ACCESS_FLAGS_PROT_NONE,
                                          CU_MEM_ACCESS_FLAGS_PROT_READ,
                                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    give(mappings_[below(mappings_.size())], kAll[below(3)]);
  }
  void unmap_some() {
    if (chance(20)) return unmap_neighbours();
    unmap(below(mappings_.size()));
  }
  void unmap(size_t i) {
    Mapping m = mappings_[i];
    OK(cuMemUnmap(at(m.slot), m.slots * kGranule));
    forget(i);
  }
  void forget(size_t i) {
    mappings_[i].piece->mappings--;
    mappings_.erase(mappings_.begin() + static_cast<long>(i));
    drop_unused();
  }
  // One call for two mappings, where there are two side by side.
  void unmap_neighbours() {
    for (size_t i = 0; i < mappings_.size(); ++i)
      for (size_t j = 0; j < mappings_.size(); ++j) {
        const Mapping &a = mappings_[i], &b = mappings_[j];
        if (a.slot + a.slots != b.slot) continue;
        OK(cuMemUnmap(at(a.slot), (a.slots + b.slots) * kGranule));
        forget(std::max(i, j));
        forget(std::min(i, j));
        return;
      }
  }
  void write() {
    for (Mapping &m : mappings_)
      if (m.access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE && chance(30)) {
        size_t i = below(m.slots);
        m.piece->granules[i] = fresh_value();
        write_granule(at(m.slot + i), m.piece->granules[i]);
      }
  }
  void retain() {
    if (mappings_.empty()) return;
    Mapping &m = mappings_[below(mappings_.size())];
    CUmemGenericAllocationHandle got = 0;
    CUdeviceptr address = at(m.slot) + below(m.slots * kGranule);
    OK(cuMemRetainAllocationHandle(&got, reinterpret_cast<void *>(address)));
    CHECK(got == m.piece->handle);
    m.piece->handles++;
  }
  void release(PiecePtr p) {
    OK(cuMemRelease(p->handle));
    p->handles--;
    drop_unused();
  }
  void release_some() {
    if (PiecePtr p = any_piece_with_handle(); p && chance(60)) release(p);
  }
  void drop_unused() {
    std::erase_if(pieces_, [](auto &p) { return p->handles == 0 && p->mappings == 0; });
  }
  void check_mapping(const Mapping &m) {
    unsigned long long flags = 0;
    CUmemLocation location = access_of(m.access).location;
    OK(cuMemGetAccess(&flags, &location, at(m.slot)));
    CHECK(flags == static_cast<unsigned long long>(m.access));
    if (m.access == CU_MEM_ACCESS_FLAGS_PROT_NONE) return;
    for (size_t i = 0; i < m.slots; ++i) check_granule(at(m.slot + i), m.piece->granules[i]);
  }
  // Also what is not mapped: at an address behind the slots.
  void check_whole(const Piece &p) {
    size_t bytes = p.granules.size() * kGranule;
    OK(cuMemMap(at(kSlots + 4), bytes, 0, p.handle, 0));
    CUmemAccessDesc a = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemSetAccess(at(kSlots + 4), bytes, &a, 1));
    for (size_t i = 0; i < p.granules.size(); ++i) check_granule(at(kSlots + 4 + i), p.granules[i]);
    OK(cuMemUnmap(at(kSlots + 4), bytes));
  }

  CUdeviceptr base_ = 0;
  std::vector<PiecePtr> pieces_;
  std::vector<Mapping> mappings_;
};

// ---- pools

static void slowly(void *) { usleep(100); }

class Pool {
 public:
  explicit Pool(bool is_default) : is_default_(is_default) {
    if (is_default) {
      OK(cuDeviceGetDefaultMemPool(&handle_, device));
    } else {
      CUmemPoolProps props{};
      props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      props.location = access_of(CU_MEM_ACCESS_FLAGS_PROT_NONE).location;
      OK(cuMemPoolCreate(&handle_, &props));
    }
    cuuint64_t threshold = chance(50) ? 0 : below(16) << 20;
    OK(cuMemPoolSetAttribute(handle_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    int on = chance(50);
    OK(cuMemPoolSetAttribute(handle_, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &on));
    OK(cuMemPoolSetAttribute(handle_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
  }
  // A pool may be destroyed before the last free.
  ~Pool() {
    check();
    bool early = !is_default_ && chance(50);
    if (early) OK(cuMemPoolDestroy(handle_));
    while (!live_.empty()) release(live_.size() - 1, !early);
    if (!is_default_ && !early) OK(cuMemPoolDestroy(handle_));
    finish();
  }
  void step() {
    switch (below(5)) {
      case 0:
      case 1: return allocate();
      case 2: return live_.empty() ? allocate() : release(below(live_.size()), true);
      case 3: return use_in_order();
      default: return chance(30) ? trim() : check();
    }
  }
  // Nothing that was read in stream order may have been overwritten by another allocation.
  void finish() {
    OK(cuCtxSynchronize());
    for (Read &r : reads_) CHECK(r.first == r.value && r.last == r.value);
    reads_.clear();
  }
  void check() {
    finish();
    size_t least = 0, most = 0;
    for (Live &l : live_) {
      check_live(l);
      least += l.bytes;
      most += (l.bytes + kGranule - 1) / kGranule * kGranule;
    }
    cuuint64_t used = 0, reserved = 0;
    OK(cuMemPoolGetAttribute(handle_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    OK(cuMemPoolGetAttribute(handle_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    CHECK(used >= least && used <= most && reserved >= used);
  }

 private:
  struct Live {
    CUdeviceptr p = 0;
    size_t bytes = 0;
    unsigned value = 0;
  };
  struct Read {
    unsigned value = 0, first = 0, last = 0;
  };

  static size_t any_size() {
    return chance(20) ? 4 + below(1 << 18) * 4 : (1 << 20) + below(6 << 18) * 4;
  }
  CUdeviceptr take(size_t bytes, CUstream s) {
    CUdeviceptr p = 0;
    bool current = is_default_ && chance(50);
    OK(current ? cuMemAllocAsync(&p, bytes, s) : cuMemAllocFromPoolAsync(&p, bytes, handle_, s));
    return p;
  }
  void allocate() {
    if (live_.size() > 5) return;
    Live l{0, any_size(), fresh_value()};
    CUstream s = any_stream();
    l.p = take(l.bytes, s);
    OK(cuMemsetD32Async(l.p, l.value, l.bytes / 4, s));
    OK(cuStreamSynchronize(s));
    live_.push_back(l);
  }
  void release(size_t i, bool either) {
    if (either && chance(30))
      OK(cuMemFree(live_[i].p));
    else
      OK(cuMemFreeAsync(live_[i].p, any_stream()));
    live_.erase(live_.begin() + static_cast<long>(i));
  }
  // Allocated, written, read and freed without waiting on the host, while the stream is slow.
  void use_in_order() {
    CUstream s = any_stream();
    size_t bytes = any_size();
    CUdeviceptr p = take(bytes, s);
    Read &r = reads_.emplace_back();
    r.value = fresh_value();
    OK(cuMemsetD32Async(p, r.value, bytes / 4, s));
    OK(cuLaunchHostFunc(s, slowly, nullptr));
    OK(cuMemcpyDtoHAsync(&r.first, p, 4, s));
    OK(cuMemcpyDtoHAsync(&r.last, p + bytes / 4 * 4 - 4, 4, s));
    OK(cuMemFreeAsync(p, s));
  }
  void trim() {
    finish();
    OK(cuMemPoolTrimTo(handle_, 0));
    cuuint64_t used = 0, reserved = 0;
    OK(cuMemPoolGetAttribute(handle_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    OK(cuMemPoolGetAttribute(handle_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    CHECK(reserved <= used + live_.size() * kGranule + (32u << 20));
  }
  static void check_live(const Live &l) {
    unsigned first = 0, last = 0;
    OK(cuMemcpyDtoH(&first, l.p, 4));
    OK(cuMemcpyDtoH(&last, l.p + l.bytes / 4 * 4 - 4, 4));
    CHECK(first == l.value && last == l.value);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, l.p + below(l.bytes)));
    CHECK(base == l.p && bytes >= l.bytes);
    int number = -1;
    OK(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, l.p));
    CHECK(number == device);
  }

  bool is_default_;
  CUmemoryPool handle_ = nullptr;
  std::vector<Live> live_;
  std::deque<Read> reads_;
};

// ---- histories

static unsigned suspended = 0;

// At either depth, or at one after the other.
static void suspend_and_resume() {
  size_t way = below(3);
  // A tool may be at work with the process, too.
  if ((way == 0 ? ckpt_suspend : ckpt_suspend_memory)(nullptr) != 0) return;
  if (way == 2) CHECK(ckpt_suspend(nullptr) == 0);
  CHECK(ckpt_resume() == 0);
  ++suspended;
}

static void run_history(unsigned seed, unsigned suspends) {
  rnd.seed(seed);
  Vmm vmm;
  Pool common(true), own(false);
  for (size_t steps = 10 + below(30); steps > 0; --steps) {
    size_t what = below(10);
    what < 5 ? vmm.step() : what < 7 ? common.step() : own.step();
    if (below(300) < suspends) suspend_and_resume();
  }
}

int main(int, char **argv) {
  const unsigned seed = static_cast<unsigned>(std::atoi(argv[1]));
  const unsigned count = static_cast<unsigned>(std::atoi(argv[2]));
  const unsigned suspends = argv[3] != nullptr ? static_cast<unsigned>(std::atoi(argv[3])) : 0;
  CUcontext context;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  streams = {nullptr, CU_STREAM_PER_THREAD};
  for (int i = 0; i < 2; ++i) {
    streams.emplace_back();
    OK(cuStreamCreate(&streams.back(), CU_STREAM_NON_BLOCKING));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (i % 10 == 0) std::printf("history %u\n", i), std::fflush(stdout);
    while (access("pause", F_OK) == 0) usleep(2000);
    run_history(seed + i, suspends);
  }
  std::printf("suspended %u times\nPASSED\n", suspended);
}
