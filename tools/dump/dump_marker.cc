// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_marker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "agent/protocol.h"
#include "common/base/clock.h"
#include "tools/proc/process.h"
#include "tools/proc/process_root.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

const std::string kMarkerName(protocol::kDumpMarker);
constexpr std::chrono::minutes kTurnTimeout{10};
constexpr std::chrono::milliseconds kTurnPoll{20};

}  // namespace

Result<> DumpMarker::wait_for_turn(pid_t keeper, const std::string &session_socket,
                                   const Cancel &cancel, bool &waited) {
  if (turn_) return {};
  std::filesystem::path session = std::filesystem::path(session_socket).parent_path();
  CKPT_TRY(UniqueFd folder, open_folder_of(keeper, session));
  // The keeper holds the lock of the folder itself.
  turn_.reset(::openat(folder.get(), std::string(kProgramFile).c_str(),
                       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!turn_) return {};  // the preflight says what is wrong
  for (auto end = Clock::now() + kTurnTimeout; Clock::now() < end;) {
    if (::flock(turn_.get(), LOCK_EX | LOCK_NB) == 0) return {};
    waited = true;
    CKPT_CHECK(cancel.check());  // the user can hold the lock on this file forever
    std::this_thread::sleep_for(kTurnPoll);
  }
  turn_.reset();
  return fail_with_hint("another dump of this program is under way", "try again when it has ended");
}

void DumpMarker::lock(pid_t keeper, const std::string &session_socket) {
  std::filesystem::path session = std::filesystem::path(session_socket).parent_path();
  Result<UniqueFd> folder = open_folder_of(keeper, session);
  if (!folder) return;
  folder_ = std::move(*folder);
  file_.reset(
      ::openat(folder_.get(), kMarkerName.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (Result<Process> p = read_process(keeper)) keeper_user_ = p->credentials();
  if (file_) ::flock(file_.get(), LOCK_SH | LOCK_NB);  // there may be another dump
}

void DumpMarker::remove() {
  if (AsUser as(keeper_user_); folder_ && as.active())
    ::unlinkat(folder_.get(), kMarkerName.c_str(), 0);
}

bool DumpMarker::is_open_in(const DescriptorTable &program) const {
  auto is_marker = [](const Descriptor &d) {
    return d.kind == Descriptor::Kind::File &&
           std::filesystem::path(d.target).filename() == protocol::kDumpMarker;
  };
  return std::ranges::any_of(
      program, [&](const auto &process) { return std::ranges::any_of(process.second, is_marker); });
}

}  // namespace ckpt::tools
