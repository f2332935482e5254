// SPDX-License-Identifier: Apache-2.0
//
// The agent as a guest in an application's process: threads, forks, exit.
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "ckpt/ckpt.h"
#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

// A forked child that starts an agent starts a thread, which TSan forbids by default.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "die_after_fork=0 halt_on_error=1"; }

namespace {

int sockets_of(pid_t pid) {
  int found = 0;
  for (int fd = 3; fd < 256; fd++) {
    char target[256] = "";
    if (::readlink(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), target, 255) > 0)
      found += std::string_view(target).starts_with("socket:");
  }
  return found;
}

// Forks; the child runs `body` and ends.
template <class Body>
void fork_and(App &app, Body body) {
  pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  app.need(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends well");
}

}  // namespace

TEST_CASE("the agent's thread has a name and takes no signals") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  session.connect().hello();  // the thread has begun
  std::string tasks = fmt::format("/proc/{}/task", subject.pid());
  DIR *dir = ::opendir(tasks.c_str());
  REQUIRE(dir);
  bool found = false;
  while (dirent *e = ::readdir(dir)) {
    FILE *status = ::fopen((tasks + "/" + e->d_name + "/status").c_str(), "r");
    if (!status) continue;
    char line[256];
    std::string name, blocked;
    while (::fgets(line, sizeof line, status)) {
      if (std::string_view(line).starts_with("Name:")) name = line;
      if (std::string_view(line).starts_with("SigBlk:")) blocked = line;
    }
    ::fclose(status);
    if (name.find("ckpt-agent") == name.npos) continue;
    found = true;
    // All but KILL, STOP and the two that libc reserves.
    CHECK_MESSAGE(blocked.find("fffffffe7ffbfeff") != blocked.npos, blocked);
  }
  ::closedir(dir);
  CHECK(found);
}

TEST_CASE("each process has a socket, which is removed when the process ends") {
  Session session;
  {
    Subject subject(&session, [](App &app) {
      app.start();
      app.wait_for_end();
      ::exit(0);
    });
    subject.expect({"ready"});
    REQUIRE(session.agents().size() == 1);
    std::string prefix = fmt::format("{}/agent-{}-", session.folder(), subject.pid());
    CHECK(session.agents()[0].starts_with(prefix));
  }
  CHECK(session.agents().empty());
}

TEST_CASE("a forked child has no agent and does not disturb that of its parent") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.start();
    ckpt_on_checkpoint([](void *, const char **) { return 1; }, nullptr, nullptr);
    int id = ckpt_on_checkpoint(nullptr, nullptr, nullptr);
    fork_and(app, [&] {
      app.need(ckpt_state() == CKPT_NO_AGENT, "no agent");
      app.need(sockets_of(::getpid()) == 0, "no sockets");
      app.need(ckpt_remove_callbacks(id) == CKPT_ERR_UNKNOWN, "no callbacks");
      ::exit(0);
    });
    app.need(ckpt_remove_callbacks(id) == 0, "the parent keeps its own");
    app.say("parent");
    app.wait_for_end();
  });
  subject.expect({"ready", "forked", "forked", "parent"});
  CHECK(session.agents().size() == 1);
  CHECK(session.connect().hello() == State::Running);
}

TEST_CASE("a child that uses the API starts an agent of its own") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.start();
    fork_and(app, [&] {
      app.need(ckpt_on_checkpoint(nullptr, nullptr, nullptr) == 1, "an agent of its own");
      app.say("child");
      app.hear();
      ::exit(0);
    });
    app.say("parent");
    app.wait_for_end();
  });
  subject.expect({"ready", "forked", "forked", "child"});
  CHECK(session.agents().size() == 2);
  for (const std::string &path : session.agents()) {
    Result<UniqueFd> socket = connect_unix(path);
    REQUIRE(socket);
    CHECK(Tool(std::move(*socket)).hello() == State::Running);
  }
  // Whether the child removes its socket at its end depends on whether its agent has noticed
  // already that the tool has hung up; if not, the session keeper removes it.
  subject.tell("end");
  subject.expect({"parent"});
}

TEST_CASE("a child that is forked during a save inherits none of the agent's descriptors") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory["a"] = std::string(3 << 20, 'x');
    app.start();
    std::atomic<bool> stop = false;
    std::thread forker([&] {
      while (!stop)
        fork_and(app, [&] { app.need(sockets_of(::getpid()) == 0, "no sockets in a child"); });
    });
    app.hear();
    stop = true;
    forker.join();
    app.say("stopped");
    app.wait_for_end();
  });
  auto next = [&] {
    std::string event;
    while ((event = subject.next()) == "forked") {
    }
    return event;
  };
  CHECK(next() == "ready");
  Tool tool = session.connect();
  for (int round = 0; round < 3; round++) {
    tool.hello();
    CHECK(tool.quiesce(10000) == Type::Ok);
    CHECK(Tool::type(tool.save(4)) == Type::Saved);
    CHECK(tool.saved["one/a"] == std::string(3 << 20, 'x'));
    tool.hang_up();
    tool = session.connect();
  }
  tool.hello();
  subject.tell("stop");
  std::string event;
  do event = next();
  while (event != "stopped" && event != "(nothing)" && event != "(ended)");
  CHECK(event == "stopped");
}

TEST_CASE("a participant that is added during a checkpoint waits until it is over") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.need(add_participant(&app.one).has_value(), "participant one");
    app.say("ready");
    app.hear();
    app.say("coming");
    app.need(add_participant(&app.two).has_value(), "participant two");
    app.say("there");
    app.wait_for_end();
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  tool.hello();
  CHECK(tool.quiesce() == Type::Ok);
  subject.expect({"one.quiesce"});
  subject.tell("come");
  subject.expect({"coming"});
  tool.save();
  tool.detach();
  tool.send_outcome(Outcome::Continue);
  subject.expect({"one.save", "one.detach", "one.attach_again", "one.resume", "there"});
  Tool again = session.connect();
  to_quiesced(again, subject);
}

TEST_CASE("excluded memory reads as zero after a checkpoint; adjacent memory is kept") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.start();
    const size_t page = 4096, size = 8 * page;
    auto anonymous = [&](int flags) {
      void *p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
      std::memset(p, 'x', size);
      return static_cast<char *>(p);
    };
    char *scratch = anonymous(MAP_PRIVATE), *kept = anonymous(MAP_PRIVATE);
    char *shared = anonymous(MAP_SHARED);
    // From the middle of page 1 to the middle of page 5: pages 2, 3 and 4.
    app.need(ckpt_exclude(scratch + page + 100, 4 * page) == 0, "excluded");
    app.need(ckpt_exclude(shared, size) == 0, "excluded");
    app.need(ckpt_exclude(kept, size) == 0, "excluded");
    app.need(ckpt_include(kept, size) == 0, "included");
    app.need(ckpt_include(kept, size) == CKPT_ERR_UNKNOWN, "included once");
    app.need(ckpt_exclude(&app.two, 0) == 0, "a handle of two");
    app.need(ckpt_include(&app.two, 0) == 0, "a handle of two");
    app.need(ckpt_exclude(&size, 0) == CKPT_ERR_UNKNOWN, "an unknown handle");
    app.say("excluded");
    app.hear();
    for (size_t i = 0; i < size; i++) {
      bool dropped = i >= 2 * page && i < 5 * page;
      app.need(scratch[i] == (dropped ? 0 : 'x'), "whole pages inside");
      app.need(kept[i] == 'x' && shared[i] == 'x', "kept");
    }
    app.say("checked");
    app.wait_for_end();
  });
  subject.expect({"ready", "excluded"});
  Tool tool = session.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Continue);
  subject.expect({"two.attach_again", "one.attach_again", "two.resume", "one.resume"});
  subject.tell("look");
  subject.expect({"checked"});
}

TEST_CASE("data larger than the staging memory is saved completely, for any size of slot") {
  Session session;
  Memory memory;
  u32 seed = 1;
  for (size_t size : {1, 4095, 4096, 4097, 100000, 1 << 20}) {
    std::string contents(size, 0);
    for (char &c : contents) c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    memory["mem-" + std::to_string(size)] = contents;
  }
  Subject subject(&session, [&](App &app) {
    app.one.memory = memory;
    run_idle(app);
  });
  subject.expect({"ready"});
  for (auto [slots, slot_bytes] : {std::pair{1u, 4096u}, {3u, 8192u}, {8u, 1u << 20}}) {
    Tool tool = session.connect();
    to_quiesced(tool, subject);
    CHECK(Tool::type(tool.save(slots, slot_bytes)) == Type::Saved);
    for (auto &[name, contents] : memory) CHECK(tool.saved["one/" + name] == contents);
    tool.hang_up();
    subject.expect({"one.save", "two.save", "two.resume", "one.resume"});
  }
}
