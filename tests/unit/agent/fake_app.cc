// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "tests/unit/agent/fake.h"

namespace ckpt::test {

Result<> FakeParticipant::step(const std::string &verb) {
  app_.say(name_ + ("." + verb));
  if (verb == fails_at.load()) return fail_with_hint("told to fail", "do not tell");
  return {};
}

void FakeParticipant::preflight(std::vector<std::string> &reasons) {
  if (!reason.empty()) reasons.push_back(reason);
}

Result<> FakeParticipant::quiesce(std::chrono::steady_clock::time_point deadline) {
  app_.need(deadline > std::chrono::steady_clock::now(), "a deadline in the future");
  gate_.close();
  app_.need(gate_.wait_empty(deadline), "no call inside at the deadline");
  if (on_quiesce) on_quiesce();
  return step("quiesce");
}

void FakeParticipant::write(const std::string &region, const std::string &contents) {
  gate_.enter();
  memory[region] = contents;
  gate_.leave();
}

Result<> FakeParticipant::save(Sink &sink) {
  CKPT_CHECK(step("save"));
  bool increment = last_image != ImageId{} && sink.parent() == last_image;
  Memory before = std::exchange(at_last_save, memory);
  last_image = sink.image();
  for (auto &[region, contents] : memory) {
    if (increment && before.contains(region) && before[region] == contents) {
      CKPT_CHECK(sink.same(region, contents.size()));
      continue;
    }
    CKPT_TRY(u32 number, sink.region(region, contents.size()));
    for (size_t at = 0; at < contents.size(); at += sink.slot_bytes()) {
      CKPT_TRY(Slot slot, sink.acquire());
      size_t n = contents.copy(reinterpret_cast<char *>(slot.data), sink.slot_bytes(), at);
      CKPT_CHECK(sink.put(number, at, slot, static_cast<u32>(n)));
    }
  }
  return {};
}

Result<> FakeParticipant::detach() {
  if (on_detach) on_detach();
  Result<> done = step("detach");
  if (done) on_devices_ = false;
  return done;
}

Result<> FakeParticipant::release_memory() {
  if (!has_depths) return detach();
  on_devices_ = true;
  return step("release_memory");
}

Result<> FakeParticipant::use_devices(std::span<const DevicePair> map) {
  std::string all;
  for (const DevicePair &p : map) all += " " + p.from + "=" + p.to;
  return step("use" + all);
}

Result<> FakeParticipant::attach(const std::string &session) {
  app_.need(session == session_socket(), "the new session");
  on_devices_ = false;
  return step("attach");
}

// The contents come over the socket at once, and are one message.
std::vector<bool> FakeParticipant::load_later(std::span<const LaterRegion> regions, int socket) {
  (void)step("load_later");
  std::vector<bool> taken;
  for (const LaterRegion &r : regions) {
    taken.push_back(r.name == later && r.bytes == memory[r.name].size());
    if (taken.back()) (void)send_message(socket, 1, view(r.name));
  }
  return taken;
}

Result<> FakeParticipant::load(Source &source) {
  CKPT_CHECK(step("load"));
  if (loads_nothing) return step("loaded");
  Memory loaded;
  // A region without bytes has no pieces.
  for (auto &[region, contents] : memory)
    if (contents.empty() || region == later) loaded[region] = contents;
  for (Source::Piece piece;;) {
    CKPT_TRY(bool more, source.next(piece));
    if (!more) break;
    std::string &contents = loaded[piece.region];
    contents.resize(std::max<size_t>(contents.size(), piece.offset + piece.bytes));
    if (piece.zeros) continue;
    std::memcpy(contents.data() + piece.offset, piece.slot.data, piece.bytes);
    CKPT_CHECK(source.release(piece.slot));
  }
  if (loaded != memory) return fail("loaded memory differs");
  return step("loaded");
}

void FakeParticipant::forked() { app_.forked(name_); }

void App::say(const std::string &line) {
  std::string whole = line + "\n";
  if (::write(events_, whole.data(), whole.size()) < 0) ::_exit(3);
}

void App::forked(const char *name) {
  (void)name;
  need(::write(events_, "forked\n", 7) == 7, "a pipe");
}

std::string App::hear() {
  std::string line;
  for (char c; ::read(commands_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void App::wait_for_end() {
  while (!hear().empty()) {
  }
}

void App::need(bool holds, const char *what) {
  if (holds) return;
  say(std::string("BAD: ") + what);
  ::_exit(2);
}

void App::start() {
  need(add_participant(&one).has_value(), "participant one");
  need(add_participant(&two).has_value(), "participant two");
  say("ready");
}

void run_idle(App &app) {
  app.start();
  app.wait_for_end();
}

}  // namespace ckpt::test
