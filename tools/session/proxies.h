// SPDX-License-Identifier: Apache-2.0
//
// The driver proxies of one session: processes beside the program, never inside its tree, that hold
// the real drivers (design decision 1). They live and die with the keeper.
#pragma once

#include <sys/types.h>

#include <list>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/device/device.h"

namespace ckpt::tools {

class Proxies {
 public:
  Proxies(DeviceChoice choice, bool portable) : choice_(std::move(choice)), portable_(portable) {}
  Proxies(const Proxies &) = delete;
  ~Proxies() { kill_all(); }

  // Starts a proxy of `api` that serves `connection` and prints to `out` and `err`; of `device`
  // alone, where one is given in the place of what was chosen.
  Result<> start(const std::string &api, int connection, int out, int err,
                 const std::optional<std::string> &device = {});
  // Hands `connection` to the proxy that is parked under `token`.
  Result<> adopt(u64 token, int connection);
  // Ends the proxy that is parked under `token`: nobody will come back to it.
  Result<> drop(u64 token);
  // For proxies that are started from now on.
  void choose(DeviceChoice choice) { choice_ = std::move(choice); }
  // A child of ours has ended; true if it was a proxy.
  bool reaped(pid_t pid);
  bool any() const { return !all_.empty(); }
  void kill_all();

 private:
  struct Proxy {
    pid_t pid;
    u64 token;
    UniqueFd control;
  };
  DeviceChoice choice_;
  bool portable_;
  u64 last_token_ = 0;
  std::list<Proxy> all_;
};

}  // namespace ckpt::tools
