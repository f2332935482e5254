// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any text as PTX, parsed, linked and decoded. Nothing is run.
#include "softcuda/vm/kernel.h"

using namespace ckpt;
using namespace ckpt::softcuda;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size > 64 << 10) return 0;
  Result<std::unique_ptr<ptx::Module>> m =
      ptx::parse_module(std::string(reinterpret_cast<const char *>(data), size));
  if (!m) return 0;
  for (const ptx::Variable &v : (*m)->variables)
    if (v.bytes > 1 << 20) return 0;  // allowed, but not for what a fuzzer has
  std::vector<std::unique_ptr<ptx::Module>> modules;
  modules.push_back(std::move(*m));
  Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
  if (!image) return 0;
  if ((*image)->bytes() < 16 << 20) (void)(*image)->initial(false);
  for (const vm::Symbol *s : (*image)->kernels()) (void)vm::Kernel::link(**image, *s);
  return 0;
}
