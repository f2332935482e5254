// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/input.h"

#include <fcntl.h>
#include <linux/input.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// A device that is plugged in is found within this time.
constexpr std::chrono::seconds kLookEvery{5};

enum class Read { Nothing, Events, Gone };

// Accelerometers and lids have events of other types.
Read read_events(int fd, bool &used) {
  std::array<input_event, 64> events;
  ssize_t n = ::read(fd, events.data(), sizeof events);
  if (n == 0) return Read::Nothing;
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Read::Nothing : Read::Gone;
  for (size_t i = 0; i < static_cast<size_t>(n) / sizeof(input_event); i++)
    used |= events[i].type == EV_KEY || events[i].type == EV_REL;
  return Read::Events;
}

}  // namespace

Result<InputDevices> InputDevices::open(std::string folder) {
  InputDevices input(std::move(folder));
  input.look_for_new();
  if (input.devices_.empty())
    return fail_with_hint(fmt::format("--input: no device in {} can be read", input.folder_),
                          "run ckpt-idled as root or in the group input, or leave out --input");
  return input;
}

void InputDevices::look_for_new() {
  looked_ = Clock::now();
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec)) {
    std::string name = e.path().filename();
    if (!name.starts_with("event") || devices_.contains(name)) continue;
    UniqueFd fd(::open(e.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd) devices_[name] = std::move(fd);
  }
}

bool InputDevices::used() {
  constexpr int kMostReads = 100;  // of a device that never ends
  if (Clock::now() - looked_ >= kLookEvery) look_for_new();
  bool used = false;
  for (auto at = devices_.begin(); at != devices_.end();) {
    Read last = Read::Events;
    for (int i = 0; i < kMostReads && last == Read::Events; i++)
      last = read_events(at->second.get(), used);
    at = last == Read::Gone ? devices_.erase(at) : std::next(at);
  }
  return used;
}

}  // namespace ckpt::tools
