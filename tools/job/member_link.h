// SPDX-License-Identifier: Apache-2.0
//
// A member's connection to the coordinator of its job.
#pragma once

#include <functional>

#include "tools/job/channel.h"
#include "tools/job/job_folder.h"
#include "tools/job/messages.h"

namespace ckpt::tools {

class MemberLink {
 public:
  using Check = std::function<Result<>()>;

  // For a connection to `member` whose peer's key is checked, or will be with the first message.
  static Result<MemberLink> accept(Channel channel, const std::string &member, Task task);

  const Begin &task() const { return begin_; }
  // Reports that this member has reached a stage, and waits until all members have. Fails if the
  // job is cancelled, or if the coordinator no longer answers; while it waits for others, it sends
  // Alive.
  Result<> meet(const Reached &reached, const Check &check);
  // Reports it without waiting.
  void reached(const Reached &reached);
  void failed(const Error &why);

 private:
  MemberLink(Channel channel, Begin begin)
      : channel_(std::move(channel)), begin_(std::move(begin)) {}
  Result<> wait(Stage stage, const Check &check);

  Channel channel_;
  Begin begin_;
};

}  // namespace ckpt::tools
