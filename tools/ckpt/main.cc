// SPDX-License-Identifier: Apache-2.0
//
// ckpt: `ckpt dump PID` is `ckpt-dump PID`. The tool takes this process's place, with its messages,
// its options and its exit codes.
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/log.h"
#include "tools/command_line.h"
#include "tools/device/apis.h"

namespace ckpt::tools {
namespace {

struct Command {
  const char *name;
  const char *does;
};

// Services have no command: systemd starts them.
constexpr Command kCommands[] = {
    {"run", "run a program so that it can be checkpointed; list devices"},
    {"dump", "write an image of a running program, or suspend the program"},
    {"restore", "start a program again from an image, or resume a suspended one"},
    {"start", "start copies of an image at the same time"},
    {"migrate", "move a running program to another machine"},
    {"image", "list, show, verify, compare, flatten and prune images"},
    {"ps", "list the programs that can be checkpointed"},
    {"history", "list the dumps and restores of the past"},
    {"top", "show the GPUs and programs of a Manager"},
    {"sim", "simulate the scheduling of jobs that can be moved"},
    {"node-bench", "measure a node's bandwidths for the contention model"},
    {"fatbin", "show the CUDA device code in a file"},
};

constexpr const char *kHelp = "help";

bool is_command(const std::string &word) {
  for (const Command &c : kCommands)
    if (word == c.name) return true;
  return false;
}

void execute(const std::vector<std::string> &words) {
  std::vector<char *> argv;
  for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
}

int become(const std::string &command, int argc, char **argv) {
  std::vector<std::string> words{sibling_tool("ckpt-" + command)};
  words.insert(words.end(), argv, argv + argc);
  execute(words);
  Failure why = fail_errno("cannot execute {}", words[0]);
  return fail_with_code(kWrongUsage, {why.value().what, "install ckpt's tools in one folder"});
}

// `ckpt help dump`: the manual page, or a summary where there is none.
int show_page(const std::string &command) {
  execute({"man", "ckpt-" + command});
  std::string option = "--help";
  char *argv[] = {option.data()};
  return become(command, 1, argv);
}

int main_of(int argc, char **argv) {
  CommandLine line("ckpt",
                   "Runs one of ckpt's tools: ckpt dump PID is ckpt-dump PID.\n"
                   "Returns what the tool returns; exit code 125: there is no such command.");
  for (const Command &c : kCommands) line.command(c.name, c.does);
  line.command(kHelp, "show the manual page of a command: ckpt help dump");
  std::string word = argc > 1 ? argv[1] : "";
  if (is_command(word)) return become(word, argc - 2, argv + 2);
  if (word == kHelp && argc == 3 && is_command(argv[2])) return show_page(argv[2]);
  if (word == kHelp && argc == 2) {
    execute({"man", "ckpt"});
    char option[] = "--help";
    char *help[] = {argv[0], option, nullptr};
    return line.parse(2, help).value_or(0);
  }
  if (word == kHelp)
    return fail_with_code(
        kWrongUsage, {"there is no manual page of that name", "ckpt --help lists the commands"});
  return line.parse(argc, argv).value_or(0);
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) { return ckpt::tools::main_of(argc, argv); }
