// SPDX-License-Identifier: Apache-2.0
//
// What the owner of device memory accepts, and what it copies: on a driver whose device memory is
// a file in memory.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "agent/protocol.h"
#include "driver-checkpoint/owner/drain.h"

using namespace ckpt;
using namespace ckpt::cuda;
using protocol::Type;

namespace {

constexpr u64 kBytes = 2u << 20;

template <class... T>
CUresult succeed(T...) {
  return CUDA_SUCCESS;
}

CUresult import(CUmemGenericAllocationHandle *out, void *handle, CUmemAllocationHandleType) {
  *out = reinterpret_cast<intptr_t>(handle);
  return CUDA_SUCCESS;
}
CUresult properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle) {
  prop->location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr *out, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void *p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *out = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  void *p = ::mmap(reinterpret_cast<void *>(at), bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
                   static_cast<int>(handle), 0);
  return p == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
std::atomic<bool> g_bus_is_slow{false};
std::atomic<u64> g_free{0},
    g_device_copies{0};  // device memory, and how many pieces of it are taken

CUresult copy(void *to, CUdeviceptr from, size_t bytes, CUstream) {
  while (g_bus_is_slow) ::usleep(1000);
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult allocate(CUdeviceptr *out, size_t bytes) {
  g_device_copies++;
  *out = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr at) {
  g_device_copies--;
  std::free(reinterpret_cast<void *>(at));
  return CUDA_SUCCESS;
}
CUresult room(size_t *free, size_t *total) {
  *free = g_free;
  *total = 64 * kBytes;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr at, size_t bytes) {
  bool done = ::munmap(reinterpret_cast<void *>(at), bytes) == 0;
  return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult name(CUresult, const char **out) {
  *out = "CUDA_ERROR_OF_THE_TEST";
  return CUDA_SUCCESS;
}

struct Fake : OwnerDriver {
  Fake() {
    cuGetErrorName = name;
    cuDevicePrimaryCtxRetain = [](CUcontext *out, CUdevice) {
      *out = reinterpret_cast<CUcontext>(1);
      return CUDA_SUCCESS;
    };
    cuCtxSetCurrent = succeed;
    cuMemImportFromShareableHandle = import;
    cuMemGetAllocationPropertiesFromHandle = properties;
    cuMemAddressReserve = reserve;
    cuMemMap = map;
    cuMemSetAccess = succeed;
    cuMemUnmap = unmap;
    cuMemAddressFree = succeed;
    cuMemRelease = succeed;
    cuMemGetInfo_v2 = room;
    cuMemAlloc_v2 = allocate;
    cuMemFree_v2 = release;
    cuStreamSynchronize = succeed;
    cuMemcpyDtoDAsync_v2 = copy_on_device;
    cuStreamCreate = succeed;
    cuEventCreate = succeed;
    cuEventRecord = succeed;
    cuEventSynchronize = succeed;
    cuEventDestroy_v2 = succeed;
    cuMemcpyDtoHAsync_v2 = copy;
    cuMemHostRegister_v2 = succeed;
    cuMemHostUnregister = succeed;
  }
};

void fill(int device_memory, char c) {
  std::string bytes(kBytes, c);
  REQUIRE(::pwrite(device_memory, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(kBytes));
}

SharedMemory memory_full_of(char c, u64 key) {
  UniqueFd fd(::memfd_create("device", MFD_CLOEXEC));
  fill(fd.get(), c);
  return {key, kBytes, std::move(fd)};
}

// Their threads may outlive the tests.
std::vector<std::unique_ptr<Drain>> &drains() {
  static auto *const kDrains = new std::vector<std::unique_ptr<Drain>>;
  return *kDrains;
}

struct Bed {
  Fake driver;
  HeldMemory held{driver};
  Drain *drain = drains().emplace_back(std::make_unique<Drain>(driver, held)).get();
  agent::DirectMemory file{4 * kBytes};
  Result<agent::OwnFd> fd = file.make_file();
  UniqueFd tool;

  Bed() {
    REQUIRE(held.add(memory_full_of('a', 7)));
    REQUIRE(held.add(memory_full_of('b', 9)));
  }
  Result<u64> begin(const std::vector<OwnerCopy> &copies, bool device_copies = false) {
    auto own = agent::DirectMemory::of_empty_file(fd->get(), file.bytes());
    auto ends = socket_pair();
    REQUIRE(own);
    REQUIRE(ends);
    tool = std::move(ends->first);
    return drain->begin(std::move(*own), std::move(ends->second), copies, device_copies);
  }
  ~Bed() {
    drain->wait();
    tool.reset();
    ::usleep(20'000);  // the thread sees the hang-up
  }
};

}  // namespace

TEST_CASE("the owner copies where it is told to, and counts") {
  Bed bed;
  REQUIRE(bed.begin({{9, 4096, 8192, 0}, {7, 0, kBytes, kBytes}}));
  bed.drain->wait();
  CHECK(*bed.file.at(0) == std::byte{'b'});
  CHECK(*bed.file.at(8191) == std::byte{'b'});
  CHECK(*bed.file.at(8192) == std::byte{0});
  CHECK(*bed.file.at(kBytes) == std::byte{'a'});
  for (u64 count : {1, 2}) {
    Result<std::optional<Message>> m = receive_message(bed.tool.get());
    REQUIRE((m && *m));
    CHECK((*m)->type == static_cast<u16>(Type::Drained));
    CHECK((*m)->reader().get<u64>() == count);
  }
  CHECK(!bed.begin({}));  // only once
}

TEST_CASE("copies beyond the memory or the file are refused") {
  constexpr u64 kMost = ~u64{0}, kPiece = agent::DirectMemory::kPieceBytes;
  for (OwnerCopy c : {OwnerCopy{8, 0, 1, 0}, OwnerCopy{7, 0, 0, 0}, OwnerCopy{7, 1, kBytes, 0},
                      OwnerCopy{7, kBytes + 1, 1, 0}, OwnerCopy{7, kMost, 2, 0},
                      OwnerCopy{7, 0, kMost, 0}, OwnerCopy{7, 0, 1, kMost}}) {
    Bed bed;
    CHECK(!bed.begin({c}));
    CHECK(!bed.begin({{7, 0, 4096, bed.file.bytes() - 4095}}));
  }
  Bed bed;
  agent::DirectMemory large(2 * kPiece);
  Result<agent::OwnFd> fd = large.make_file();
  REQUIRE(fd);
  auto own = agent::DirectMemory::of_empty_file(fd->get(), large.bytes());
  REQUIRE(own);
  CHECK(!bed.drain->begin(std::move(*own), UniqueFd(), {{7, 0, 4096, kPiece - 4095}}, false));
}

TEST_CASE("memory is held once under one name, and given back once") {
  Bed bed;
  CHECK(!bed.held.add(memory_full_of('c', 7)));
  CHECK(!bed.held.add({11, 0, UniqueFd()}));
  CHECK(bed.held.take(1).size() == 1);
  std::vector<SharedMemory> rest = bed.held.take(8);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].key == 9);
  CHECK(bed.held.take(8).empty());
  bed.held.let_go();
}

TEST_CASE("with device copies the memory may change before it is in the file") {
  Bed bed;
  g_free = 64 * kBytes;
  g_bus_is_slow = true;
  Result<u64> without = bed.begin({{7, 0, kBytes, 0}, {9, 0, kBytes, kBytes}}, true);
  REQUIRE(without);
  CHECK(*without == 0);
  bed.drain->wait_for_held();
  CHECK(g_device_copies == 2);
  for (const SharedMemory &s : bed.held.take(2)) fill(s.handle.get(), 'z');
  bed.held.let_go();
  g_bus_is_slow = false;
  bed.drain->wait();
  CHECK(*bed.file.at(0) == std::byte{'a'});
  CHECK(*bed.file.at(2 * kBytes - 1) == std::byte{'b'});
  CHECK(g_device_copies == 0);
}

TEST_CASE("what has no room for a device copy is in the file before the memory is given back") {
  Bed bed;
  g_free = 2 * kBytes;  // of which three quarters are used
  Result<u64> without = bed.begin({{7, 0, kBytes, 0}, {9, 0, kBytes, kBytes}}, true);
  REQUIRE(without);
  CHECK(*without == kBytes);
  bed.drain->wait_for_held();
  CHECK(*bed.file.at(kBytes - 1) == std::byte{'a'});
  bed.drain->wait();
  CHECK(*bed.file.at(kBytes) == std::byte{'b'});
}

TEST_CASE("copies that no tool waits for end") {
  Bed bed;
  g_free = 64 * kBytes;
  g_bus_is_slow = true;
  REQUIRE(bed.begin({{7, 0, kBytes, 0}, {9, 0, kBytes, kBytes}}, true));
  bed.drain->wait_for_held();
  bed.tool.reset();
  bed.drain->wait();  // although the first copy has not ended
  CHECK(g_bus_is_slow);
  g_bus_is_slow = false;
  while (g_device_copies > 0) ::usleep(1000);
}
