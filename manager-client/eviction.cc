// SPDX-License-Identifier: Apache-2.0
//
// The program leaves its device, as the Manager wants, and comes back. On the agent's thread.
#include "agent/ipc/session.h"
#include "agent/runtime/agent.h"
#include "common/base/log.h"
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// For calls and kernels that are under way. The Manager may lose patience earlier.
constexpr milliseconds kQuiesce{50'000};
// Between attempts to come back without a Manager.
constexpr milliseconds kReturnPause{2'000};

}  // namespace

// The user should know, and the next attempts will mostly fail alike.
void ManagerClient::complain(bool &said, const char *what, const std::string &why) {
  log::Level level = std::exchange(said, true) ? log::Level::Info : log::Level::Warn;
  if (log::enabled(level)) log::write(level, fmt::format("this program cannot {}: {}", what, why));
}

// ---- leaving

Result<u64> ManagerClient::suspend(const std::string &folder) {
  if (life_.state() != protocol::State::Running) return fail("the program is suspended already");
  std::vector<std::string> reasons = life_.preflight();
  if (!reasons.empty()) return fail("{}", fmt::join(reasons, "; "));
  CKPT_CHECK(life_.quiesce(kQuiesce));
  return life_.suspend(folder);
}

bool ManagerClient::may_leave() {
  std::lock_guard lock(mutex_);
  return leaving_ = ready_;
}

void ManagerClient::leave(const std::string &folder) {
  bool may = may_leave();
  Result<u64> kept = may ? suspend(folder) : fail("an API is being started");
  std::lock_guard lock(mutex_);
  leaving_ = false;
  if (!kept) {
    if (may) complain(said_cannot_leave_, "be evicted", kept.error().what);
    return say(out::Failed{kept.error().what.substr(0, managed::kMaxReasonBytes)});
  }
  said_cannot_leave_ = false;
  drop_ahead();
  if (told_ != used()) say(out::CudaFree{told_ = used()});
  evicted_ = true;
  kept_ = *kept;
  on_disk_ = !folder.empty();
  say(out::SuspendDone{kept_});
}

// ---- and coming back

// The program sees one device; an empty name stands for the one that it has. What nobody manages
// goes back to where it was.
Result<> ManagerClient::wake(const std::string &gpu) {
  for (const std::string &name : life_.participant_names())
    if (!gpu.empty() && managed(name == "ocl" ? Api::kOpenCl : Api::kCuda))
      CKPT_CHECK(life_.use_devices(name, std::array{agent::DevicePair{"", gpu}}));
  return life_.wake(agent::session_socket());
}

void ManagerClient::come_back(const std::string &gpu) {
  Result<> awake = life_.state() == protocol::State::Suspended
                       ? wake(gpu)
                       : fail("the program is not suspended");
  std::lock_guard lock(mutex_);
  if (!awake) {
    complain(said_cannot_return_, "come back yet", awake.error().what);
    std::string unsuited = life_.unsuited();
    if (!unsuited.empty())
      return say(out::Unsuited{gpu, unsuited.substr(0, managed::kMaxReasonBytes)});
    return say(out::Failed{awake.error().what.substr(0, managed::kMaxReasonBytes)});
  }
  said_cannot_return_ = evicted_ = false;
  kept_ = 0;
  gpu_ = gpu;
  changed_.notify_all();  // an API that waits to be started
  say(out::MigDone{used()});
}

// Nobody says where there is room: where it was, as soon as there is.
void ManagerClient::come_back_alone() {
  Result<> awake = wake(gpu_);
  std::lock_guard lock(mutex_);
  next_return_ = Clock::now() + kReturnPause;
  if (!awake) return complain(said_cannot_return_, "come back yet", awake.error().what);
  said_cannot_return_ = evicted_ = false;
  kept_ = 0;
}

// ---- this process's

ManagerClient *get() {
  if (::secure_getenv(managed::kSocketVariable) == nullptr) return nullptr;
  agent::Agent *agent = agent::Agent::running();
  if (agent == nullptr) {
    Result<agent::Agent *> started = agent::Agent::get();
    if (!started) return nullptr;
    agent = *started;
  }
  return &agent->manager;
}

}  // namespace ckpt::manager_client
