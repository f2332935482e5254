// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/container.h"

namespace ckpt::ocl {
namespace {

constexpr std::string_view kMagic = "CKPT-OCL";
constexpr u32 kVersion = 1;

}  // namespace

Bytes Container::pack() const {
  Writer w;
  w.raw(kMagic.data(), kMagic.size());
  w.put(kVersion).str(device).str(options).str(source).blob(native);
  return w.take();
}

std::optional<Container> Container::unpack(ByteView bytes) {
  Reader r(bytes);
  if (text(r.raw(kMagic.size())) != kMagic || r.get<u32>() != kVersion) return {};
  Container c;
  c.device = r.str();
  c.options = r.str();
  c.source = r.str();
  ByteView native = r.blob();
  c.native.assign(native.begin(), native.end());
  if (!r.done()) return {};
  return c;
}

}  // namespace ckpt::ocl
