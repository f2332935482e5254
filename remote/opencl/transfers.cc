// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/transfers.h"

#include "ring/table.h"

namespace ckpt::remote {
namespace {

using ocl::Op;

// Reads {u64 origin[3], u64 region[3]}. The volume of the region, or no value if it overflows.
std::optional<u64> volume(Reader &r) {
  for (int d = 0; d < 3; d++) r.get<u64>();
  u64 all = 1;
  bool fits = true;
  for (int d = 0; d < 3; d++) fits = !__builtin_mul_overflow(all, r.get<u64>(), &all) && fits;
  return fits ? std::optional(all) : std::nullopt;
}

std::optional<Transfer> of_buffer(Op op, Reader &r) {
  r.raw(3 * sizeof(u64));  // queue, memory object, offset
  u64 bytes = r.get<u64>();
  return Transfer{op == Op::Write, false, r.get<u64>(), bytes};
}

std::optional<Transfer> of_rect(Op op, Reader &r) {
  r.raw(2 * sizeof(u64));  // queue, memory object
  std::optional<u64> bytes = volume(r);
  r.raw(2 * sizeof(u64));  // pitches
  if (!bytes) return {};
  return Transfer{op == Op::WriteRect, false, r.get<u64>(), *bytes};
}

std::optional<Transfer> of_contents(Op op, Reader &r) {
  r.raw(2 * sizeof(u64));  // memory object, offset
  u64 bytes = r.get<u64>(), place = r.get<u64>();
  return Transfer{op == Op::WriteContents, r.get<u8>() != 0, place, bytes};
}

}  // namespace

std::optional<Transfer> Transfers::of_image(Op op, Reader &r) const {
  r.get<u64>();  // queue
  auto found = element_bytes_.find(r.get<u64>());
  std::optional<u64> elements = volume(r);
  u64 bytes = 0;
  if (found == element_bytes_.end() || !elements ||
      __builtin_mul_overflow(*elements, found->second, &bytes))
    return {};
  return Transfer{op == Op::WriteImage, false, r.get<u64>(), bytes};
}

std::optional<Transfer> Transfers::of(const ocl::CommandHeader &header, ByteView payload) const {
  Reader r(payload);
  std::optional<Transfer> t;
  Op op = static_cast<Op>(header.op);
  switch (op) {
    case Op::Read:
    case Op::Write: t = of_buffer(op, r); break;
    case Op::ReadRect:
    case Op::WriteRect: t = of_rect(op, r); break;
    case Op::ReadImage:
    case Op::WriteImage: t = of_image(op, r); break;
    case Op::ReadContents:
    case Op::WriteContents: t = of_contents(op, r); break;
    default: return {};
  }
  // The bytes of a small write travel in its payload.
  if (!t || !r.ok() || t->bytes == 0 || (!t->in_tool_staging && t->place == ocl::kInline))
    return {};
  return t;
}

bool Transfers::image_made(u64 number, ByteView reply) {
  constexpr u64 kMostBytes = 64;  // of an element: four channels of 4 bytes, and some to spare
  Reader r(reply);
  u64 bytes = r.get<u64>();
  if (!r.done() || bytes == 0 || bytes > kMostBytes) return false;
  element_bytes_[number] = bytes;
  return true;
}

void Transfers::released(ByteView payload) {
  Reader r(payload);
  if (r.get<ocl::Kind>() == ocl::Kind::Mem) element_bytes_.erase(r.get<u64>());
}

}  // namespace ckpt::remote
