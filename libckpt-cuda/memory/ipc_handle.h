// SPDX-License-Identifier: Apache-2.0
//
// The handles of cuIpc*, which programs pass on as 64 bytes: ours begin with the fields of a struct
// `Fields`, of which the first is `u64 magic`, and the rest is 0.
#pragma once

#include <cuda.h>

#include <cstring>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt::cuda {

template <typename Handle, typename Fields>
Handle ipc_handle_of(const Fields &fields) {
  static_assert(sizeof(Fields) <= sizeof(Handle));
  Handle handle{};
  std::memcpy(&handle, &fields, sizeof fields);
  return handle;
}

// No value: a handle that ckpt has not made.
template <typename Fields, typename Handle>
std::optional<Fields> ipc_fields_of(const Handle &handle, u64 magic) {
  Fields fields{};
  std::memcpy(&fields, &handle, sizeof fields);
  Handle whole = ipc_handle_of<Handle>(fields);
  bool sound = fields.magic == magic && std::memcmp(&whole, &handle, sizeof whole) == 0;
  return sound ? std::optional(fields) : std::nullopt;
}

}  // namespace ckpt::cuda
