// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// A folder in $TMPDIR, which scripts/fuzz has in memory; removed with its contents when the fuzzer
// ends.
inline const std::string &scratch_folder() {
  static const std::string path = [] {
    std::string name = std::filesystem::temp_directory_path() / "ckpt-fuzz-XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    static const std::string made = name;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(made, ignored);
    });
    return name;
  }();
  return path;
}

inline UniqueFd memory_file(ByteView bytes) {
  UniqueFd fd(::memfd_create("fuzz", MFD_CLOEXEC));
  if (!fd ||
      ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  return fd;
}

}  // namespace ckpt
