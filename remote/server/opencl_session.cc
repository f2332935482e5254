// SPDX-License-Identifier: Apache-2.0
#include "remote/server/opencl_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "common/ipc/unix_socket.h"
#include "remote/transport/packed_stream.h"

namespace ckpt::remote {
namespace {

constexpr size_t kMaxName = 4u << 10;
constexpr size_t kMaxNoted = 16u << 10;  // ckpt-devd takes no note above 64 KiB

Failure devices_changed() {
  return fail_with_hint("the OpenCL devices of that node have changed since this program saw them",
                        "start the program again");
}

}  // namespace

OpenClSession::OpenClSession(Connection &connection, int daemon, const ProxyStarter &starter,
                             std::vector<std::string> arguments)
    : connection_(connection),
      daemon_(daemon),
      starter_(starter),
      arguments_(std::move(arguments)),
      devices_(fmt::format("{}", fmt::join(arguments_, "\n"))) {
  if (devices_.size() > kMaxName) devices_.clear();
}

Result<> OpenClSession::run() {
  CKPT_CHECK(greet());
  ByteView first;
  if (!proxy_) {
    CKPT_TRY(first, answer_questions());
    if (first.empty()) return {};
    if (Result<> started = start_late(); !started) {
      (void)connection_.send(Frame::Ended, Writer().str(started.error().text()).bytes());
      return started;
    }
  }
  MemoryAccount account(
      [this](i64 change) { return ask(Note::Memory, Writer().put(change).bytes()).has_value(); });
  auto record = [this](ByteView key, const RingClient::Reply &answer) {
    if (key.size() + answer.bytes.size() > kMaxNoted) return;
    report(Note::Answered, about_devices().blob(key).put(answer.status).blob(answer.bytes));
  };
  // Never destroyed: its threads run until the process ends.
  auto *relay = new FarRelay(connection_, std::move(*proxy_), std::move(account),
                             std::move(questions_), record);
  return relay->run(first);
}

// Without anything known, the proxy is needed at once.
Result<> OpenClSession::greet() {
  if (!devices_.empty()) {
    CKPT_TRY(Bytes known, ask(Note::Known, about_devices().bytes()));
    known_ = Inventory::read(Reader(known));
  }
  if (known_.platforms.empty()) CKPT_CHECK(start_proxy());
  CKPT_CHECK(connection_.send(Frame::Greeting, proxy_ ? platforms_ : known_.platforms));
  pack(connection_);
  return {};
}

// Returns the first command that needs the proxy; empty: the program has hung up.
Result<ByteView> OpenClSession::answer_questions() {
  for (;;) {
    Result<Connection::Received> frame = connection_.receive();
    if (!frame && connection_.ended()) return ByteView();
    if (!frame) return Failure(frame.error());
    if (frame->type != Frame::Command || frame->body.size() < sizeof(ocl::CommandHeader))
      return fail("the program sent a frame out of place");
    Questions before = questions_;
    CKPT_TRY(bool answered, answer(frame->body));
    if (answered) continue;
    questions_ = std::move(before);  // the relay judges the command, too
    return frame->body;
  }
}

Result<bool> OpenClSession::answer(ByteView command) {
  ocl::CommandHeader h;
  std::memcpy(&h, command.data(), sizeof h);
  std::optional<Bytes> key = questions_.key(h, command.subspan(sizeof h));
  auto known = key ? known_.answers.find(*key) : known_.answers.end();
  if (known == known_.answers.end()) return false;
  if (std::ranges::find(told_, *key) == told_.end()) told_.push_back(*key);
  Connection::Batch reply;
  add_reply(reply, known->second.status, known->second.bytes);
  CKPT_CHECK(connection_.send(reply));
  return true;
}

Result<> OpenClSession::start_proxy() {
  CKPT_TRY(auto client, socket_pair());
  CKPT_TRY(auto control, socket_pair());
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) < 0) return fail_errno("cannot make a pipe");
  UniqueFd output(out[0]), output_end(out[1]);
  if (::pipe2(err, O_CLOEXEC) < 0) return fail_errno("cannot make a pipe");
  UniqueFd errors(err[0]), errors_end(err[1]);
  CKPT_TRY(pid_t pid, starter_.start(arguments_, client.second.get(), control.second.get(),
                                     output_end.get(), errors_end.get()));
  (void)pid;  // it ends with this process
  for (UniqueFd *fd : {&client.second, &output_end, &errors_end}) fd->reset();
  CKPT_TRY(RingClient ring, RingClient::greet(std::move(client.first), platforms_));
  control_ = std::move(control.first);
  proxy_.emplace(FarRelay::Proxy{std::move(ring), std::move(output), std::move(errors)});
  report(Note::Greeted, about_devices().blob(platforms_));
  return {};
}

Result<> OpenClSession::start_late() {
  CKPT_CHECK(start_proxy());
  Result<> same =
      std::ranges::equal(platforms_, known_.platforms) ? compare_answers() : devices_changed();
  if (!same) report(Note::Changed, about_devices());
  return same;
}

// MapDevices is the first one, without which the others mean nothing.
Result<> OpenClSession::compare_answers() {
  for (const Bytes &key : told_) {
    Question q = question_of(key);
    CKPT_TRY(RingClient::Reply now, proxy_->ring.round_trip(q.op, q.payload));
    if (Inventory::Answer{now.status, std::move(now.bytes)} != known_.answers.at(key))
      return devices_changed();
  }
  return {};
}

Result<Bytes> OpenClSession::ask(Note note, ByteView body) {
  std::lock_guard lock(daemon_mutex_);
  return ask_daemon(daemon_, note, body);
}

void OpenClSession::report(Note note, const Writer &body) {
  std::lock_guard lock(daemon_mutex_);
  if (!devices_.empty()) (void)send_message(daemon_, static_cast<u16>(note), body.bytes());
}

Writer OpenClSession::about_devices() const {
  Writer w;
  w.str(devices_);
  return w;
}

}  // namespace ckpt::remote
