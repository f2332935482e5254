// SPDX-License-Identifier: Apache-2.0
//
// The command line of a tool, and the skeleton of its main(). CLI11 takes seconds to compile, so
// only command_line.cc includes it.
//
//   int main(int argc, char **argv) {
//     Options o;
//     CommandLine line("ckpt-dump", "Writes an image of a running program.");
//     line.option("pid", o.pid, "any process of the program").required();
//     line.flag("--overwrite", o.overwrite, "replace an existing image");
//     return run_tool(line, argc, argv, {.failed = 1, .usage = 2}, [&] { return dump(o); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ckpt::tools {

// One declared option. Its methods return it again, so that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option *option) : option_(option) {}
  Option &required();
  // Values outside of [min, max] are refused.
  Option &range(int min, int max);
  Option &range(double min, double max);
  Option &one_of(const std::vector<std::string> &values);
  // The default is the value of an environment variable.
  Option &environment(const std::string &variable);
  Option &needs(const Option &other);
  Option &excludes(const Option &other);
  // Leaves it out of --help.
  Option &hide();

 private:
  CLI::Option *option_;
};

class CommandLine {
 public:
  // `tool` must outlive the process: it also names the tool in its log lines. --help and --version
  // are declared already.
  CommandLine(const char *tool, const std::string &description);
  CommandLine(CommandLine &&) noexcept;
  ~CommandLine();

  // `names`: "-o,--output", or without dashes a positional argument.
  Option flag(const std::string &names, bool &value, const std::string &help);
  // T: std::string, int, unsigned, u64, double, or std::optional of int, unsigned or u64.
  template <class T>
  Option option(const std::string &names, T &value, const std::string &help);
  // A command such as `ckpt-image show`, with options of its own. Exactly one must be given.
  CommandLine command(const std::string &name, const std::string &help);
  // After parse(): this command was given.
  bool given() const;

  // No value: the arguments are right. Otherwise a message, or the text that --help or --version
  // asks for, was printed; the value is the exit code, `usage` if the arguments are wrong.
  std::optional<int> parse(int argc, const char *const *argv, int usage);
  std::string help() const;
  // The number of arguments before the first one that is neither an option nor the value of an
  // option. "--" ends the options and is counted.
  int count_options(int argc, const char *const *argv) const;

 private:
  explicit CommandLine(CLI::App *command);
  std::unique_ptr<CLI::App> owned_;  // null for a command, which belongs to its tool
  CLI::App *app_;
};

struct ExitCodes {
  int failed;
  int usage;
};

// Logs `error` and returns `code`.
int fail_with_code(int code, const Error &error);

// Parses the command line and runs the tool. `run` returns the exit code; its error is logged, and
// the exit code is then `codes.failed`. A shortage of memory, threads or file size is such an error
// too, whatever the tool was doing: what it holds is released on the way, which undoes its work.
int run_tool(CommandLine &line, int argc, const char *const *argv, ExitCodes codes,
             const std::function<Result<int>()> &run);

}  // namespace ckpt::tools
