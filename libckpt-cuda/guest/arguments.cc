// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/arguments.h"

#include <algorithm>
#include <cstring>

namespace ckpt::cuda::guest {

Arguments::Arguments(const Kernel &kernel, void **params, void **extra, const slicing::Dim &grid)
    : params_(params), extra_(extra), slice_{{0, 0, 0}, grid} {
  if (!kernel.facts.takes_slice) return;
  if (extra != nullptr)
    append_to_buffer(kernel);
  else if (params != nullptr || kernel.facts.parameters == 0)
    append_pointer(kernel);
}

void Arguments::append_pointer(const Kernel &kernel) {
  pointers_.assign(params_, params_ + kernel.facts.parameters);
  pointers_.push_back(&slice_);
  params_ = pointers_.data();
}

// A list that does not name a buffer is left to the driver to refuse.
void Arguments::append_to_buffer(const Kernel &kernel) {
  const void *given = nullptr;
  size_t bytes = 0;
  for (void **p = extra_; *p != CU_LAUNCH_PARAM_END; p += 2) {
    if (*p == CU_LAUNCH_PARAM_BUFFER_POINTER) given = p[1];
    if (*p == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t *>(p[1]);
  }
  if (given == nullptr && kernel.facts.parameters > 0) return;
  buffer_bytes_ = kernel.facts.slice_offset + sizeof slice_;
  buffer_.resize(buffer_bytes_);
  if (given != nullptr)
    std::memcpy(buffer_.data(), given, std::min<size_t>(bytes, kernel.facts.slice_offset));
  slice_in_buffer_ = buffer_.data() + kernel.facts.slice_offset;
  std::memcpy(slice_in_buffer_, &slice_, sizeof slice_);
  void *const list[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer_.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                        &buffer_bytes_, CU_LAUNCH_PARAM_END};
  std::copy(std::begin(list), std::end(list), list_);
  extra_ = list_;
}

void Arguments::set_base(const slicing::Dim &base) {
  slice_.base = base;
  if (slice_in_buffer_ != nullptr) std::memcpy(slice_in_buffer_, &slice_, sizeof slice_);
}

}  // namespace ckpt::cuda::guest
