// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "ckpt_config.h"
#include "common/base/printable.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kEndPatience = 2s;

// "ssh -p 2222" -> its words. As rsync does: no quotes.
std::vector<std::string> command_line(const MoveOptions &o) {
  std::vector<std::string> argv;
  std::istringstream words(o.rsh);
  for (std::string word; words >> word;) argv.push_back(word);
  argv.push_back(o.host);
  std::istringstream tool(o.tool_there);
  for (std::string word; tool >> word;) argv.push_back(word);
  argv.push_back("--receive");
  return argv;
}

struct PipeEnds {
  UniqueFd read, write;
};

Result<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  return PipeEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

std::string this_host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// In the group of this process, so that ssh may ask for a password. But Ctrl-C must not cut the
// connection: this process decides what becomes of the program.
Result<std::unique_ptr<Peer>> Peer::connect(const MoveOptions &o, const std::string &number,
                                            FrameLink::Check check) {
  if (o.host.starts_with('-'))
    return fail_with_hint(fmt::format("\"{}\" is not the name of a host", printable(o.host)),
                          "name it as [USER@]HOST");
  CKPT_TRY(PipeEnds to, make_pipe());
  CKPT_TRY(PipeEnds from, make_pipe());
  CKPT_TRY(
      pid_t rsh,
      spawn({.argv = command_line(o), .in = to.read.get(), .out = from.write.get(), .in_child = [] {
               ::signal(SIGINT, SIG_IGN);
             }}));
  FrameLink link(std::move(from.read), std::move(to.write), std::move(check));
  link.set_patience(std::chrono::seconds(o.link_timeout));
  std::unique_ptr<Peer> peer(new Peer(rsh, std::move(link)));
  to.read.reset();
  from.write.reset();
  if (Result<> greeted = peer->greet(o, number); !greeted)
    return Failure(std::move(greeted.error()).in(o.host));
  return peer;
}

// The other side ends when it finds that the connection has ended. What leads there may hang.
Peer::~Peer() {
  link_.close();
  for (int signal : {0, SIGTERM, SIGKILL}) {
    if (signal) ::kill(rsh_, signal);
    for (auto end = Clock::now() + kEndPatience; Clock::now() < end; ::usleep(10'000))
      if (::waitpid(rsh_, nullptr, WNOHANG) != 0) return;
  }
}

Result<> Peer::greet(const MoveOptions &o, const std::string &number) {
  Hello hello{.ckpt_version = CKPT_VERSION,
              .number = number,
              .host = this_host(),
              .patience_seconds = static_cast<u32>(o.link_timeout)};
  CKPT_CHECK(link_.send(Kind::Hello, encode(hello)));
  CKPT_TRY(Bytes body, link_.receive(Kind::Welcome));
  std::optional<Welcome> welcome = parse_welcome(body);
  if (!welcome) return malformed("Welcome");
  welcome_ = std::move(*welcome);
  if (welcome_.version == kMigrateVersion) return {};
  return fail_with_hint(
      fmt::format("ckpt {} there speaks version {} of the protocol of migrations, and ckpt {} here "
                  "speaks version {}",
                  printable(welcome_.ckpt_version), welcome_.version, CKPT_VERSION,
                  kMigrateVersion),
      "install the same version of ckpt on both machines");
}

}  // namespace ckpt::tools
