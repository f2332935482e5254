// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of this installation are. An installed tree may have been moved or copied, so
// they are searched for relative to the file that asks, and only then under the prefix of the
// build.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt_config.h"

namespace ckpt {

// The prefix of the tree to which `folder`, of an executable or a library of ours, belongs.
inline std::filesystem::path installation_prefix(const std::filesystem::path &folder) {
  const std::string libraries = CKPT_LIBDIR, internal = CKPT_LIBEXECDIR;
  const std::string unversioned = std::filesystem::path(internal).parent_path();
  for (const std::string &below :
       std::array<std::string, 6>{CKPT_BINDIR, internal, unversioned, libraries,
                                  libraries + "/cuda", libraries + "/softcuda"}) {
    std::string text = folder.string(), end = "/" + below;
    if (text.ends_with(end)) return text.substr(0, text.size() - below.size());
  }
  return CKPT_PREFIX;
}

inline std::filesystem::path own_folder() {
  std::error_code ec;
  return std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
}

// For executables. Libraries pass their own folder to installation_prefix().
inline std::filesystem::path installed_libdir() {
  return installation_prefix(own_folder()) / CKPT_LIBDIR;
}
inline std::filesystem::path installed_libexecdir() {
  return installation_prefix(own_folder()) / CKPT_LIBEXECDIR;
}

// The first of the candidates that exists; "": none.
inline std::string first_existing(const std::vector<std::filesystem::path> &candidates) {
  std::error_code ec;
  for (const std::filesystem::path &p : candidates)
    if (std::filesystem::exists(p, ec)) return p.lexically_normal().string();
  return {};
}

// An internal executable, for executables: in `room` of the build folder to which this one belongs,
// or installed. "": it is missing.
inline std::string internal_executable(const std::filesystem::path &room, const std::string &name) {
  return first_existing({own_folder().parent_path() / room / name, installed_libexecdir() / name});
}

}  // namespace ckpt
