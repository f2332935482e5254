// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/memory_account.h"

#include <algorithm>

#include "ring/table.h"

namespace ckpt::remote {
namespace {

constexpr u64 kMost = 1ull << 60;  // more than any device has; keeps sums from overflowing

u64 times(u64 a, u64 b) {
  u64 product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

// {u64 context, u64 flags, u64 size}, as opencl.api encodes clCreateBuffer.
u64 buffer_bytes(Reader r) {
  r.raw(2 * sizeof(u64));
  return std::min(r.get<u64>(), kMost);
}

// Op::CreateImage (wire.h). An image of a buffer has no memory of its own. The first time the
// client does not know the size of an element, which is at most 16 bytes (OpenCL 3.0, 5.3.1).
u64 image_bytes(Reader r) {
  constexpr u64 kLargestElement = 16;
  r.raw(2 * sizeof(u64) + 3 * sizeof(u32));
  u64 all = 1;
  for (int i = 0; i < 4; i++) all = times(all, std::max<u64>(r.get<u64>(), 1));
  r.get<u64>();  // row pitch
  if (r.get<u64>() != 0) return 0;
  u64 element = r.get<u64>();
  return times(all, element ? element : kLargestElement);
}

struct Made {
  ocl::Kind kind{};
  u64 bytes = 0;
};

// A driver keeps the source or the code of a program, in the memory of this node.
Made made_by(const ocl::CommandHeader &h, ByteView payload) {
  if (h.op == api::spec<&::clCreateBuffer>.op)
    return {ocl::Kind::Mem, buffer_bytes(Reader(payload))};
  if (h.op == static_cast<u16>(ocl::Op::CreateImage))
    return {ocl::Kind::Mem, image_bytes(Reader(payload))};
  bool program = h.op == static_cast<u16>(ocl::Op::ProgramSource) ||
                 h.op == static_cast<u16>(ocl::Op::ProgramBinary) ||
                 h.op == api::spec<&::clCreateProgramWithIL>.op;
  return program ? Made{ocl::Kind::Program, payload.size()} : Made{};
}

}  // namespace

bool MemoryAccount::admit(const ocl::CommandHeader &h, ByteView payload) {
  Made made = made_by(h, payload);
  if (made.bytes == 0) return true;
  if (!ask_(static_cast<i64>(made.bytes))) return false;
  objects_[h.made] = {made.kind, made.bytes};
  total_ += made.bytes;
  return true;
}

void MemoryAccount::released(ocl::Kind kind, u64 object) {
  auto found = objects_.find(object);
  if (found != objects_.end() && found->second.kind == kind) give_back(object);
}

void MemoryAccount::give_back(u64 object) {
  auto found = objects_.find(object);
  if (found == objects_.end()) return;
  (void)ask_(-static_cast<i64>(found->second.bytes));
  total_ -= found->second.bytes;
  objects_.erase(found);
}

}  // namespace ckpt::remote
