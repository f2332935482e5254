// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management, by a program that a test may move. Physical memories are mapped at
// random places of one range of addresses, at several at once or at none; kernels write through one
// address and follow pointers through another. A model on the host says what each word must be.
//
//   remote_mappings [STEPS [SEED]]   prints "step N" after each step; makes as many as the file
//                                    "steps" says, or all of them
#include <algorithm>
#include <random>

#include "driver_check.h"
#undef CHECK
#include "wanted_steps.h"

constexpr size_t kBytes = 2 << 20;
constexpr int kMemories = 5, kPlaces = 12, kWords = 256;

__device__ unsigned *word(CUdeviceptr p, int i) {
  return reinterpret_cast<unsigned *>(p + i * (kBytes / kWords));
}
__global__ void change(CUdeviceptr p, unsigned round) {
  unsigned *w = word(p, threadIdx.x);
  *w = *w * 3 + round + threadIdx.x;
}
// Adds up one word behind each pointer of a list that is itself in mapped memory.
__global__ void follow(const CUdeviceptr *list, int n, unsigned *sum) {
  for (int i = 0; i < n; i++)
    if (list[i]) *sum = *sum * 31 + *word(list[i], (i * 7) % kWords);
}

struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  int handles = 0, mappings = 0;
  unsigned words[kWords];
  bool lives() const { return handles > 0 || mappings > 0; }
};
struct Place {
  int memory = -1;
  unsigned access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

static CUmemAllocationProp device_memory() {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  return p;
}

static CUresult set_access(CUdeviceptr p, size_t bytes, unsigned flags) {
  CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, static_cast<CUmemAccess_flags>(flags)};
  return cuMemSetAccess(p, bytes, &d, 1);
}

static unsigned long long access_at(CUdeviceptr p) {
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  unsigned long long flags = 99;
  OK(cuMemGetAccess(&flags, &here, p));
  return flags;
}

struct Program {
  std::mt19937 random;
  CUdeviceptr range = 0, list = 0;  // `list`: of pointers, in memory of its own
  CUdeviceptr sum = 0;
  Physical memories[kMemories];
  Place places[kPlaces];
  unsigned expected_sum = 0;

  explicit Program(unsigned seed) : random(seed) {
    OK(cuMemAddressReserve(&range, kPlaces * kBytes, 0, 0, 0));
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_memory();
    OK(cuMemAddressReserve(&list, kBytes, 0, 0, 0));
    OK(cuMemCreate(&handle, kBytes, &prop, 0));
    OK(cuMemMap(list, kBytes, 0, handle, 0));
    OK(cuMemRelease(handle));  // the mapping keeps the memory
    OK(set_access(list, kBytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD8(list, 0, kBytes));
    OK(cuMemAlloc(&sum, sizeof expected_sum));
    OK(cuMemsetD8(sum, 0, sizeof expected_sum));
    for (int m = 0; m < kMemories; m++) make(m);
  }
  int below(int n) { return static_cast<int>(random() % n); }
  CUdeviceptr at(int place) const { return range + place * kBytes; }

  void make(int m) {
    CUmemAllocationProp prop = device_memory();
    Physical &p = memories[m];
    OK(cuMemCreate(&p.handle, kBytes, &prop, 0));
    p.handles = 1;
    p.mappings = 0;
    map(m, free_place());
    std::vector<unsigned> zeros(kBytes / sizeof(unsigned));
    int place = place_of(m);
    OK(cuMemcpyHtoD(at(place), zeros.data(), kBytes));
    std::fill_n(p.words, kWords, 0u);
  }
  int free_place() {
    for (;;)
      if (int i = below(kPlaces); places[i].memory < 0) return i;
  }
  int busy_place() {
    for (;;)
      if (int i = below(kPlaces); places[i].memory >= 0) return i;
  }
  int place_of(int m, unsigned least = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    for (int i = 0; i < kPlaces; i++)
      if (places[i].memory == m && places[i].access >= least) return i;
    return -1;
  }
  void map(int m, int place, unsigned access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    OK(cuMemMap(at(place), kBytes, 0, memories[m].handle, 0));
    CHECK(access_at(at(place)) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    if (access) OK(set_access(at(place), kBytes, access));
    places[place] = {m, access};
    memories[m].mappings++;
  }
  void unmap(int place) {
    Physical &p = memories[places[place].memory];
    OK(cuMemUnmap(at(place), kBytes));
    places[place] = {};
    p.mappings--;
  }
  void release(Physical &p) {
    OK(cuMemRelease(p.handle));
    p.handles--;
  }

  // One change of what is mapped where.
  void remap() {
    int m = below(kMemories), place = below(kPlaces);
    Physical &p = memories[m];
    bool room = std::count_if(places, places + kPlaces, [](auto &x) { return x.memory < 0; }) > 1;
    if (!p.lives()) return room ? make(m) : unmap(busy_place());
    if (places[place].memory >= 0 && below(2)) return unmap(place);
    if (p.handles > 0 && room && below(2)) {
      constexpr unsigned kAccess[] = {0, 1, 3, 3};  // none, reading, both
      return map(m, free_place(), kAccess[below(4)]);
    }
    if (p.handles > 0 && below(2)) return release(p);
    int mapped = place_of(m, 0);
    if (mapped < 0 || p.handles > 2) return;
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(at(mapped) + 5)));
    if (p.handles > 0) CHECK(again == p.handle);
    p.handle = again;
    p.handles++;
  }
  void step(unsigned round) {
    for (int i = 0; i < 6; i++) remap();
    for (int m = 0; m < kMemories; m++) {
      int place = place_of(m);
      if (place < 0) continue;
      change<<<1, kWords>>>(at(place), round);
      for (int i = 0; i < kWords; i++) memories[m].words[i] = memories[m].words[i] * 3 + round + i;
    }
    CUdeviceptr pointers[kPlaces] = {};
    for (int i = 0; i < kPlaces; i++) {
      if (places[i].access == 0) continue;
      pointers[i] = at(i);
      expected_sum = expected_sum * 31 + memories[places[i].memory].words[(i * 7) % kWords];
    }
    OK(cuMemcpyHtoD(list, pointers, sizeof pointers));
    follow<<<1, 1>>>(reinterpret_cast<CUdeviceptr *>(list), kPlaces,
                     reinterpret_cast<unsigned *>(sum));
    OK(cuCtxSynchronize());
  }
  void check() {
    unsigned found = 0;
    OK(cuMemcpyDtoH(&found, sum, sizeof found));
    CHECK(found == expected_sum);
    std::vector<unsigned> all(kBytes / sizeof(unsigned));
    for (int i = 0; i < kPlaces; i++) {
      if (places[i].memory < 0) continue;
      CHECK(access_at(at(i)) == places[i].access);
      if (places[i].access == 0) continue;
      OK(cuMemcpyDtoH(all.data(), at(i), kBytes));
      const Physical &p = memories[places[i].memory];
      for (int w = 0; w < kWords; w++) CHECK(all[w * (all.size() / kWords)] == p.words[w]);
    }
  }
  // What still has a handle is mapped once more, and checked.
  void end() {
    for (int i = 0; i < kPlaces; i++)
      if (places[i].memory >= 0) unmap(i);
    for (int m = 0; m < kMemories; m++) {
      if (memories[m].handles == 0) continue;
      map(m, 0);
      check();
      unmap(0);
      while (memories[m].handles > 0) release(memories[m]);
    }
    OK(cuMemUnmap(list, kBytes));
    OK(cuMemAddressFree(list, kBytes));
    OK(cuMemAddressFree(range, kPlaces * kBytes));
  }
};

// What is wrong, and what is not.
static void check_rules() {
  CUmemAllocationProp prop = device_memory(), known{};
  size_t granularity = 0, bytes = 0;
  OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CHECK(granularity == kBytes);
  CUdeviceptr p = 0, next = 0, base = 0;
  CHECK(cuMemAddressReserve(&p, kBytes + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAddressReserve(&p, 4 * kBytes, 8 * kBytes, 0, 0));
  CHECK(p % (8 * kBytes) == 0);
  OK(cuMemAddressFree(p, 4 * kBytes));
  OK(cuMemAddressReserve(&next, 4 * kBytes, 0, p, 0));  // an address that is wanted and free
  CHECK(next == p);
  CHECK(cuMemAddressFree(p, kBytes) == CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle a, b, c;
  CHECK(cuMemCreate(&a, kBytes + 4096, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  prop.location.id = 99;
  CHECK(cuMemCreate(&a, kBytes, &prop, 0) == CUDA_ERROR_INVALID_DEVICE);
  prop.location.id = 0;
  OK(cuMemCreate(&a, kBytes, &prop, 0));
  OK(cuMemCreate(&b, 2 * kBytes, &prop, 0));
  OK(cuMemGetAllocationPropertiesFromHandle(&known, b));
  CHECK(known.type == prop.type && known.location.id == 0);
  OK(cuMemMap(p, kBytes, 0, a, 0));
  OK(cuMemMap(p + kBytes, 2 * kBytes, 0, b, 0));
  CHECK(cuMemMap(p + 2 * kBytes, kBytes, 0, a, 0) == CUDA_ERROR_INVALID_VALUE);      // taken
  CHECK(cuMemMap(p + 3 * kBytes, 2 * kBytes, 0, b, 0) == CUDA_ERROR_INVALID_VALUE);  // not reserved
  CHECK(cuMemMap(p + 3 * kBytes, 2 * kBytes, 0, a, 0) == CUDA_ERROR_INVALID_VALUE);  // too large
  CHECK(set_access(p, 2 * kBytes, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_ERROR_INVALID_VALUE);
  OK(set_access(p, 3 * kBytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  std::vector<char> host(3 * kBytes, 7), back(3 * kBytes);
  OK(cuMemcpyHtoD(p, host.data(), host.size()));  // across two mappings
  OK(cuMemcpyDtoH(back.data(), p, back.size()));
  CHECK(host == back);
  OK(cuMemsetD8Async(p + kBytes - 100, 9, 200, nullptr));
  OK(cuMemcpyDtoH(back.data(), p + kBytes - 101, 202));
  CHECK(back[0] == 7 && back[1] == 9 && back[200] == 9 && back[201] == 7);
  OK(cuMemGetAddressRange(&base, &bytes, p + kBytes + 5));
  CHECK(base == p + kBytes && bytes == 2 * kBytes);
  unsigned type = 0;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 7));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(p + kBytes, kBytes) == CUDA_ERROR_INVALID_VALUE);  // a part of a mapping
  CHECK(cuMemAddressFree(p, 4 * kBytes) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemRetainAllocationHandle(&c, reinterpret_cast<void *>(p + 2 * kBytes)));
  CHECK(c == b);
  OK(cuMemRelease(b));
  OK(cuMemRelease(c));
  CHECK(cuMemRelease(c) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemUnmap(p, 3 * kBytes));
  CHECK(cuMemUnmap(p, kBytes) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemMap(p + 3 * kBytes, kBytes, 0, a, 0));  // its contents have stayed
  OK(set_access(p + 3 * kBytes, kBytes, CU_MEM_ACCESS_FLAGS_PROT_READ));
  OK(cuMemcpyDtoH(back.data(), p + 3 * kBytes, kBytes));
  CHECK(back[5] == 7);
  OK(cuMemUnmap(p + 3 * kBytes, kBytes));
  OK(cuMemRelease(a));
  OK(cuMemAddressFree(p, 4 * kBytes));
}

// All that the device has, again and again: so nothing of it is left.
static void check_that_memory_comes_back() {
  CUmemAllocationProp prop = device_memory();
  size_t before = 0, after = 0, total = 0;
  OK(cuMemGetInfo(&before, &total));
  for (int i = 0; i < 3; i++) {
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, before / 2 / kBytes * kBytes, &prop, 0));
    OK(cuMemRelease(handle));
  }
  OK(cuMemGetInfo(&after, &total));
  CHECK(after == before);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  CUDA(cudaSetDevice(0));
  CUDA(cudaFree(nullptr));
  int can = 0;
  OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  CHECK(can == 1);
  check_rules();
  check_that_memory_comes_back();
  Program program(argc > 2 ? std::atoi(argv[2]) : 1);
  for (int i = 0; i < steps; i++) {
    program.step(i);
    program.check();
    wait_until_wanted(i + 1);
    program.check();
  }
  program.end();
  return passed();
}
