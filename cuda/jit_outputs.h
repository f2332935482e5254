// SPDX-License-Identifier: Apache-2.0
//
// What a program wants to read of the driver's compiler or linker: the output options among those
// of cuModuleLoadDataEx, cuLibraryLoadData and cuLinkCreate (cuda.h, CUjit_option).
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::api {

// The program's array of values and its buffers must outlive the object.
class JitOutputs {
 public:
  JitOutputs() = default;
  JitOutputs(unsigned n, const CUjit_option *options, void **values) {
    if (!options || !values) return;
    for (unsigned i = 0; i < n; i++) switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER: info_.text = static_cast<char *>(values[i]); break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: info_.size = &values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER: error_.text = static_cast<char *>(values[i]); break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: error_.size = &values[i]; break;
        case CU_JIT_WALL_TIME: wall_time_ = &values[i]; break;
        default: break;
      }
    info_.room = info_.size ? number_in(*info_.size) : 0;
    error_.room = error_.size ? number_in(*error_.size) : 0;
  }

  u32 info_bytes() const { return info_.text ? info_.room : 0; }
  u32 error_bytes() const { return error_.text ? error_.room : 0; }

  // The sizes become the numbers of bytes that were written, without the NUL behind them.
  void write(std::string_view info, std::string_view error, float milliseconds) const {
    info_.write(info);
    error_.write(error);
    if (wall_time_) std::memcpy(wall_time_, &milliseconds, sizeof milliseconds);
  }

  // A number that is passed as a pointer.
  static u32 number_in(const void *value) {
    return static_cast<u32>(reinterpret_cast<uintptr_t>(value));
  }

 private:
  struct Log {
    char *text = nullptr;
    void **size = nullptr;
    u32 room = 0;
    void write(std::string_view all) const {
      if (!text || room == 0) return;
      size_t n = std::min<size_t>(all.size(), room - 1);
      std::memcpy(text, all.data(), n);
      text[n] = '\0';
      if (size) *size = reinterpret_cast<void *>(n);
    }
  };
  Log info_, error_;
  void **wall_time_ = nullptr;
};

}  // namespace ckpt::api
