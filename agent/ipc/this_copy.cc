// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/this_copy.h"

#include <atomic>

#include "agent/ipc/session.h"
#include "common/base/file_text.h"

namespace ckpt::agent {
namespace {

struct Known {
  std::string text;
  std::optional<CopyFacts> facts;
};

// Without a lock, which a fork could copy locked.
constinit std::atomic<const Known *> g_known{nullptr};

}  // namespace

// The file is read each time: a process without an agent does not notice that it has become a copy.
const CopyFacts *this_copy() {
  if (session_socket().empty()) return nullptr;
  std::string text =
      file_text(session_folder() + "/" + std::string(kCopyFile)).value_or(std::string());
  const Known *known = g_known.load(std::memory_order_acquire);
  if (!known || known->text != text) {
    known = new Known{text, CopyFacts::parse(text)};
    g_known.store(known, std::memory_order_release);
  }
  return known->facts ? &*known->facts : nullptr;
}

}  // namespace ckpt::agent
