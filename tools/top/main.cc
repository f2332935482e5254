// SPDX-License-Identifier: Apache-2.0
//
// ckpt-top: shows the state of ckptd, refreshed in a terminal, or once, or as JSON.
#include <unistd.h>

#include "common/base/print.h"
#include "common/managed/messages.h"
#include "tools/command_line.h"
#include "tools/json_text.h"
#include "tools/manager_status.h"
#include "tools/top/screen.h"
#include "tools/top/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

struct Options {
  std::string socket, sort = kSortings[0];
  double interval = 1;
  bool once = false, as_json = false;
};

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
  return !next || (*next != 'q' && *next != 'Q');
}

Result<> live(Options o, int socket) {
  Screen screen;
  for (;;) {
    CKPT_TRY(json status, manager_status(socket));
    screen.show(status_table(status, table_options(o)));
    std::optional<char> key = screen.key(o.interval);
    if (key && !obey(*key, o, screen)) return {};
  }
}

Result<int> run(const Options &o) {
  CKPT_TRY(UniqueFd socket, connect_manager(o.socket));
  bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  if (terminal && !o.once && !o.as_json) {
    CKPT_CHECK(live(o, socket.get()));
    return 0;
  }
  CKPT_TRY(json status, manager_status(socket.get()));
  print_text(o.as_json ? json_text(status, 2) + "\n" : status_table(status, table_options(o)));
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
