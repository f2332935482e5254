// SPDX-License-Identifier: Apache-2.0
//
// ckpt-top: shows the state of ckptd, refreshed in a terminal, or once, or as JSON.
#include <unistd.h>

#include <iostream>

#include "common/ipc/unix_socket.h"
#include "common/managed/messages.h"
#include "common/managed/socket.h"
#include "tools/command_line.h"
#include "tools/json_text.h"
#include "tools/top/screen.h"
#include "tools/top/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAnswerTimeout{10};

struct Options {
  std::string socket, sort = kSortings[0];
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

TableOptions table_options(const Options &o) {
  return {.width = terminal_width(), .colours = takes_colours(), .sort = o.sort};
}

constexpr const char *kKeys =
    "\nKeys      a p u t m: sort by arrival, PID, user, time, memory\n"
    "          h or ?: this help; q: quit\n"
    "\nPress any key to go on.\n";

// What a key changes. False: ckpt-top ends.
bool obey(char key, Options &o, Screen &screen) {
  constexpr double kUntilPressed = 3600;
  for (const std::string &sorting : kSortings)
    if (key == sorting[0]) o.sort = sorting;
  if (key != 'h' && key != '?') return key != 'q' && key != 'Q';
  screen.show(table_legend() + kKeys);
  std::optional<char> next = screen.key(kUntilPressed);
  return next != 'q' && next != 'Q';
}

Result<> live(Options o, int socket) {
  Screen screen;
  for (;;) {
    CKPT_TRY(json status, ask(socket));
    screen.show(status_table(status, table_options(o)));
    std::optional<char> key = screen.key(o.interval);
    if (key && !obey(*key, o, screen)) return {};
  }
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
  std::cout << (o.as_json ? json_text(status, 2) + "\n" : status_table(status, table_options(o)));
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
                   "display is refreshed until q is pressed; h explains columns and keys.\n"
                   "Exit code 0: success; 1: failure; 125: the arguments are wrong.");
  line.option("--socket=PATH", o.socket, "the socket of ckptd")
      .environment(managed::kSocketVariable);
  line.option("--interval=SECONDS", o.interval, "seconds between two refreshes")
      .range(0.05, 3600.0);
  line.option("--sort", o.sort, "the order of the programs").one_of(kSortings);
  line.flag("--once", o.once, "print the state once");
  line.flag("--json", o.as_json, "print the state once, as JSON");
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
