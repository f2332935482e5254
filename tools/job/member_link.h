// SPDX-License-Identifier: Apache-2.0
//
// The coordinator of a job, as a member sees it.
#pragma once

#include <functional>

#include "tools/job/channel.h"
#include "tools/job/job_folder.h"
#include "tools/job/messages.h"

namespace ckpt::tools {

class MemberLink {
 public:
  using Check = std::function<Result<>()>;

  // Of a connection to `member` that was just accepted. Nothing is done for a peer without the key.
  static Result<MemberLink> accept(UniqueFd socket, const JobFolder &folder,
                                   const std::string &member, Task task);

  const Begin &task() const { return begin_; }
  // Says that this member has reached a stage, and waits until all have. An error: the job gives
  // up, or the coordinator is lost, which a coordinator that only waits for others is not.
  Result<> meet(const Reached &reached, const Check &check);
  // Says so without waiting.
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
