// SPDX-License-Identifier: Apache-2.0
//
// Pools of stream-ordered memory, with a driver that keeps account (fake_driver.h).
#include "libckpt-cuda/memory/pools.h"

#include <doctest/doctest.h>

#include "tests/unit/cuda/fake_driver.h"

using namespace ckpt;
using namespace ckpt::cuda;
using fake::kGranule;

TEST_CASE("a block that another stream has freed waits for it only where that is allowed") {
  fake::reset();
  fake::state().free_granules = 1;
  Pools pools;
  CUmemoryPool handle = nullptr;
  driver().cuDeviceGetDefaultMemPool(&handle, 0);
  std::shared_ptr<Pools::Pool> pool = pools.find_pool(handle);
  StreamPlace one{reinterpret_cast<CUstream>(u64{1}), nullptr};
  StreamPlace two{reinterpret_cast<CUstream>(u64{2}), nullptr};
  u64 at = 0, again = 0, freed = 0;
  REQUIRE(pools.allocate(pool, kGranule, one, at) == CUDA_SUCCESS);
  REQUIRE(pools.release(at, &one, freed) == CUDA_SUCCESS);
  CHECK(!pools.allocate_from_freed(pool, kGranule, two, again));
  int off = 0, on = 1;
  pools.set_attribute(*pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off);
  CHECK(pools.allocate(pool, kGranule, two, again) == CUDA_ERROR_OUT_OF_MEMORY);
  pools.set_attribute(*pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on);
  REQUIRE(pools.allocate(pool, kGranule, two, again) == CUDA_SUCCESS);
  CHECK(again == at);
  CHECK(fake::state().events.at(fake::state().last_event).waiting.contains(two.stream));
}

TEST_CASE("no event is queried while a stream is being captured") {
  fake::reset();
  Pools pools;
  CUmemoryPool handle = nullptr;
  driver().cuDeviceGetDefaultMemPool(&handle, 0);
  std::shared_ptr<Pools::Pool> pool = pools.find_pool(handle);
  StreamPlace one{reinterpret_cast<CUstream>(u64{1}), nullptr};
  u64 at = 0, freed = 0;
  REQUIRE(pools.allocate(pool, kGranule, one, at) == CUDA_SUCCESS);
  fake::state().capturing = fake::state().idle = true;
  REQUIRE(pools.release(at, &one, freed) == CUDA_SUCCESS);
  CHECK(pools.drop_freed() == 0);
  fake::state().capturing = false;
  CHECK(pools.drop_freed() == kGranule);
}

TEST_CASE("what a destroyed pool keeps goes when its work has ended") {
  fake::reset();
  Pools pools;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool handle = reinterpret_cast<CUmemoryPool>(u64{0x2000});
  pools.created(handle, props);
  std::shared_ptr<Pools::Pool> pool = pools.find_pool(handle);
  StreamPlace one{reinterpret_cast<CUstream>(u64{1}), nullptr};
  u64 first = 0, second = 0, freed = 0;
  REQUIRE(pools.allocate(pool, kGranule, one, first) == CUDA_SUCCESS);
  REQUIRE(pools.allocate(pool, kGranule, one, second) == CUDA_SUCCESS);
  CHECK(pools.destroyed(handle, pool) == 0);
  CHECK(pools.find_pool(handle) == nullptr);
  CHECK(pools.find(first)->pool == nullptr);
  REQUIRE(pools.release(first, &one, freed) == CUDA_SUCCESS);
  CHECK(freed == 0);
  fake::state().idle = true;
  REQUIRE(pools.release(second, &one, freed) == CUDA_SUCCESS);
  CHECK(freed == 2 * kGranule);
  CHECK(fake::state().physicals.empty());
}

TEST_CASE("a pool with handles, limits or a special use is the driver's") {
  fake::reset();
  Pools pools;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool handle = reinterpret_cast<CUmemoryPool>(u64{0x2000});
  auto is_ours_with = [&](auto change) {
    CUmemPoolProps changed = props;
    change(changed);
    pools.created(handle, changed);
    return pools.find_pool(handle) != nullptr;
  };
  CHECK(is_ours_with([](CUmemPoolProps &) {}));
  CHECK(!is_ours_with([](CUmemPoolProps &p) { p.maxSize = 1 << 30; }));
  CHECK(!is_ours_with([](CUmemPoolProps &p) { p.usage = 2; }));
  CHECK(!is_ours_with(
      [](CUmemPoolProps &p) { p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; }));
  CHECK(!is_ours_with([](CUmemPoolProps &p) { p.location.type = CU_MEM_LOCATION_TYPE_HOST; }));
}
