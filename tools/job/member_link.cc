// SPDX-License-Identifier: Apache-2.0
#include "tools/job/member_link.h"

#include <poll.h>

#include "common/base/clock.h"
#include "common/base/printable.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeginTimeout = 5s;
// The coordinator sends Alive once a second.
constexpr auto kSilence = 30s;
constexpr int kMemberPollMilliseconds = 100;
constexpr size_t kMaxWhyBytes = 4000;

}  // namespace

Result<MemberLink> MemberLink::accept(Channel c, const std::string &member, Task task) {
  CKPT_TRY(Channel::Frame f, c.receive(Clock::now() + kBeginTimeout));
  std::optional<Begin> begin = parse_begin(f.body);
  if (f.type != static_cast<u16>(JobMessage::Begin) || !begin)
    return fail("the coordinator of the job has not sent a task");
  MemberLink link(std::move(c), std::move(*begin));
  Error wrong;
  if (link.begin_.member != member)
    wrong.what = fmt::format("this is member {}", member);
  else if (link.begin_.task != task)
    wrong.what =
        task == Task::Dump ? "the program is already running" : "the program is not running yet";
  if (!wrong.what.empty()) {
    link.failed(wrong);
    return Failure(wrong);
  }
  CKPT_CHECK(
      link.channel_.send(static_cast<u16>(JobMessage::Welcome), Writer().str(member).bytes()));
  return link;
}

void MemberLink::reached(const Reached &reached) {
  (void)channel_.send(static_cast<u16>(JobMessage::Reached), encode(reached));
}

void MemberLink::failed(const Error &why) {
  Writer w;
  w.str(why.what).str(why.hint);
  (void)channel_.send(static_cast<u16>(JobMessage::Failed), w.bytes());
}

Result<> MemberLink::meet(const Reached &reached, const Check &check) {
  CKPT_CHECK(channel_.send(static_cast<u16>(JobMessage::Reached), encode(reached)));
  Result<> met = wait(reached.stage, check);
  if (met) return met;
  Error e = met.error();
  return fail_with_hint("the job gives up: " + e.what, e.hint);
}

Result<> MemberLink::wait(Stage stage, const Check &check) {
  for (auto end = Clock::now() + kSilence;;) {
    CKPT_CHECK(check());
    pollfd p{channel_.descriptor(), POLLIN, 0};
    if (::poll(&p, 1, kMemberPollMilliseconds) <= 0) {
      if (Clock::now() > end) return fail("its coordinator no longer answers");
      continue;
    }
    Result<Channel::Frame> f = channel_.receive(end);
    if (!f) return Failure(std::move(f.error()).in("the connection to its coordinator is lost"));
    end = Clock::now() + kSilence;
    Reader r = f->reader();
    switch (static_cast<JobMessage>(f->type)) {
      case JobMessage::Alive: continue;
      case JobMessage::Go:
        if (r.get<Stage>() == stage && r.done()) return {};
        break;
      case JobMessage::Abort: return fail("{}", printable(r.str(), kMaxWhyBytes));
      default: break;
    }
    return fail("its coordinator has sent an unexpected message");
  }
}

}  // namespace ckpt::tools
