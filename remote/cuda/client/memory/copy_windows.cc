// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/memory/copy_windows.h"

#include "common/base/units.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {

Result<u64> CopyWindows::context_on(CUdevice device) {
  for (const Ledger::Object &c : ledger().objects(Kind::Context))
    if (ledger().device_of(c.number) == device) return c.number;
  CUcontext context = nullptr;
  if (CUresult e = entry_cuDevicePrimaryCtxRetain(&context, device); e != CUDA_SUCCESS)
    return device_failure("no context can be made to copy memory with", e);
  contexts_.push_back(device);
  return number_of(context);
}

Result<u64> CopyWindows::map(const VirtualMemory::Live &m) {
  u64 base = 0;
  if (CUresult e = memory().reserve(m.bytes, 0, 0, base); e != CUDA_SUCCESS)
    return fail("no addresses are left to copy {} of memory that is mapped nowhere",
                mebibytes_needed(m.bytes));
  Site site = site_of_device(m.device);
  CUresult e = ask(Op::MapMemory, site, Writer().put(base).put(m.bytes).put(m.number));
  if (e != CUDA_SUCCESS) {
    memory().give_reserved(base, m.bytes);
    return device_failure("memory that is mapped nowhere cannot be copied", e);
  }
  mapped_[base] = {m.bytes, m.device};
  Writer access;
  access.put(base).put(m.bytes).put(i32{m.device});
  access.put(u32{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  e = ask(Op::SetAccess, site, access);
  if (e != CUDA_SUCCESS) return device_failure("memory cannot be made accessible to copy it", e);
  return base;
}

Result<> CopyWindows::open() {
  for (const VirtualMemory::Live &m : virtual_memory().live()) {
    CKPT_TRY(u64 context, context_on(m.device));
    u64 address = m.address;
    if (address == 0) {
      CKPT_TRY(address, map(m));
    }
    all_.push_back({m.number, m.bytes, address, context});
  }
  return {};
}

CopyWindows::~CopyWindows() {
  for (const auto &[base, m] : mapped_) {
    link().send(number(Op::UnmapMemory), site_of_device(m.device),
                {Writer().put(base).put(m.bytes).bytes()});
    memory().give_reserved(base, m.bytes);
  }
  for (CUdevice device : contexts_) (void)entry_cuDevicePrimaryCtxRelease_v2(device);
}

}  // namespace ckpt::remote::cuda
