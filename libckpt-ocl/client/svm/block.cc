// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/svm/block.h"

#include <sys/mman.h>

#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"
#include "libckpt-ocl/svm_addresses.h"

namespace ckpt::ocl {
namespace {

// Other libraries may have something there, here or in the proxy.
constexpr int kTries = 64;

// Reserves the next free addresses. They are not used again soon, because the proxy
// may still have an earlier block there, until the driver has released its buffer.
std::byte *reserve_for_block(size_t bytes) {
  static std::atomic<u64> next{kSvmBegin};
  size_t step = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  for (int i = 0; i < kTries; i++) {
    u64 address = next.fetch_add(step);
    if (!is_for_svm(address, bytes)) {
      next = kSvmBegin;
      continue;
    }
    if (reserve_at(address, bytes)) return reinterpret_cast<std::byte *>(address);
  }
  return nullptr;
}

cl_int give_block(const Mem &m, int file) {
  Writer w;
  w.put(m.number).put(reinterpret_cast<u64>(m.shadow.data)).put(u64{m.size});
  return link().round_trip(Op::ShareBlock, w.bytes(), file);
}

// Replaces the reserved pages by those of the file.
cl_int use_file(Mem &m, int file) {
  SharedRange *range = SharedRange::add(m.shadow.data, m.size, 1);
  if (!range) return CL_OUT_OF_HOST_MEMORY;
  if (!map_over(*range, file)) {
    range->remove();
    return CL_OUT_OF_HOST_MEMORY;
  }
  m.shared = std::make_shared<SharedMemory>(range, 0);
  m.shared->in_proxy = true;
  return CL_SUCCESS;
}

cl_int share_block(Mem &m) {
  Result<UniqueFd> file = make_buffer_file(m.size);
  if (!file) return CL_OUT_OF_HOST_MEMORY;
  for (int i = 0; i < kTries; i++) {
    m.shadow.data = reserve_for_block(m.size);
    if (!m.shadow.data) return CL_OUT_OF_HOST_MEMORY;
    m.shadow.bytes = m.size;
    cl_int r = give_block(m, file->get());
    if (r == CL_SUCCESS) return use_file(m, file->get());
    ::munmap(std::exchange(m.shadow.data, nullptr), m.size);
    if (r != CL_MEM_OBJECT_ALLOCATION_FAILURE) return r;
  }
  return CL_OUT_OF_HOST_MEMORY;
}

cl_int give_part(const Mem &m) {
  Writer w;
  w.put(m.number).put(m.block->number);
  w.put(static_cast<u64>(m.host_ptr - m.block->shadow.data)).put(u64{m.size});
  return link().round_trip(Op::ShareInBlock, 0, w.bytes());
}

Failure cannot_share(const Mem &m, const std::byte *at, cl_int status) {
  return fail_with_hint(
      fmt::format(
          "cannot map shared virtual memory {} at {} again for the new device: OpenCL error "
          "{}",
          m.number, static_cast<const void *>(at), status),
      "restore on a device of the type CPU of this node");
}

}  // namespace

Mem *make_block(Context &context, size_t bytes, cl_int &status) {
  auto *m = new Mem;
  m->context = Ref<Context>(&context);
  m->flags = CL_MEM_READ_WRITE;
  m->size = bytes;
  m->svm = true;
  status = create_managed(*m, bytes, [&] {
    return create<&::clCreateBuffer>(m, handle<cl_context>(&context), m->flags, bytes, nullptr,
                                     nullptr);
  });
  if (status == CL_SUCCESS) status = share_block(*m);
  if (status == CL_SUCCESS) return m;
  destroy(m);
  return nullptr;
}

void release_block(Mem &block) {
  block.app_count.store(0);
  block.drop();
}

Result<> share_block_again(Mem &block) {
  if (!block.shared) return {};  // it is being made
  int file = block.shared->range->file();
  cl_int r =
      file < 0 || link().compiles_elsewhere() ? CL_INVALID_OPERATION : give_block(block, file);
  return r == CL_SUCCESS ? Result<>{} : cannot_share(block, block.shadow.data, r);
}

cl_int share_in_block(Mem &m) {
  cl_int r = give_part(m);
  if (r == CL_SUCCESS) m.shared = m.block->shared;
  return r;
}

Result<> share_in_block_again(Mem &m) {
  if (!m.shared) return {};
  cl_int r = give_part(m);
  return r == CL_SUCCESS ? Result<>{} : cannot_share(m, m.host_ptr, r);
}

}  // namespace ckpt::ocl
