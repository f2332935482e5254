// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/loadable.h"

#include "fatbin/format.h"

namespace ckpt::remote::cuda {

Loadable make_loadable(fatbin::Form form, std::vector<const void *> parts) {
  Loadable out;
  out.pointers = std::move(parts);
  out.code = out.pointers.front();
  if (form != fatbin::Form::Wrapper) return out;
  out.pointers.erase(out.pointers.begin());
  bool linked = !out.pointers.empty();
  out.pointers.push_back(nullptr);
  fatbin::WrapperRecord w{fatbin::kWrapperMagic, linked ? fatbin::kLinkedWrapper : 1, out.code,
                          linked ? out.pointers.data() : nullptr};
  out.wrapper.resize(sizeof w / sizeof(u64));
  std::memcpy(out.wrapper.data(), &w, sizeof w);
  out.code = out.wrapper.data();
  return out;
}

}  // namespace ckpt::remote::cuda
