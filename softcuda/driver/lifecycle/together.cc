// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/lifecycle/together.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "softcuda/broker/protocol.h"

namespace ckpt::softcuda::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPause{5};

// The beginning of the files' paths. Empty: the setting is off.
std::string files() {
  if (std::getenv("CKPT_SOFTCUDA_TOGETHER") == nullptr) return {};
  const char *set = std::getenv("CKPT_SOFTCUDA");
  Result<broker::Configuration> c = broker::parse_configuration(set == nullptr ? "" : set);
  Result<std::string> path = c ? broker::socket_path(*c) : Result<std::string>(Failure(c.error()));
  return path ? *path + ".away." : std::string();
}

// A process that has ended leaves its file.
bool other_is_away(const fs::path &beginning) {
  std::string name = beginning.filename();
  std::error_code ec;
  for (const fs::directory_entry &entry : fs::directory_iterator(beginning.parent_path(), ec)) {
    std::string file = entry.path().filename();
    if (!file.starts_with(name)) continue;
    pid_t pid = std::atoi(file.c_str() + name.size());
    if (pid != ::getpid() && ::kill(pid, 0) == 0) return true;
  }
  return false;
}

}  // namespace

void note_away(bool away) {
  std::string beginning = files();
  if (beginning.empty()) return;
  std::string file = beginning + std::to_string(::getpid());
  if (away)
    UniqueFd made(::open(file.c_str(), O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
  else
    ::unlink(file.c_str());
}

bool wait_for_others(std::chrono::milliseconds limit) {
  std::string beginning = files();
  auto end = Clock::now() + limit;
  while (!beginning.empty() && other_is_away(beginning)) {
    if (limit.count() != 0 && Clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace ckpt::softcuda::driver
