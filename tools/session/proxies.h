// SPDX-License-Identifier: Apache-2.0
//
// The proxies of one session: processes that hold the real drivers. They are children of the
// keeper, outside of the program's process tree, so that CRIU never sees a driver. They end with
// the keeper.
#pragma once

#include <sys/types.h>

#include <list>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/device/device.h"
#include "tools/device/environment.h"

namespace ckpt::tools {

class Proxies {
 public:
  Proxies(DeviceChoice choice, bool portable, ProgramEnvironment program)
      : choice_(std::move(choice)), portable_(portable), program_(std::move(program)) {}
  Proxies(const Proxies &) = delete;
  ~Proxies() { kill_all(); }

  struct Request {
    std::string api;
    int connection;  // the proxy serves it
    int out, err;    // its standard streams
    // The only ones to offer, separated by commas; none: the chosen devices.
    std::optional<std::string> device;
    int folder = -1;       // its working folder; -1: ours
    int environment = -1;  // a file with the program's environment; -1: ours
  };
  Result<> start(const Request &request);
  // Passes `connection` to the parked proxy `token`.
  Result<> adopt(u64 token, int connection);
  // Ends the parked proxy `token`, which no program will use again.
  Result<> drop(u64 token);
  // Takes effect for proxies that are started later.
  void choose(DeviceChoice choice) { choice_ = std::move(choice); }
  // The IDs of the API's devices; none: all of them.
  std::vector<std::string> chosen(const std::string &api) const {
    auto found = choice_.find(api);
    return found == choice_.end() ? std::vector<std::string>() : found->second;
  }
  // A child of the keeper has ended. Returns true if it was a proxy.
  bool reaped(pid_t pid);
  bool any() const { return !all_.empty(); }
  bool has(pid_t pid) const;
  // No process of the program is left: parked proxies end. The others end by themselves, once they
  // have passed on what the devices printed.
  void release_parked();
  void kill_all();

 private:
  struct Proxy {
    pid_t pid;
    u64 token;
    UniqueFd control;
  };
  DeviceChoice choice_;
  bool portable_;
  ProgramEnvironment program_;  // what was changed for the program
  u64 last_token_ = 0;
  std::list<Proxy> all_;
};

}  // namespace ckpt::tools
