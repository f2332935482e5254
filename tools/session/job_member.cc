// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_member.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <filesystem>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/base/log.h"
#include "tools/job/ends.h"
#include "tools/job/tcp.h"
#include "tools/session/batch_names.h"

namespace ckpt::tools {
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
  CKPT_TRY(m->entrance_, Entrance::open(std::move(listening.first), m->folder_.key()));
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
    if (Result<> done = registration_.change(
            {own_addresses(), port_, 0, options_.programs, this_batch_start()});
        !done)
      return log::warn("the job cannot be checkpointed: {}", done.error().text());
  keeper.watch(entrance_->fd(), [this] {
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

// A coordinator that is not served now tries again.
void JobMember::accept() {
  for (Opening &opening : entrance_->turn(Clock::now())) {
    if (serving_ || !keeper_->accepts_dumps()) continue;
    Result<> started = start_dump(std::move(opening));
    if (!started) log::warn("cannot start ckpt-dump: {}", started.error().what);
    serving_ = started.has_value();
  }
}

Result<> JobMember::start_dump(Opening opening) {
  UniqueFd greeted(::memfd_create("ckpt-job-greeting", MFD_CLOEXEC));
  if (!greeted) return fail_errno("cannot make a file in memory");
  CKPT_CHECK(write_all(greeted.get(), opening.state()));
  UniqueFd peer = opening.take_socket();
  return keeper_->start_dump(
      {"--job", folder_.path(), "--member", name(), "--connection", std::to_string(peer.get()),
       "--greeted", std::to_string(greeted.get())},
      folder_.path(), [this](int, const nlohmann::json &) { serving_ = false; },
      {peer.get(), greeted.get()});
}

}  // namespace ckpt::tools
