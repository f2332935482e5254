// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_member.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "tools/job/tcp.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kPauseAfterStranger = 1s;

}  // namespace

void add_job_options(CommandLine &line, JobOptions &o) {
  Option job = line.option("--job=FOLDER", o.folder,
                           "the folder of a job of several programs, which are checkpointed as one");
  line.option("--member=NAME", o.member, "with --job: this program's name in the job")
      .needs(job)
      .default_is("the host's name");
}

Result<std::unique_ptr<JobMember>> JobMember::join(JobOptions o, unsigned restoring) {
  if (o.member.empty()) o.member = usual_member_name();
  CKPT_TRY(JobFolder folder, JobFolder::create(o.folder));
  std::unique_ptr<JobMember> m(new JobMember(std::move(o), std::move(folder)));
  CKPT_TRY(auto listening, listen_tcp());
  m->listener_ = std::move(listening.first);
  m->port_ = listening.second;
  CKPT_CHECK(m->register_as(restoring));
  return m;
}

Result<> JobMember::register_as(unsigned restoring) {
  registration_ = {};
  CKPT_TRY(registration_, Registration::make(folder_, options_.member,
                                             {own_addresses(), port_, restoring}));
  return {};
}

void JobMember::serve(Keeper &keeper) {
  keeper_ = &keeper;
  keeper.watch(listener(), [this] {
    accept();
    return true;
  });
}

void JobMember::accept() {
  UniqueFd peer(::accept4(listener(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer || serving_ || Clock::now() < not_before_ || !keeper_->accepts_dumps()) return;
  std::string fd = std::to_string(peer.get());
  Result<> started = keeper_->start_dump(
      {"--job", folder_.path(), "--member", name(), "--connection", fd}, folder_.path(),
      [this](int status, const nlohmann::json &) { ended(status); }, {peer.get()});
  if (!started) return log::warn("cannot start ckpt-dump: {}", started.error().what);
  serving_ = true;
}

void JobMember::ended(int wait_status) {
  serving_ = false;
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kNotOfTheJob)
    not_before_ = Clock::now() + kPauseAfterStranger;
}

}  // namespace ckpt::tools
