// SPDX-License-Identifier: Apache-2.0
//
// What a process of the program has done that makes every checkpoint of it fail, and that its user
// can avoid by starting it otherwise: it has loaded a device driver past ckpt, or libc keeps a
// connection to a name service. Said while the program starts, and not only when an image is
// needed. Looks after a second, and then at intervals that double.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

class EarlyWarnings {
 public:
  static Result<std::unique_ptr<EarlyWarnings>> start(Keeper &keeper,
                                                      const ProgramEnvironment &environment);

 private:
  EarlyWarnings(Keeper &keeper, std::string cuda_library)
      : keeper_(keeper), cuda_library_(std::move(cuda_library)) {}
  void look();
  void look_at_drivers(const Process &p);
  void look_at_name_services(const Process &p);
  void say(const Process &p, const std::string &what, const std::string &remedy);
  void arm();

  Keeper &keeper_;
  std::string cuda_library_;  // ckpt's; a process that has it may have the driver too
  UniqueFd timer_;
  std::chrono::seconds interval_{1};
  std::set<std::string> said_;  // files and sockets
};

}  // namespace ckpt::tools
