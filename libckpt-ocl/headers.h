// SPDX-License-Identifier: Apache-2.0
//
// The files that a program's source includes, as they were when it was built. With them the program
// can be built again in any folder and on any machine (proxy/serve/header_folder.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::ocl {

struct Headers {
  struct File {
    std::string path, text;
    bool operator==(const File &) const = default;
  };
  std::string folder;                // in which the program was built; relative names begin there
  std::vector<std::string> folders;  // further ones that names lead through, as "folder/../name.h"
  std::vector<File> files;           // by absolute path
  // Absolute names as the source has them, and the paths in `files` that they mean.
  std::vector<std::pair<std::string, std::string>> absolute;

  bool operator==(const Headers &) const = default;
  bool empty() const { return folder.empty(); }  // the source includes nothing
};

inline void put(Writer &w, const Headers &h) {
  w.str(h.folder).put(static_cast<u32>(h.folders.size()));
  for (const std::string &folder : h.folders) w.str(folder);
  w.put(static_cast<u32>(h.files.size()));
  for (const Headers::File &f : h.files) w.str(f.path).str(f.text);
  w.put(static_cast<u32>(h.absolute.size()));
  for (const auto &[name, path] : h.absolute) w.str(name).str(path);
}

inline Headers get_headers(Reader &r) {
  Headers h;
  h.folder = r.str();
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--) h.folders.emplace_back(r.str());
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--) {
    Headers::File &f = h.files.emplace_back();
    f.path = r.str();
    f.text = r.str();
  }
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--) {
    auto &[name, path] = h.absolute.emplace_back();
    name = r.str();
    path = r.str();
  }
  return h;
}

}  // namespace ckpt::ocl
