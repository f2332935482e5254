// SPDX-License-Identifier: Apache-2.0
#include "fatbin/static_runtime.h"

#include "fatbin/image.h"

namespace ckpt::fatbin {

Result<> refuse_static_runtime(const std::string &path) {
  Result<Image> image = Image::open(path);
  // Other files may start a CUDA program as well: a script, an interpreter.
  if (!image || image->runtime().runtime != Runtime::Static) return {};
  return fail_with_hint(
      fmt::format(
          "{} is linked with the static CUDA runtime ({}), which runs only on NVIDIA's driver",
          path, image->runtime().reason),
      "link it with nvcc -cudart shared");
}

}  // namespace ckpt::fatbin
