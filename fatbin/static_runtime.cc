// SPDX-License-Identifier: Apache-2.0
#include "fatbin/static_runtime.h"

#include "fatbin/image.h"

namespace ckpt::fatbin {

Result<> refuse_static_runtime(const std::string &path) {
  Result<Image> image = Image::open(path);
  // What is no ELF file with device code may still start one: a script, python.
  if (!image || image->runtime().runtime != Runtime::Static) return {};
  return fail_with_hint(
      fmt::format(
          "{} was linked with the static CUDA runtime ({}), which runs on NVIDIA's driver only",
          path, image->runtime().reason),
      "link it with nvcc -cudart shared");
}

}  // namespace ckpt::fatbin
