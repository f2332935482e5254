// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_marker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "agent/protocol.h"

namespace ckpt::tools {

void DumpMarker::lock(const std::string &session_socket) {
  path_ = std::filesystem::path(session_socket).replace_filename(protocol::kDumpMarker);
  file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file_) ::flock(file_.get(), LOCK_SH | LOCK_NB);  // there may be another dump
}

void DumpMarker::remove() { ::unlink(path_.c_str()); }

bool DumpMarker::is_open_in(const DescriptorTable &program) const {
  auto is_marker = [](const Descriptor &d) {
    return d.kind == Descriptor::Kind::File &&
           std::filesystem::path(d.target).filename() == protocol::kDumpMarker;
  };
  return std::ranges::any_of(
      program, [&](const auto &process) { return std::ranges::any_of(process.second, is_marker); });
}

}  // namespace ckpt::tools
