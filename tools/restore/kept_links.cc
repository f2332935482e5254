// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/kept_links.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

// The manifest is untrusted: no other name is made or removed.
bool is_link_remap(const std::string &path) {
  return path.starts_with('/') &&
         std::filesystem::path(path).filename().string().starts_with("link_remap.");
}

}  // namespace

KeptLinks::KeptLinks(std::vector<ImageManifest::Link> links) {
  for (const ImageManifest::Link &l : links)
    if (is_link_remap(l.path) && is_link_remap(l.kept) &&
        ::link(l.kept.c_str(), l.path.c_str()) == 0)
      links_.push_back(l);
}

KeptLinks::~KeptLinks() {
  for (const ImageManifest::Link &l : links_) ::unlink(l.path.c_str());
}

void check_links(const ImageManifest &m, Reasons &reasons) {
  std::set<std::string> made_anew;
  for (const ImageManifest::MemoryFile &f : m.memory_files) made_anew.insert(f.path);
  for (const ImageManifest::Link &l : m.links)
    if (!made_anew.contains(l.kept) && ::access(l.kept.c_str(), F_OK) != 0)
      reasons.push_back(fmt::format(
          "{}, the name that the dump gave to an unlinked file, is missing: start the program anew",
          l.kept));
}

}  // namespace ckpt::tools
