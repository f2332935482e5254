// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/job_member.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/proc/file.h"
#include "tools/json_text.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryInterval = 1s;
constexpr size_t kMaxState = 16u << 10;  // tools/job/opening.h

// A machine's boot and a network namespace of it.
std::string this_node() {
  std::string boot = proc::text_of_machine("sys/kernel/random/boot_id");
  return fmt::format("{}-{}", boot.substr(0, boot.find('\n')), namespace_of(::getpid(), "net"));
}

Result<Channel> channel_of(const JobConnectionOptions &o, UniqueFd connection,
                           const storage::Key &key) {
  if (!o.greeted) return Channel::open(std::move(connection), key, Channel::Side::Member);
  UniqueFd file(*o.greeted);
  Bytes state(kMaxState);
  CKPT_TRY(size_t n, read_at(file.get(), state, 0));
  return Channel::resume(std::move(connection), key, ByteView(state).first(n));
}

}  // namespace

Result<std::unique_ptr<JobMemberDump>> accept_job(const JobConnectionOptions &o, Cancel &cancel) {
  UniqueFd connection(*o.connection);
  ::fcntl(connection.get(), F_SETFD, FD_CLOEXEC);  // CRIU must not keep it open
  CKPT_TRY(JobFolder folder, JobFolder::open(o.folder));
  CKPT_TRY(Channel channel, channel_of(o, std::move(connection), folder.key()));
  CKPT_TRY(MemberLink link, MemberLink::accept(std::move(channel), o.member, Task::Dump));
  return std::make_unique<JobMemberDump>(std::move(folder), std::move(link), cancel);
}

void JobMemberDump::configure(DumpOptions &o) {
  const Begin &b = link_.task();
  o.image = folder_.image(b.checkpoint, b.member);
  o.leave_running = !b.stop;
  o.timeout_seconds = static_cast<int>(b.timeout_seconds);
  o.barriers = this;
  // The folder of a failed checkpoint is removed.
  o.criu_log = fmt::format("{}/{}.criu.log", folder_.path(), b.member);
}

Result<> JobMemberDump::meet(Stage stage, std::vector<JobConnection> connections) {
  Reached r{.stage = stage, .node = this_node(), .connections = std::move(connections)};
  return link_.meet(r, [this] { return cancel_.check(); });
}

Result<> JobMemberDump::ready(const Connections &now, const std::set<pid_t> &may_close) {
  return meet(Stage::Ready, now.outward(may_close));
}
Result<> JobMemberDump::settled() { return meet(Stage::Settled); }
Result<> JobMemberDump::locked(const Connections &stopped) {
  return meet(Stage::Locked, stopped.outward({}));
}
Result<> JobMemberDump::captured() { return meet(Stage::Captured); }

// Once this member has said that its image is durable, only the decision counts: the coordinator
// may have written it before it was lost.
Result<> JobMemberDump::durable() {
  Result<> met = meet(Stage::Durable);
  if (met) return met;
  for (;;) {
    Result<bool> complete = ask_decision(met.error());
    if (complete && *complete) return {};
    if (complete) return met;
    log::warn("cannot find out whether the job's checkpoint is complete; trying again: {}",
              complete.error().what);
    std::this_thread::sleep_for(kRetryInterval);
  }
}

Result<bool> JobMemberDump::ask_decision(const Error &why) {
  unsigned n = link_.task().checkpoint;
  std::error_code ec;
  // Only abandoned images are removed.
  if (!std::filesystem::exists(folder_.checkpoint(n), ec) && !ec) return false;
  CKPT_TRY(nlohmann::json decision, decide(folder_.decision(n), abandoned(why.what)));
  return is_complete(decision);
}

void JobMemberDump::report(const Result<DumpReport> &r) {
  if (!r) return link_.failed(r.error());
  Reached done{.stage = Stage::Done};
  done.report = json_text({{"pid", r->pid},
                           {"processes", r->processes},
                           {"bytes", r->stats.raw_bytes},
                           {"stored_bytes", r->stats.stored_bytes},
                           {"pause_seconds", r->pause_seconds},
                           {"durable_seconds", r->durable_seconds}});
  link_.reached(done);
}

}  // namespace ckpt::tools
