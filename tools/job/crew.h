// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's view of the members of a job. It leads them from stage to stage, and no member
// proceeds before all have reached the stage.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tools/job/channel.h"
#include "tools/job/job_folder.h"
#include "tools/job/messages.h"

namespace ckpt::tools {

class Crew {
 public:
  // Called several times a second. Fails when the coordinator has to cancel.
  using Check = std::function<Result<>()>;

  Crew(const JobFolder &folder, Check check) : folder_(folder), check_(std::move(check)) {}

  // Connects to a member, and tells it what to do.
  Result<> add(const std::string &member, const MemberAddress &at, Begin begin);
  // Waits until all have reached `stage`. The order is that of add().
  Result<std::vector<Reached>> gather(Stage stage);
  // All have reached the stage and may proceed.
  Result<> go(Stage stage);
  // The same, to all members that can still be reached.
  void go_all(Stage stage);
  void abort(const std::string &why);
  // At most once a second. A member that hears nothing for 30 s gives up, so this is called
  // wherever the coordinator may need long.
  void say_alive();

  const std::vector<std::string> &names() const { return names_; }

 private:
  Result<Channel> welcomed(const std::string &member, const std::string &address, u16 port,
                           const Begin &begin);
  Result<Reached> next_of(size_t i, Stage stage);

  const JobFolder &folder_;
  Check check_;
  std::vector<std::string> names_;
  std::vector<Channel> channels_;
  Clock::time_point alive_{};
};

}  // namespace ckpt::tools
