// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/kept_links.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = 20s;

// The manifest is untrusted: no other name is made or removed.
bool is_link_remap(const std::string &path) {
  return path.starts_with('/') &&
         std::filesystem::path(path).filename().string().starts_with("link_remap.");
}

bool same_file(const std::string &a, const std::string &b) {
  std::error_code ec;
  return std::filesystem::equivalent(a, b, ec);
}

Result<> make_link(const ImageManifest::Link &l) {
  for (auto end = Clock::now() + kWait; ::link(l.kept.c_str(), l.path.c_str()) < 0;) {
    if (errno == ENOENT || same_file(l.kept, l.path)) return {};
    if (errno != EEXIST) return fail_errno("cannot give {} the name {}", l.kept, l.path);
    if (Clock::now() > end)
      return fail_with_hint(fmt::format("CRIU needs the name {}, which another file has", l.path),
                            "another checkpoint or restore may be using it: run ckpt-restore again "
                            "later. If a killed one has left it behind, remove it");
    std::this_thread::sleep_for(50ms);
  }
  return {};
}

}  // namespace

Result<> KeptLinks::make(const std::vector<ImageManifest::Link> &links) {
  for (const ImageManifest::Link &l : links)
    if (is_link_remap(l.path) && is_link_remap(l.kept)) {
      CKPT_CHECK(make_link(l));
      links_.push_back(l);
    }
  return {};
}

// CRIU has removed its names if it was successful.
KeptLinks::~KeptLinks() {
  for (const ImageManifest::Link &l : links_)
    if (same_file(l.kept, l.path)) ::unlink(l.path.c_str());
}

}  // namespace ckpt::tools
