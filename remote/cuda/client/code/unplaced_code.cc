// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/unplaced_code.h"

#include "fatbin/summary.h"

namespace ckpt::remote::cuda {

std::string unreachable_managed(const fatbin::Image &image,
                                const Result<FixedVariables> &variables) {
  if (variables) return variables->unplaced_managed();
  Result<fatbin::Summary> s = fatbin::summarize(image, {.threads = 1});
  if (!s) return {};
  for (const auto &[name, v] : s->variables)
    if (v.variable.space == fatbin::Space::Managed) return name;
  return {};
}

CUresult refuse_managed(const std::string &variable, const std::string &why_unplaced) {
  return refuse(
      fmt::format("the code with the managed variable \"{}\"", variable).c_str(),
      fmt::format("the host could not reach the variable, because the driver of the other "
                  "node places it: {}. Build the code with PTX and without -G, or use "
                  "__device__ variables and copies",
                  why_unplaced)
          .c_str());
}

CUresult refuse_opaque(const LoadedCode &code) {
  return refuse(fmt::format("the code with the kernel \"{}\"", code.needs().kernel).c_str(),
                "it has no PTX that ckpt could change, and the program has texture or surface "
                "objects, whose handles only changed code knows. Build it with nvcc -gencode "
                "arch=compute_NN,code=compute_NN for each architecture, or start the program with "
                "CKPT_CUDA_TEXTURES=driver; it cannot be moved then");
}

}  // namespace ckpt::remote::cuda
