// SPDX-License-Identifier: Apache-2.0
//
// ckpt-top: shows the state of ckptd, refreshed in a terminal, or once, or as JSON.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "common/base/json_fields.h"
#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/managed/messages.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
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
  int first = 0;  // the first program that is shown
  bool graph = false;
};

TableOptions table_options(const Options &o) {
  return {.width = terminal_size().width, .colours = takes_colours(), .sort = o.sort};
}

TableOptions screen_options(const Options &o, const UsageGraph &graph) {
  TableOptions t = table_options(o);
  if (o.graph) t.graph = &graph;
  t.height = terminal_size().height;
  t.first = o.first;
  return t;
}

bool is_quit(std::optional<char> key) { return key && (*key == 'q' || *key == 'Q'); }

// How many lines a key scrolls; negative: upwards.
int lines_of(char key) {
  int page = std::max(1, terminal_size().height / 2);
  switch (key) {
    case kUp: return -1;
    case kDown: return 1;
    case kPageUp: return -page;
    case kPageDown: return page;
    default: return 0;
  }
}

constexpr const char *kKeys =
    "\nKeys      a p u t m: sort by arrival, PID, user, time, memory\n"
    "          g: how busy each GPU is, and its used memory, a bar for each refresh\n"
    "          arrows, j k, space b: scroll; h or ?: this help; q: quit\n"
    "\nPress any key to go on.\n";

// Until a key is pressed that does not scroll. False: ckpt-top ends.
bool show_help(Screen &screen) {
  constexpr double kUntilPressed = 3600;
  std::istringstream text(table_legend() + kKeys);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  for (int first = 0;;) {
    screen.show(scrolled(lines, 0, first, terminal_size().height));
    std::optional<char> key = screen.key(kUntilPressed);
    int moved = key ? lines_of(*key) : 0;
    if (moved == 0) return !is_quit(key);
    first = std::clamp(first + moved, 0, static_cast<int>(lines.size()));
  }
}

// What a key changes. False: ckpt-top ends.
bool obey(char key, Options &o, Screen &screen, int programs) {
  for (const std::string &sorting : kSortings)
    if (key == sorting[0]) o.sort = sorting;
  if (key == 'h' || key == '?') return show_help(screen);
  if (key == 'g') o.graph = !o.graph;
  o.first = std::clamp(o.first + lines_of(key), 0, programs);
  return !is_quit(key);
}

// A ckptd that ends, as for an update, may come back.
Result<json> status_again(const Options &o, UniqueFd &socket) {
  Result<json> status = manager_status(socket.get());
  if (status) return status;
  CKPT_TRY(socket, connect_manager(o.socket));
  return manager_status(socket.get());
}

void live(Options o, UniqueFd socket) {
  Screen screen;
  UsageGraph graph(has_utf8_locale());
  for (;;) {
    Result<json> status = status_again(o, socket);
    if (status) graph.add(*status);
    int programs = status ? static_cast<int>(json_list(*status, "programs").size()) : 0;
    screen.show(status ? status_table(*status, screen_options(o, graph))
                       : printable_lines(status.error().text()) + "\nTrying again; q: quit\n");
    std::optional<char> key = screen.key(o.interval);
    if (key && !obey(*key, o, screen, programs)) return;
  }
}

Result<int> run(const Options &o) {
  CKPT_TRY(UniqueFd socket, connect_manager(o.socket));
  bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  if (terminal && !o.once && !o.as_json) {
    live(o, std::move(socket));
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
  return run_tool_with_json(line, argc, argv, 1, o.as_json, [&] { return run(o); });
}
