// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_member.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>

#include "common/base/log.h"
#include "tools/job/ends.h"
#include "tools/job/tcp.h"
#include "tools/session/batch_names.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kPauseAfterStranger = 1s;

}  // namespace

Option add_job_options(CommandLine &line, JobOptions &o) {
  Option job = line.option(
      "--job=FOLDER", o.folder,
      "the folder of a job of several programs, which are checkpointed as one; %j in it "
      "is the batch job's number");
  line.option("--member=NAME", o.member,
              "with --job: this program's name in the job; %t in it is the task's number")
      .needs(job)
      .default_is("the host's name");
  return job;
}

Result<> complete(JobOptions &o) {
  CKPT_TRY(o.folder, with_batch_names("--job", o.folder));
  CKPT_TRY(o.member, with_batch_names("--member", o.member));
  o.folder = std::filesystem::absolute(o.folder).lexically_normal().string();
  if (o.member.empty()) o.member = usual_member_name();
  return {};
}

Result<std::unique_ptr<JobMember>> JobMember::join(JobOptions o, const Restoring &restoring) {
  CKPT_TRY(JobFolder folder, JobFolder::create(o.folder));
  std::unique_ptr<JobMember> m(new JobMember(std::move(o), std::move(folder)));
  CKPT_TRY(auto listening, listen_tcp(restoring.ports));
  m->listener_ = std::move(listening.first);
  m->port_ = listening.second;
  MemberAddress here{own_addresses(), m->port_, restoring.checkpoint, m->options_.programs,
                     this_batch_start()};
  CKPT_TRY(m->registration_, Registration::make(m->folder_, m->options_.member, here));
  forget_end(m->folder_, m->name());
  m->restoring_ = restoring.checkpoint != 0;
  return m;
}

void JobMember::serve(Keeper &keeper) {
  keeper_ = &keeper;
  if (restoring_)
    if (Result<> done = registration_.change({own_addresses(), port_, 0}); !done)
      return log::warn("the job cannot be checkpointed: {}", done.error().text());
  keeper.watch(listener(), [this] {
    accept();
    return true;
  });
}

void JobMember::program_ended(int status) {
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (Result<> noted = note_end(folder_, name(), code, this_batch_start()); !noted)
    log::warn("the job's folder does not say that this program has ended: {}",
              noted.error().text());
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
