// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/participant.h"

#include "agent/participant/participant.h"
#include "remote/cuda/client/link.h"

namespace ckpt::remote::cuda {
namespace {

constexpr const char *kBlocker =
    "it uses a CUDA device of another node, which cannot be checkpointed yet; a program on an "
    "OpenCL device of another node, or on CUDA devices of this one, can be";

class RemoteCuda final : public agent::Participant {
 public:
  const char *name() const override { return "cuda"; }
  void preflight(std::vector<std::string> &blockers) override { blockers.emplace_back(kBlocker); }
  Result<> quiesce(std::chrono::steady_clock::time_point) override { return refusal(); }
  Result<> save(agent::Sink &) override { return refusal(); }
  std::string requirements() override { return "{}"; }
  Result<> detach() override { return refusal(); }
  Result<> attach_again() override { return {}; }
  Result<> attach(const std::string &) override { return refusal(); }
  Result<> load(agent::Source &) override { return refusal(); }
  void resume() override {}
  bool exclude(const void *) override { return false; }
  void forked() override { link().forked(); }

 private:
  static Failure refusal() { return fail("{}", kBlocker); }
};

}  // namespace

Result<> join_session(const std::function<Result<>()> &start) {
  // Lives as long as the process.
  static RemoteCuda *const kParticipant = new RemoteCuda;
  Result<> opened = fail("the session does not answer");
  Result<> joined = agent::start_participant(kParticipant, [&] {
    opened = start();
    return opened.has_value();
  });
  return joined ? opened : joined;
}

}  // namespace ckpt::remote::cuda
