// SPDX-License-Identifier: Apache-2.0
#include "slicing/spirv_module.h"

namespace ckpt::slicing {

Result<SpirvModule> SpirvModule::parse(ByteView bytes) {
  SpirvModule m;
  if (bytes.size() < kHeaderWords * sizeof(u32) || bytes.size() % sizeof(u32) != 0 ||
      bytes.size() > kMostBytes)
    return fail("its length is not that of a SPIR-V module");
  m.words_.resize(bytes.size() / sizeof(u32));
  std::memcpy(m.words_.data(), bytes.data(), bytes.size());
  if (m.words_[0] != kMagic) return fail("it is not in SPIR-V, or in the other byte order");
  if (m.bound() > kMostIds) return fail("it has more ids than SPIR-V allows");
  std::span<const u32> rest = std::span<const u32>(m.words_).subspan(kHeaderWords);
  while (!rest.empty()) {
    size_t length = rest[0] >> 16;
    if (length == 0 || length > rest.size()) return fail("an instruction exceeds the module");
    m.instructions_.push_back({static_cast<SpirvOp>(rest[0] & 0xffff), rest.first(length)});
    rest = rest.subspan(length);
  }
  return m;
}

}  // namespace ckpt::slicing
