// SPDX-License-Identifier: Apache-2.0
#include "tools/job/crew.h"

#include <poll.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/printable.h"
#include "tools/job/tcp.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectTimeout = 3s, kWelcomeTimeout = 10s;
constexpr auto kBusyTimeout = 10s;  // a member may be ending an earlier checkpoint
constexpr auto kAliveInterval = 1s;
constexpr int kCrewPollMilliseconds = 100;

}  // namespace

// The greeting shows that the peer is ckpt of this version; the answer shows that it has the key
// and is the intended member: two nodes can have the same address, for example in networks of
// containers.
Result<Channel> Crew::welcomed(const std::string &member, const std::string &address, u16 port,
                               const Begin &begin) {
  CKPT_TRY(UniqueFd socket, connect_tcp(address, port, kConnectTimeout));
  CKPT_TRY(Channel c, Channel::open(std::move(socket), folder_.key(), Channel::Side::Coordinator));
  CKPT_CHECK(c.send(static_cast<u16>(JobMessage::Begin), encode(begin)));
  CKPT_TRY(Channel::Frame f, c.receive(Clock::now() + kWelcomeTimeout));
  Reader r = f.reader();
  std::string_view answer = r.str();
  if (f.type == static_cast<u16>(JobMessage::Failed)) return fail("{}", printable(answer, 500));
  if (f.type != static_cast<u16>(JobMessage::Welcome) || !r.done() || answer != member)
    return fail("another program listens there");
  return c;
}

Result<> Crew::add(const std::string &member, const MemberAddress &at, Begin begin) {
  begin.member = member;
  Error last{"it has no address", ""};
  for (auto end = Clock::now() + kBusyTimeout;;) {
    for (const std::string &address : at.addresses) {
      CKPT_CHECK(check_());
      say_alive();
      Result<Channel> c = welcomed(member, address, at.port, begin);
      if (c) {
        names_.push_back(member);
        channels_.push_back(std::move(*c));
        return {};
      }
      last = std::move(c.error());
      last.what = fmt::format("{} port {}: {}", printable(address), at.port, last.what);
    }
    if (Clock::now() > end || at.addresses.empty()) break;
    std::this_thread::sleep_for(200ms);
  }
  return fail_with_hint(
      fmt::format("member {} of the job cannot be reached: {}", member, last.what),
      fmt::format("if its ckpt-run or its node has failed, end the job; if it has ended, remove {}",
                  folder_.member_file(member)));
}

Result<Reached> Crew::next_of(size_t i, Stage stage) {
  auto named = [&](Error e) { return Failure(std::move(e).in("member " + names_[i])); };
  Result<Channel::Frame> f = channels_[i].receive(Clock::now() + kWelcomeTimeout);
  if (!f) return named(std::move(f.error()));
  if (f->type == static_cast<u16>(JobMessage::Failed)) {
    Reader r = f->reader();
    std::string what(r.str()), hint(r.str());
    return named({std::move(what), std::move(hint)});
  }
  std::optional<Reached> reached = parse_reached(f->body);
  if (f->type != static_cast<u16>(JobMessage::Reached) || !reached || reached->stage != stage)
    return named({"it has sent an unexpected message", ""});
  return std::move(*reached);
}

Result<std::vector<Reached>> Crew::gather(Stage stage) {
  std::vector<Reached> all(channels_.size());
  std::vector<pollfd> waiting;
  for (const Channel &c : channels_) waiting.push_back({c.descriptor(), POLLIN, 0});
  for (size_t left = all.size(); left > 0;) {
    CKPT_CHECK(check_());
    say_alive();
    if (::poll(waiting.data(), waiting.size(), kCrewPollMilliseconds) <= 0) continue;
    for (size_t i = 0; i < waiting.size(); i++) {
      if (!waiting[i].revents) continue;
      CKPT_TRY(all[i], next_of(i, stage));
      waiting[i].fd = -1;  // poll(2) passes it over
      waiting[i].revents = 0;
      left--;
    }
  }
  return all;
}

void Crew::say_alive() {
  if (Clock::now() - alive_ < kAliveInterval) return;
  alive_ = Clock::now();
  for (Channel &c : channels_) (void)c.send(static_cast<u16>(JobMessage::Alive));
}

Result<> Crew::go(Stage stage) {
  for (size_t i = 0; i < channels_.size(); i++)
    if (Result<> sent =
            channels_[i].send(static_cast<u16>(JobMessage::Go), Writer().put(stage).bytes());
        !sent)
      return Failure(std::move(sent.error()).in("member " + names_[i]));
  return {};
}

void Crew::go_all(Stage stage) {
  for (Channel &c : channels_)
    (void)c.send(static_cast<u16>(JobMessage::Go), Writer().put(stage).bytes());
}

void Crew::abort(const std::string &why) {
  for (Channel &c : channels_)
    (void)c.send(static_cast<u16>(JobMessage::Abort), Writer().str(why).bytes());
}

}  // namespace ckpt::tools
