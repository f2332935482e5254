// SPDX-License-Identifier: Apache-2.0
//
// ckpt-top: shows the state of ckptd, refreshed in a terminal, or once, or as JSON.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include "common/ipc/unix_socket.h"
#include "common/managed/messages.h"
#include "common/managed/socket.h"
#include "tools/command_line.h"
#include "tools/json_text.h"
#include "tools/top/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAnswerTimeout{10};

struct Options {
  std::string socket;
  double interval = 1;
  bool once = false, as_json = false;
};

Result<json> ask(int socket) {
  managed::ToManager question = managed::to_manager::StatusWanted{managed::kVersion};
  CKPT_CHECK(send_message(socket, managed::number_of(question), managed::encode(question).bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(socket, managed::kMaxStatusBytes));
  if (!m)
    return fail_with_hint("ckptd closed the connection", "see the log of ckptd, and try again");
  CKPT_TRY(managed::ToProgram answer, managed::decode_to_program(m->type, m->body));
  if (auto *no = std::get_if<managed::to_program::Refused>(&answer))
    return fail_with_hint(no->what, no->hint);
  auto *status = std::get_if<managed::to_program::Status>(&answer);
  json j = status ? json::parse(status->json, nullptr, false) : json();
  if (!j.is_object())
    return fail_with_hint("cannot parse the answer of ckptd",
                          "use ckptd and ckpt-top of the same version of ckpt");
  return j;
}

// Lets the terminal deliver single keys without echo; the destructor restores its mode.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal &) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

int width() {
  winsize w{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 100;
}

// Whether q was pressed, or the input ended, before `seconds` have passed.
bool quit_within(double seconds) {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  char key = 0;
  if (::poll(&p, 1, static_cast<int>(std::lround(seconds * 1000))) <= 0) return false;
  return ::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
}

Result<> live(const Options &o, int socket) {
  RawTerminal terminal;
  do {
    CKPT_TRY(json status, ask(socket));
    std::cout << "\x1b[H\x1b[2J" << status_table(status, width()) << std::flush;
  } while (!quit_within(o.interval));
  return {};
}

Result<int> run(const Options &o) {
  Result<UniqueFd> socket = connect_unix(o.socket.empty() ? managed::usual_socket() : o.socket);
  if (!socket)
    return fail_with_hint(fmt::format("cannot connect to ckptd: {}", socket.error().what),
                          "start ckptd, or name its socket with --socket or CKPTD_SOCKET");
  CKPT_CHECK(set_receive_timeout(socket->get(), kAnswerTimeout));
  bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  if (terminal && !o.once && !o.as_json) {
    CKPT_CHECK(live(o, socket->get()));
    return 0;
  }
  CKPT_TRY(json status, ask(socket->get()));
  std::cout << (o.as_json ? json_text(status, 2) + "\n" : status_table(status, width()));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  Options o;
  CommandLine line("ckpt-top",
                   "Shows the GPUs and programs of this node's Manager (ckptd). In a terminal, the "
                   "display is refreshed until q is pressed.");
  line.option("--socket", o.socket, "the socket of ckptd").environment(managed::kSocketVariable);
  line.option("--interval", o.interval, "seconds between two refreshes (1)").range(0.05, 3600.0);
  line.flag("--once", o.once, "print the state once");
  line.flag("--json", o.as_json, "print the state once, as JSON");
  return run_tool(line, argc, argv, {.failed = 1, .usage = 2}, [&] { return run(o); });
}
