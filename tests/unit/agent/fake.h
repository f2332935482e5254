// SPDX-License-Identifier: Apache-2.0
//
// The three sides of an agent test. A Subject is an application with two fake participants, in a
// process of its own (a connection of a tool in the same process would count as residue). Session
// stands in for ckpt-run, Tool for ckpt-dump and ckpt-restore.
//
// The subject reports its events as lines: "one.save" is a verb of participant `one`, "ready" and
// the like come from App::say(). The test reads them with Subject::next() and expect(), and
// controls the subject with tell(), which App::hear() receives.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/participant/gate.h"
#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::test {

using namespace agent;

using protocol::Outcome;
using protocol::State;
using protocol::Type;
using Memory = std::map<std::string, std::string>;  // region, contents

// ---- in the subject's process

class App;

class FakeParticipant : public Participant {
 public:
  FakeParticipant(App &app, const char *name) : app_(app), name_(name) {}
  const char *name() const override { return name_; }
  void preflight(std::vector<std::string> &reasons) override;
  Result<> quiesce(std::chrono::steady_clock::time_point deadline) override;
  Result<> save(Sink &sink) override;
  bool keeps_contents() const override { return keeps; }
  bool looks() const override { return looks_first; }
  bool loads_zeros() const override { return clears; }
  bool loads_places() const override { return places; }
  void release_devices() override { (void)step("release_devices"); }
  Result<> use_devices(std::span<const DevicePair> map) override;
  std::string requirements() override { return std::string("{\"api\":\"") + name_ + "\"}"; }
  Result<std::string> requirements_now() override {
    if (says_needs) return std::string("{\"now\":\"") + name_ + "\"}";
    return Participant::requirements_now();
  }
  std::optional<Traffic> traffic() const override {
    return counts ? std::optional(counter.read()) : std::nullopt;
  }
  u64 held_bytes() override {
    u64 bytes = 0;
    for (const auto &[region, contents] : memory) bytes += contents.size();
    return bytes;
  }
  Result<> lock() override { return step("lock"); }
  Result<> detach() override;
  Result<> release_memory() override;
  bool on_devices() const override { return on_devices_; }
  void undo_lock() override { (void)step("undo_lock"); }
  Result<> attach_again() override { return step("attach_again"); }
  Result<> attach(const std::string &session) override;
  Result<> load(Source &source) override;
  std::vector<bool> load_later(std::span<const LaterRegion> regions, int socket) override;
  void resume() override {
    (void)step("resume");
    if (on_resume) on_resume();
    gate_.open();
  }
  bool exclude(const void *handle) override { return handle == this; }
  bool include(const void *handle) override { return handle == this; }
  void forked() override;

  std::atomic<const char *> fails_at{""};  // the verb that fails; a string literal
  std::string reason;                      // a blocker for preflight()
  bool keeps = true;                       // keeps_contents()
  bool looks_first = false;                // looks()
  bool clears = false;                     // loads_zeros()
  bool places = false;                     // loads_places()
  bool has_depths = false;                 // release_memory() is not detach()
  std::string later;                       // the region that load_later() takes
  bool loads_nothing = false;              // load() succeeds at once, without reading pieces
  bool says_needs = false;                 // requirements_now()
  bool counts = false;                     // traffic()
  TrafficCounter counter;
  Memory memory;
  // A call of the API that changes `memory`; it passes the gate.
  void write(const std::string &region, const std::string &contents);
  ImageId last_image{};  // of save()
  Memory at_last_save;
  std::function<void()> on_quiesce, on_detach, on_resume;

 private:
  Result<> step(const std::string &verb);

  App &app_;
  const char *name_;
  Gate gate_;
  bool on_devices_ = false;
};

class App {
 public:
  App(int events, int commands) : events_(events), commands_(commands) {}
  FakeParticipant one{*this, "one"}, two{*this, "two"};

  void say(const std::string &line);
  std::string hear();                       // the next line of Subject::tell(); empty: end of test
  void wait_for_end();                      // until the subject is destroyed
  void need(bool holds, const char *what);  // if false: reports `what` and ends the process
  void start();                             // adds both participants
  void forked(const char *name);

 private:
  int events_, commands_;
};

// ---- in the test's process

class Tool {
 public:
  explicit Tool(UniqueFd socket) : socket_(std::move(socket)) {}

  void send(Type type, const Writer &body = {}, std::vector<int> fds = {});
  void send_raw(const void *data, size_t size);
  // No value: the agent hung up.
  std::optional<Message> receive();
  Message ask(Type type, const Writer &body = {}, std::vector<int> fds = {});
  bool hung_up() { return !receive(); }
  void hang_up() { socket_.reset(); }

  State hello(u32 version = protocol::kVersion);
  Type quiesce(u32 ms = 1000) { return type(ask(Type::Quiesce, Writer().put(ms))); }
  // Empties slots until Saved or Failed, which is returned.
  Message save(u32 slots = 2, u32 slot_bytes = 4096);
  Type detach();
  Type attach(const std::string &session);
  Message load(const Memory &memory, u32 slots = 2, u32 slot_bytes = 4096);
  void send_outcome(Outcome outcome, const std::string &text = {});
  void close_outcome_pipe() { outcome_pipe_.reset(); }

  static Type type(const Message &m) { return Type{m.type}; }
  static std::string what(const Message &failed);

  Memory saved;                   // names have the prefixes of the participants
  std::vector<std::string> same;  // regions that are unchanged since the parent image
  std::string requirements;       // of the last save
  int surveyed = 0;               // how often a save has told what devices saw

 private:
  struct Staging;
  void take_slot(const Message &m, Staging &staging);
  std::map<u32, std::string> names_;
  UniqueFd socket_, outcome_pipe_;
};

class Session {
 public:
  Session();
  ~Session();
  std::string socket() const { return folder_ + "/session.sock"; }
  const std::string &folder() const { return folder_; }
  Tool accept();
  std::vector<std::string> agents() const;  // paths of their sockets
  // Waits until an agent listens here.
  Tool connect();

 private:
  std::string folder_;
  UniqueFd listener_;
};

class Subject {
 public:
  Subject(const Session *session, const std::function<void(App &)> &main);
  // Ends the subject and checks its exit code.
  ~Subject();
  pid_t pid() const { return pid_; }
  void tell(const std::string &line);
  std::string next();  // the next event; "(nothing)" after 20 s
  void expect(const std::vector<std::string> &events);
  int end();  // ends the subject; returns its wait status

 private:
  UniqueFd events_, commands_;
  std::string buffer_;
  pid_t pid_ = -1;
};

// The events of a return to the devices.
inline const std::vector<std::string> kResumed = {"two.resume", "one.resume"};
inline const std::vector<std::string> kBack = {"two.attach_again", "one.attach_again", "two.resume",
                                               "one.resume"};

// The usual subject: adds both participants, reports "ready" and waits for the end of the test.
void run_idle(App &app);
// Take the subject through the first verbs, and consume the events.
void to_quiesced(Tool &tool, Subject &subject);
void to_saved(Tool &tool, Subject &subject);
void to_detached(Tool &tool, Subject &subject);

// A copy of a program that was dumped: the tool that dumped it has the contents, and the keeper of
// the copy has received its Restored.
struct Copy {
  Tool tool, keeper;
};
Copy to_restored(Session &from, Session &to, Subject &subject);

}  // namespace ckpt::test
