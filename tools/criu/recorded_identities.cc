// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/recorded_identities.h"

#include <algorithm>
#include <charconv>

#include "common/base/printable.h"
#include "helper/core_file.h"
#include "tools/criu/streamer.h"

namespace ckpt::tools {
namespace {

// Of a program in a user namespace: its ids are those of that namespace.
constexpr std::string_view kUserNamespaces = "userns-";
// CRIU 4.2 writes none, but reads them where a core file names no credentials.
constexpr std::string_view kOldCredentials = "creds-";

// core-12.img
pid_t thread_of(std::string_view name) {
  pid_t thread = 0;
  name.remove_prefix(helper::kCoreFiles.size());
  std::from_chars(name.data(), name.data() + name.size(), thread);
  return thread;
}

}  // namespace

bool RecordedIdentities::wants(std::string_view name) {
  return name.starts_with(helper::kCoreFiles) || name.starts_with(kUserNamespaces) ||
         name.starts_with(kOldCredentials);
}

void RecordedIdentities::add(std::string_view name, ByteView file) {
  if (!name.starts_with(helper::kCoreFiles)) {
    unreadable_ = fmt::format("CRIU's file {} names other identities", printable(name));
    return;
  }
  Result<std::optional<ThreadIdentity>> identity =
      file.size() > helper::kMaxCoreBytes ? fail("it is too long") : helper::identity_in_core(file);
  if (!identity) {
    unreadable_ =
        fmt::format("CRIU's file {} cannot be read: {}", printable(name), identity.error().what);
  } else if (*identity) {
    (*identity)->process = (*identity)->thread = thread_of(name);
    threads_.push_back(std::move(**identity));
  }
}

Ownership RecordedIdentities::ownership() const {
  if (!unreadable_.empty()) return {std::nullopt, unreadable_};
  // CRIU's files come in any order, and the other threads are compared with the first.
  std::vector<ThreadIdentity> sorted = threads_;
  std::ranges::sort(sorted, {}, &ThreadIdentity::thread);
  return ownership_of(sorted);
}

RecordedIdentities RecordedIdentities::of(const storage::ImageReader &image) {
  RecordedIdentities all;
  for (const storage::StreamEntry &stream : image.streams()) {
    std::string_view name = stream.name;
    if (!name.starts_with(kCriuStreams)) continue;
    name.remove_prefix(kCriuStreams.size());
    if (!wants(name)) continue;
    Bytes file(std::min<u64>(stream.size, helper::kMaxCoreBytes + 1));
    if (Result<> read = image.read(stream, 0, file); read)
      all.add(name, file);
    else
      all.unreadable_ = read.error().what;
  }
  return all;
}

}  // namespace ckpt::tools
