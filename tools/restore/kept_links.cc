// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/kept_links.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

std::string second_name(const std::string &path) { return path + ".ckpt"; }

bool exists(const std::string &path) { return ::access(path.c_str(), F_OK) == 0; }

// The manifest is untrusted: nothing else is linked or renamed.
bool is_link_remap(const std::string &path) {
  return path.starts_with('/') &&
         std::filesystem::path(path).filename().string().starts_with("link_remap.");
}

void give_back(const std::string &path) {
  if (exists(path))
    ::unlink(second_name(path).c_str());
  else
    ::rename(second_name(path).c_str(), path.c_str());
}

}  // namespace

KeptLinks::KeptLinks(std::vector<std::string> paths) : paths_(std::move(paths)) {
  std::erase_if(paths_, [](const std::string &p) { return !is_link_remap(p); });
  for (const std::string &path : paths_) {
    give_back(path);  // what a killed ckpt-restore has left
    (void)::link(path.c_str(), second_name(path).c_str());
  }
}

KeptLinks::~KeptLinks() {
  for (const std::string &path : paths_) give_back(path);
}

void check_links(const std::vector<std::string> &paths, Reasons &reasons) {
  for (const std::string &path : paths)
    if (!exists(path) && !exists(second_name(path)))
      reasons.push_back(fmt::format(
          "{}, the name that the dump gave to an unlinked file, is missing: start the program anew",
          path));
}

}  // namespace ckpt::tools
