// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

namespace ckpt::test {

using namespace std::chrono_literals;

// ---- Tool

struct Tool::Staging {
  Staging(u32 slots, u32 slot_bytes) : size(size_t{slots} * slot_bytes), slot_bytes(slot_bytes) {
    fd.reset(::memfd_create("ckpt-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
    base =
        static_cast<char *>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    REQUIRE(base != MAP_FAILED);
  }
  ~Staging() { ::munmap(base, size); }
  UniqueFd fd;
  size_t size;
  u32 slot_bytes;
  char *base;
};

void Tool::send(Type type, const Writer &body, std::vector<int> fds) {
  REQUIRE(send_message(socket_.get(), static_cast<u16>(type), body.bytes(), fds));
}

void Tool::send_raw(const void *data, size_t size) {
  REQUIRE(write_all(socket_.get(), view(data, size)));
}

std::optional<Message> Tool::receive() {
  REQUIRE(set_receive_timeout(socket_.get(), 20s));
  Result<std::optional<Message>> m = receive_message(socket_.get());
  REQUIRE_MESSAGE(m.has_value(), m.error().what);
  return std::move(*m);
}

Message Tool::ask(Type type, const Writer &body, std::vector<int> fds) {
  send(type, body, std::move(fds));
  std::optional<Message> answer = receive();
  REQUIRE(answer);
  return std::move(*answer);
}

State Tool::hello(u32 version) {
  Message m = ask(Type::Hello, Writer().put(version).str("fake"));
  REQUIRE(type(m) == Type::Welcome);
  Reader in = m.reader();
  CHECK(in.get<u32>() == protocol::kVersion);
  in.get<u32>();
  State state = in.get<State>();
  for (u32 n = in.get<u32>(); n-- > 0;) in.str();
  CHECK(in.done());
  return state;
}

void Tool::take_slot(const Message &m, Staging &staging) {
  Reader in = m.reader();
  u32 slot = in.get<u32>(), region = in.get<u32>();
  u64 offset = in.get<u64>();
  u32 bytes = in.get<u32>();
  REQUIRE(in.done());
  saved.at(names_.at(region))
      .replace(offset, bytes, staging.base + size_t{slot} * staging.slot_bytes, bytes);
  send(Type::SlotFree, Writer().put(slot));
}

Message Tool::save(u32 slots, u32 slot_bytes) {
  Staging staging(slots, slot_bytes);
  send(Type::Save, Writer().put(slots).put(slot_bytes), {staging.fd.get()});
  for (;;) {
    std::optional<Message> m = receive();
    REQUIRE(m);
    Reader in = m->reader();
    if (type(*m) == Type::Region) {
      u32 number = in.get<u32>();
      names_[number] = in.str();
      saved[names_[number]].resize(in.get<u64>());
    } else if (type(*m) == Type::RegionSame) {
      in.get<u32>();
      same.emplace_back(in.str());
    } else if (type(*m) == Type::SlotFull) {
      take_slot(*m, staging);
    } else if (type(*m) == Type::Surveyed) {
      surveyed++;
    } else {
      if (type(*m) == Type::Saved) requirements = in.str();
      return std::move(*m);
    }
  }
}

Type Tool::detach() {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd read_end(ends[0]);
  outcome_pipe_.reset(ends[1]);
  return type(ask(Type::Detach, {}, {read_end.get()}));
}

Type Tool::attach(const std::string &session) {
  return type(ask(Type::Attach, Writer().str(session)));
}

// Sends one slot of each region in turn, so that the pieces of participants alternate.
Message Tool::load(const Memory &memory, u32 slots, u32 slot_bytes) {
  Staging staging(slots, slot_bytes);
  Message begun = ask(Type::Load, Writer().put(slots).put(slot_bytes), {staging.fd.get()});
  if (type(begun) != Type::Ok) return begun;
  std::vector<u32> free_slots;
  for (u32 i = 0; i < slots; i++) free_slots.push_back(i);
  u32 number = 0;
  u64 longest = 0;
  for (auto &[name, contents] : memory) {
    send(Type::Region, Writer().put(number++).str(name).put(u64{contents.size()}));
    longest = std::max<u64>(longest, contents.size());
  }
  for (u64 at = 0; at < longest; at += slot_bytes) {
    number = 0;
    for (auto &[name, contents] : memory) {
      u32 region = number++;
      if (at >= contents.size()) continue;
      while (free_slots.empty()) {
        std::optional<Message> m = receive();
        REQUIRE(m);
        if (type(*m) != Type::SlotFree) return std::move(*m);
        free_slots.push_back(m->reader().get<u32>());
      }
      u32 slot = free_slots.back();
      free_slots.pop_back();
      size_t n = contents.copy(staging.base + size_t{slot} * slot_bytes, slot_bytes, at);
      send(Type::SlotFull, Writer().put(slot).put(region).put(at).put(static_cast<u32>(n)));
    }
  }
  send(Type::LoadEnd);
  for (;;) {
    std::optional<Message> m = receive();
    REQUIRE(m);
    if (type(*m) != Type::SlotFree) return std::move(*m);
  }
}

void Tool::send_outcome(Outcome outcome, const std::string &text) {
  Writer body;
  body.put(outcome).put(u32{7}).str(text);
  Writer whole;
  whole.blob(body.bytes());
  REQUIRE(write_all(outcome_pipe_.get(), whole.bytes()));
  outcome_pipe_.reset();
}

std::string Tool::what(const Message &failed) {
  CHECK(type(failed) == Type::Failed);
  Reader in = failed.reader();
  std::string what(in.str());
  in.str();
  CHECK(in.done());
  return what;
}

// ---- Session

Session::Session() {
  char folder[] = "/tmp/ckpt-agent-test-XXXXXX";
  REQUIRE(::mkdtemp(folder));
  folder_ = folder;
  Result<UniqueFd> listener = listen_unix(socket());
  REQUIRE(listener);
  listener_ = std::move(*listener);
}

Session::~Session() {
  for (const std::string &path : agents()) ::unlink(path.c_str());
  ::unlink(socket().c_str());
  ::rmdir(folder_.c_str());
}

Tool Session::accept() {
  pollfd p{listener_.get(), POLLIN, 0};
  REQUIRE(::poll(&p, 1, 20000) == 1);
  Result<UniqueFd> socket = accept_unix(listener_.get());
  REQUIRE(socket);
  return Tool(std::move(*socket));
}

std::vector<std::string> Session::agents() const {
  std::vector<std::string> paths;
  DIR *dir = ::opendir(folder_.c_str());
  REQUIRE(dir);
  while (dirent *e = ::readdir(dir))
    if (std::string_view(e->d_name).starts_with(protocol::kAgentSocketPrefix))
      paths.push_back(folder_ + "/" + e->d_name);
  ::closedir(dir);
  return paths;
}

Tool Session::connect() {
  for (int i = 0; i < 2000; i++) {
    for (const std::string &path : agents())
      if (Result<UniqueFd> socket = connect_unix(path)) return Tool(std::move(*socket));
    std::this_thread::sleep_for(10ms);
  }
  FAIL("no agent listens in " << folder_);
  return Tool(UniqueFd());
}

// ---- Subject

Subject::Subject(const Session *session, const std::function<void(App &)> &main) {
  int events[2], commands[2];
  REQUIRE(::pipe2(events, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(commands, O_CLOEXEC) == 0);
  ::fflush(nullptr);  // or a child that calls exit() prints it again
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    // The test's own sockets must not count as residue of the subject.
    for (int fd = 3; fd < 256; fd++)
      if (fd != events[1] && fd != commands[0]) ::close(fd);
    if (session)
      ::setenv(protocol::kSessionVariable, session->socket().c_str(), 1);
    else
      ::unsetenv(protocol::kSessionVariable);
    static App *app = new App(events[1], commands[0]);
    main(*app);
    ::_exit(0);
  }
  ::close(events[1]);
  ::close(commands[0]);
  events_.reset(events[0]);
  commands_.reset(commands[1]);
}

Subject::~Subject() {
  if (pid_ < 0) return;
  int status = end();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

int Subject::end() {
  commands_.reset();
  int status = 0;
  REQUIRE(::waitpid(std::exchange(pid_, -1), &status, 0) > 0);
  return status;
}

void Subject::tell(const std::string &line) {
  REQUIRE(write_all(commands_.get(), view(line + "\n")));
}

std::string Subject::next() {
  for (;;) {
    if (size_t end = buffer_.find('\n'); end != buffer_.npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd p{events_.get(), POLLIN, 0};
    if (::poll(&p, 1, 20000) <= 0) return "(nothing)";
    char part[4096];
    ssize_t n = ::read(events_.get(), part, sizeof part);
    if (n <= 0) return "(ended)";
    buffer_.append(part, static_cast<size_t>(n));
  }
}

void Subject::expect(const std::vector<std::string> &events) {
  for (const std::string &event : events) CHECK(next() == event);
}

void to_quiesced(Tool &tool, Subject &subject) {
  tool.hello();
  CHECK(tool.quiesce() == Type::Ok);
  subject.expect({"one.quiesce", "two.quiesce"});
}

void to_saved(Tool &tool, Subject &subject) {
  to_quiesced(tool, subject);
  CHECK(Tool::type(tool.save()) == Type::Saved);
  subject.expect({"one.save", "two.save"});
}

void to_detached(Tool &tool, Subject &subject) {
  to_saved(tool, subject);
  CHECK(tool.detach() == Type::Ok);
  subject.expect({"one.detach", "two.detach"});
  CHECK(tool.hung_up());
}

Copy to_restored(Session &from, Session &to, Subject &subject) {
  Tool tool = from.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Restored, to.socket());
  Tool keeper = to.accept();
  std::optional<Message> m = keeper.receive();
  REQUIRE(m);
  CHECK(Tool::type(*m) == Type::Restored);
  Reader in = m->reader();
  CHECK(in.get<u32>() == protocol::kVersion);
  CHECK(in.get<u32>() == 7);
  CHECK(in.done());
  return {std::move(tool), std::move(keeper)};
}

}  // namespace ckpt::test
