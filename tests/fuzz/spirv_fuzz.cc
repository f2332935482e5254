// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as a SPIR-V module, rewritten for slices; the first byte chooses the form.
// What is printed must be a module that can be parsed, with an id for each new value, and of a
// bounded size.
#include <cstdlib>

#include "slicing/opencl_source.h"
#include "slicing/spirv.h"
#include "slicing/spirv_module.h"

using namespace ckpt;
using namespace ckpt::slicing;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size == 0 || size > 64 << 10) return 0;
  ByteView bytes = view(data + 1, size - 1);
  SlicedSpirv made = sliced_spirv(bytes, data[0] % kForms);
  if (made.whole.empty() != !made.module.empty()) std::abort();
  if (!made.whole.empty()) return 0;
  Result<SpirvModule> before = SpirvModule::parse(bytes), after = SpirvModule::parse(made.module);
  if (!before || !after || after->bound() < before->bound()) std::abort();
  if (after->instructions().size() < before->instructions().size()) std::abort();
  if (made.module.size() > 8192 + size * 64) std::abort();
  return 0;
}
