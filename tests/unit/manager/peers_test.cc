// SPDX-License-Identifier: Apache-2.0
//
// A daemon in a process of its own, and hostile peers: they send too much, do not read, or are too
// many.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/ipc/unix_socket.h"
#include "manager/daemon/daemon.h"

using namespace ckpt;
using namespace ckpt::manager;
namespace in = managed::to_manager;
namespace out = managed::to_program;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr u64 kGiB = 1u << 30;
constexpr milliseconds kSlow{2};  // of a measurement
constexpr milliseconds kSoon{500};

// One idle GPU. Counts its measurements, across processes.
class TestMeter final : public Meter {
 public:
  using Count = std::atomic<u64>;
  TestMeter(Count *count, milliseconds takes) : count_(count), takes_(takes) {}
  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }
  Result<Reading> read(size_t) override {
    ++*count_;
    std::this_thread::sleep_for(takes_);
    return Reading{kGiB, std::vector<Reading::Process>{}};
  }

 private:
  std::vector<MeteredGpu> gpus_{{.uuid = "GPU-0", .name = "a GPU", .total = kGiB}};
  Count *count_;
  milliseconds takes_;
};

class Folder {
 public:
  Folder() {
    REQUIRE(::mkdtemp(path_) != nullptr);
    REQUIRE(::chmod(path_, 0755) == 0);
  }
  ~Folder() {
    for (const char *name : {"socket", "socket.lock", "log"}) ::unlink((*this / name).c_str());
    ::rmdir(path_);
  }
  std::string operator/(const std::string &name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/tmp/ckptd-test-XXXXXX";
};

class Ckptd {
 public:
  explicit Ckptd(DaemonOptions options = {}, milliseconds measuring = {}) : measuring_(measuring) {
    void *shared =
        ::mmap(nullptr, sizeof *reads_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    reads_ = new (shared) TestMeter::Count(0);
    options.socket = socket();
    options.settings.min_residency = options.settings.startup_delay = Time{0};
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) ::_exit(run(std::move(options), ready[1]));
    ::close(ready[1]);
    char yes = 0;
    REQUIRE(::read(ready[0], &yes, 1) == 1);
    ::close(ready[0]);
  }
  ~Ckptd() {
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    CHECK(status == 0);
    ::munmap(static_cast<void *>(reads_), sizeof *reads_);
  }
  std::string socket() const { return folder_ / "socket"; }
  u64 reads() const { return *reads_; }
  std::string log() const {
    std::ifstream in(folder_ / "log");
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  int run(DaemonOptions options, int ready) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("CKPT_LOG_FILE", (folder_ / "log").c_str(), 1);
    auto daemon =
        Daemon::create(std::move(options), std::make_unique<TestMeter>(reads_, measuring_));
    if (!daemon || ::write(ready, "y", 1) != 1) return 1;
    return (*daemon)->run() ? 0 : 1;
  }

  Folder folder_;
  milliseconds measuring_;
  TestMeter::Count *reads_ = nullptr;
  pid_t pid_ = -1;
};

std::string frame(u16 type, const Bytes &body = {}) {
  Writer w;
  w.put(static_cast<u32>(body.size())).put(type).put<u16>(0).raw(body.data(), body.size());
  Bytes all = w.take();
  return {reinterpret_cast<const char *>(all.data()), all.size()};
}

std::string frame(const managed::ToManager &m) {
  return frame(managed::number_of(m), managed::encode(m).take());
}

std::string times(size_t n, const std::string &text) {
  std::string all;
  while (n-- > 0) all += text;
  return all;
}

const std::string kBad = frame(4711);
const managed::ToManager kAskStatus = in::StatusWanted{managed::kVersion};

class Caller {
 public:
  explicit Caller(const Ckptd &to) {
    Result<UniqueFd> fd = connect_unix(to.socket());
    REQUIRE(fd);
    socket_ = std::move(*fd);
    REQUIRE(set_receive_timeout(socket_.get(), std::chrono::seconds(20)));
  }
  // A peer that was refused may have been disconnected.
  void say(const std::string &bytes) {
    bool said = push(bytes, std::chrono::seconds(20)) == bytes.size();
    REQUIRE((said || is_hung_up(milliseconds(0))));
  }
  void say(const managed::ToManager &m) { say(frame(m)); }
  // Sends as much of `bytes` as the daemon reads before it disconnects, or within `time`.
  size_t push(const std::string &bytes, milliseconds time) {
    size_t sent = 0;
    for (auto end = Clock::now() + time; Clock::now() < end && sent < bytes.size();) {
      pollfd p{socket_.get(), POLLOUT, 0};
      ::poll(&p, 1, 20);
      ssize_t n = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) break;
      if (n > 0) sent += static_cast<size_t>(n);
    }
    return sent;
  }
  bool is_hung_up(milliseconds soon = kSoon) {
    pollfd p{socket_.get(), POLLRDHUP, 0};
    return ::poll(&p, 1, static_cast<int>(soon.count())) == 1;
  }
  bool hears_something(milliseconds soon = kSoon) {
    pollfd p{socket_.get(), POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(soon.count())) == 1;
  }
  // monostate: the daemon has disconnected.
  managed::ToProgram hear() {
    Result<std::optional<Message>> m = receive_message(socket_.get());
    REQUIRE(m);
    if (!*m) return {};
    Result<managed::ToProgram> message = managed::decode_to_program((*m)->type, (*m)->body);
    REQUIRE(message);
    return *message;
  }
  std::string heard() { return managed::name_of(hear()); }
  void join() {
    say(in::Join{.version = managed::kVersion, .pid = 1, .name = "by hand"});
    CHECK(heard() == "Welcome");
  }
  nlohmann::json status() {
    say(kAskStatus);
    managed::ToProgram m = hear();
    REQUIRE(std::get_if<out::Status>(&m) != nullptr);
    return nlohmann::json::parse(std::get<out::Status>(m).json);
  }
  // The time until the answer.
  milliseconds ping() {
    auto began = Clock::now();
    say(in::Ping{});
    CHECK(heard() == "Pong");
    return std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  }

 private:
  UniqueFd socket_;
};

size_t count_of(const std::string &what, const std::string &in) {
  size_t n = 0;
  for (size_t at = in.find(what); at != in.npos; at = in.find(what, at + 1)) n++;
  return n;
}

}  // namespace

TEST_CASE("a peer that asks and does not read is disconnected") {
  Ckptd ckptd({.reading = milliseconds(300)});
  Caller silent(ckptd);
  // More answers than the socket takes, a malformed message, and bytes without end.
  std::string much = times(3000, frame(kAskStatus)) + kBad + std::string(64u << 20, 'x');
  CHECK(silent.push(much, milliseconds(6000)) < (2u << 20));
  CHECK(silent.is_hung_up(milliseconds(2000)));
  CHECK(Caller(ckptd).status()["programs"].empty());
}

TEST_CASE("a refused program is removed, whether or not it reads the reason") {
  Ckptd ckptd;
  Caller refused(ckptd), other(ckptd);
  refused.join();
  REQUIRE(other.status()["programs"].size() == 1);
  // More answers than its socket takes.
  refused.say(times(3000, frame(in::Ping{})) + kBad);
  CHECK(refused.is_hung_up());
  CHECK(other.status()["programs"].empty());
  Caller reads(ckptd);
  reads.join();
  reads.say(kBad);
  CHECK(reads.heard() == "Refused");
  CHECK(reads.heard() == "nothing");
}

TEST_CASE("a peer that sends much at a time does not hold up the others") {
  Ckptd ckptd({}, kSlow);
  Caller loud(ckptd), other(ckptd);
  other.join();
  // Each message causes a measurement of 2 ms.
  loud.join();
  loud.say(times(2000, frame(in::Query{})));
  for (int i = 0; i < 5; i++) CHECK(other.ping() < milliseconds(200));
}

TEST_CASE("status requests take a small part of the time, however many there are") {
  Ckptd ckptd({}, kSlow);
  Caller curious(ckptd), other(ckptd);
  other.join();
  u64 before = ckptd.reads();
  auto began = Clock::now();
  curious.say(times(1365, frame(kAskStatus)));
  for (int i = 0; i < 5; i++) CHECK(other.ping() < milliseconds(200));
  while (Clock::now() - began < milliseconds(600)) CHECK(curious.heard() == "Status");
  auto measured = (ckptd.reads() - before) * kSlow;
  CHECK(measured < (Clock::now() - began) / 5);
}

TEST_CASE("all peers that ask get a status that is newer than their request") {
  Ckptd ckptd;
  std::list<Caller> all;
  for (int i = 0; i < 20; i++) all.emplace_back(ckptd).say(kAskStatus);
  for (Caller &c : all) CHECK(c.heard() == "Status");
  all.front().join();
  CHECK(all.back().status()["programs"].size() == 1);
}

TEST_CASE("a peer waits for a free connection, and the log reports it once") {
  Ckptd ckptd({.connections = 3});
  auto first = std::make_unique<Caller>(ckptd);
  Caller second(ckptd), third(ckptd), fourth(ckptd);
  for (Caller *c : {first.get(), &second, &third}) c->join();
  fourth.say(in::Join{.version = managed::kVersion, .pid = 1, .name = "late"});
  CHECK_FALSE(fourth.hears_something());
  CHECK_FALSE(fourth.is_hung_up(milliseconds(0)));
  CHECK(third.ping() < kSoon);
  first.reset();
  CHECK(fourth.heard() == "Welcome");
  CHECK(count_of("no program can join for now: all 3 connections", ckptd.log()) == 1);
}

namespace {

// Acts as another user, if this process is root.
struct As {
  explicit As(uid_t uid) : before(::geteuid()) {
    if (before == 0) REQUIRE(::seteuid(uid) == 0);
  }
  ~As() { REQUIRE(::seteuid(before) == 0); }
  uid_t before;
};

std::optional<std::string> refused(Caller &c) {
  c.say(in::Join{.version = managed::kVersion, .pid = 1, .name = "one of many"});
  managed::ToProgram answer = c.hear();
  if (auto *m = std::get_if<out::Refused>(&answer)) return m->what + "; " + m->hint;
  REQUIRE(managed::name_of(answer) == std::string("Welcome"));
  return std::nullopt;
}

}  // namespace

TEST_CASE("one user cannot take all connections") {
  Ckptd ckptd({.all_users = true, .connections = 8});
  std::list<Caller> all;
  auto join_until_refused = [&](uid_t uid) {
    As user(uid);
    for (int joined = 0; joined < 10; joined++)
      if (std::optional<std::string> why = refused(all.emplace_back(ckptd))) {
        CHECK(why->find("has as many connections to the Manager as are free") != why->npos);
        CHECK(why->find("run fewer managed programs") != why->npos);
        all.pop_back();
        return joined;
      }
    return -1;
  };
  CHECK(join_until_refused(65534) == 4);
  if (::geteuid() != 0) return;
  CHECK(join_until_refused(65533) == 2);
  CHECK_FALSE(refused(all.emplace_back(ckptd)));
}

TEST_CASE("only the start of a long reason for a failed eviction is kept") {
  Ckptd ckptd;
  Caller first(ckptd), second(ckptd), tool(ckptd);
  for (Caller *c : {&first, &second}) {
    c->join();
    c->say(in::Connect{});
    CHECK(c->heard() == "Connect");
  }
  first.say(in::CudaMalloc{1, 800u << 20});
  CHECK(first.heard() == "GoAhead");
  second.say(in::CudaMalloc{1, 200u << 20});
  CHECK(second.heard() == "Suspend");
  second.say(in::Failed{std::string(5000, 'x')});
  std::string why = tool.status()["programs"][1]["cannot_be_suspended"];
  CHECK(why == std::string(managed::kMaxReasonBytes, 'x'));
}

TEST_CASE("a file at the path of the socket that is not a socket is not removed") {
  Folder folder;
  TestMeter::Count count{0};
  auto is_refused = [&] {
    auto daemon = Daemon::create({.socket = folder / "socket"},
                                 std::make_unique<TestMeter>(&count, milliseconds(0)));
    REQUIRE_FALSE(daemon);
    CHECK(daemon.error().what == (folder / "socket") + " exists and is not a socket");
    CHECK(daemon.error().hint.find("--socket") != std::string::npos);
    std::string kept;
    std::ifstream(folder / "socket") >> kept;
    CHECK(kept == "precious");
  };
  std::ofstream(folder / "socket") << "precious";
  is_refused();
  // A symbolic link is not removed, either.
  REQUIRE(::rename((folder / "socket").c_str(), (folder / "log").c_str()) == 0);
  REQUIRE(::symlink((folder / "log").c_str(), (folder / "socket").c_str()) == 0);
  is_refused();
}
