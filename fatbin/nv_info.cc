// SPDX-License-Identifier: Apache-2.0
#include "fatbin/nv_info.h"

#include <algorithm>

namespace ckpt::fatbin {
namespace {

constexpr u8 kSized = 4;         // format: as many bytes follow as the u16 says
constexpr u8 kParameter = 0x17;  // u32, u16 ordinal, u16 offset, u32 whose upper 14 bits are a size
constexpr u8 kLongParameter = 0x45;   // u32, u16 ordinal, u16 offset, u16 size, u16
constexpr u8 kParameterBytes = 0x19;  // of all parameters together
constexpr size_t kMaxParameters = 1u << 14;

struct Ordered {
  u16 ordinal;
  Parameter parameter;
};

Ordered read_parameter(ByteView value, bool is_long) {
  Reader in(value);
  in.get<u32>();
  u16 ordinal = in.get<u16>(), offset = in.get<u16>();
  u32 bytes = is_long ? in.get<u16>() : in.get<u32>() >> 18;
  return {ordinal, {offset, bytes}};
}

}  // namespace

Result<> read_parameters(ByteView section, Kernel &kernel) {
  std::vector<Ordered> found;
  Reader in(section);
  while (in.ok() && in.left() > 0) {
    u8 format = in.get<u8>(), name = in.get<u8>();
    u16 value = in.get<u16>();
    ByteView bytes = format == kSized ? in.raw(value) : ByteView();
    if (name == kParameterBytes && format != kSized) kernel.parameter_bytes = value;
    if ((name == kParameter || name == kLongParameter) && bytes.size() == 12)
      found.push_back(read_parameter(bytes, name == kLongParameter));
    if (found.size() > kMaxParameters)
      return fail("kernel {} has more than {} parameters", kernel.name, kMaxParameters);
  }
  if (!in.ok()) return fail("the parameter section of kernel {} is truncated", kernel.name);
  std::ranges::sort(found, {}, &Ordered::ordinal);
  for (const Ordered &o : found) kernel.parameters.push_back(o.parameter);
  return {};
}

}  // namespace ckpt::fatbin
