// SPDX-License-Identifier: Apache-2.0
#include "manager-client/eviction.h"

#include "agent/ipc/session.h"
#include "common/base/log.h"
#include "common/managed/messages.h"

namespace ckpt::manager_client {
namespace {

using std::chrono::milliseconds;

// For calls and kernels in progress. The Manager may give up the eviction earlier.
constexpr milliseconds kQuiesceTimeout{50'000};
// Between attempts to resume without a Manager.
constexpr milliseconds kResumePause{2'000};

// Further attempts usually fail for the same reason.
void warn_once(bool &warned, const char *what, const std::string &why) {
  log::Level level = std::exchange(warned, true) ? log::Level::Info : log::Level::Warn;
  log::log(level, "this program cannot {}: {}", what, why);
}

}  // namespace

bool Eviction::begin() {
  in_progress_ = ready_;
  return ready_;
}

void Eviction::cannot_suspend(const std::string &why) {
  in_progress_ = false;
  warn_once(warned_suspend_, "be evicted", why);
}

void Eviction::suspended(u64 kept, bool on_disk) {
  in_progress_ = warned_suspend_ = false;
  evicted_ = true;
  kept_ = kept;
  on_disk_ = on_disk;
}

void Eviction::cannot_resume(const std::string &why) {
  warn_once(warned_resume_, "resume yet", why);
}

void Eviction::resumed() {
  warned_resume_ = evicted_ = false;
  kept_ = 0;
}

// The state is Running until the gates are closed, and again before the new GPU is recorded, so the
// flags are needed as well.
bool Eviction::on_device() const {
  return !in_progress_ && !evicted_ && lifecycle_.state() == protocol::State::Running;
}

void Eviction::schedule_attempt() { next_attempt_ = Clock::now() + kResumePause; }

Result<u64> Eviction::suspend(const std::string &folder, protocol::Depth depth) {
  if (lifecycle_.state() != protocol::State::Running)
    return fail("the program is suspended already");
  std::vector<std::string> blockers = lifecycle_.preflight();
  if (!blockers.empty()) return fail("{}", fmt::join(blockers, "; "));
  if (folder.empty()) lifecycle_.prepare(protocol::kAheadBytes);
  CKPT_CHECK(lifecycle_.quiesce(kQuiesceTimeout));
  return lifecycle_.suspend(folder, depth);
}

Result<> Eviction::deepen() {
  if (lifecycle_.state() != protocol::State::Suspended) return fail("the program is not suspended");
  if (!stays()) return {};
  return lifecycle_.deepen().transform([](auto &&) {});
}

// The program sees one device; the empty name in the pair stands for it.
Result<> Eviction::resume(const std::string &gpu, u32 apis) {
  if (lifecycle_.state() != protocol::State::Suspended) return fail("the program is not suspended");
  for (const std::string &name : lifecycle_.participant_names()) {
    managed::Api api = name == "ocl" ? managed::kOpenCl : managed::kCuda;
    if (!gpu.empty() && (apis & api) != 0)
      CKPT_CHECK(lifecycle_.use_devices(name, std::array{agent::DevicePair{"", gpu}}));
  }
  Result<> awake = lifecycle_.wake(agent::session_socket());
  lifecycle_.release_spent();
  return awake;
}

}  // namespace ckpt::manager_client
