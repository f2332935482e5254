// SPDX-License-Identifier: Apache-2.0
#include "softcuda/ptx/loaded_module.h"

namespace ckpt::softcuda::ptx {

Result<std::unique_ptr<LoadedModule>> parse_module(std::string text) {
  auto loaded = std::make_unique<LoadedModule>();
  loaded->text = std::move(text);
  CKPT_TRY(static_cast<Module &>(*loaded), read_module(loaded->text));
  if (!loaded->problem.empty()) return fail("{}", loaded->problem);
  return loaded;
}

}  // namespace ckpt::softcuda::ptx
