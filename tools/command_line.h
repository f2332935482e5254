// SPDX-License-Identifier: Apache-2.0
//
// The command line of a tool, and the skeleton of its main(). CLI11 takes seconds to compile, so
// only command_line.cc includes it.
//
//   int main(int argc, char **argv) {
//     Options o;
//     CommandLine line("ckpt-dump", "Writes an image of a running program.");
//     line.option("PID", o.pid, "any process of the program").required();
//     line.option("-o,--output=FOLDER", o.image, "the image's folder");
//     line.flag("--overwrite", o.overwrite, "replace an existing image");
//     return run_tool(line, argc, argv, 1, [&] { return dump(o); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ckpt::tools {

// The exit code of every tool if its arguments are wrong: the one that env(1), timeout(1) and
// docker-run(1) have for an error of their own. ckpt-run and ckpt-restore return the exit codes of
// programs, in which 1 and 2 are common.
constexpr int kWrongUsage = 125;

// One declared option. Its methods return it again, so that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option *option) : option_(option) {}
  Option &required();
  // Values outside of [min, max] are refused.
  Option &range(int min, int max);
  Option &range(double min, double max);
  // Also names the value: --victim=requester|cheapest.
  Option &one_of(const std::vector<std::string> &values);
  // The default is the value of an environment variable.
  Option &environment(const std::string &variable);
  Option &needs(const Option &other);
  Option &excludes(const Option &other);
  // The default as --help shows it, if the variable's value does not show it.
  Option &default_is(const std::string &text);
  Option &refuse_unless(const std::function<std::string(std::string &)> &check);
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

  // A further line of --version.
  void version_also(std::function<std::string()> more);
  // What follows the options and arguments in the line of usage: "[--] PROGRAM".
  void followed_by(const std::string &usage);

  // `names`: "-o,--output=FOLDER", with the name of the value for --help; "PID", without dashes, is
  // a positional argument. --help shows the value that the variable has now as the default.
  Option flag(const std::string &names, bool &value, const std::string &help);
  // A flag that may have one of these values: --suspend[=full|memory]. Without one, it has the
  // first.
  Option flag_of(const std::string &name, std::string &value,
                 const std::vector<std::string> &values, const std::string &help);
  // T: std::string, int, unsigned, u64, double, or std::optional of a number.
  template <class T>
  Option option(const std::string &names, T &value, const std::string &help);
  // May be given more than once, with one value each time. Without dashes: any number of arguments.
  Option repeated(const std::string &names, std::vector<std::string> &values,
                  const std::string &help);
  // With a unit: 512M, 2G.
  Option size_option(const std::string &names, u64 &bytes, const std::string &help);
  // An option that names a file with any of the options, as lines of the form name = value.
  void configuration_file(const std::string &names, const std::string &path,
                          const std::string &help);
  // A command such as `ckpt-image show`, with options of its own. Exactly one must be given.
  CommandLine command(const std::string &name, const std::string &help);
  // After parse(): this command was given.
  bool given() const;

  // No value: the arguments are right. Otherwise a message, or the text that --help or --version
  // asks for, was printed; the value is the exit code.
  std::optional<int> parse(int argc, const char *const *argv);
  std::string help() const;
  // The number of arguments before the first one that is neither an option nor the value of an
  // option. "--" ends the options and is counted.
  int count_options(int argc, const char *const *argv) const;

 private:
  explicit CommandLine(CLI::App *command);
  std::unique_ptr<CLI::App> owned_;  // null for a command, which belongs to its tool
  CLI::App *app_;
  std::string usage_;
  std::function<std::string()> more_version_;
};

// "512M", "2G" or a number of bytes; nothing if `text` is none of these.
std::optional<u64> parse_size(std::string text);

// Logs `error` and returns `code`.
int fail_with_code(int code, const Error &error);

// Parses the command line and runs the tool. `run` returns the exit code; its error is logged, and
// the exit code is then `failed`. A shortage of memory, threads or file size is such an error
// too, whatever the tool was doing: what it holds is released on the way, which undoes its work.
int run_tool(CommandLine &line, int argc, const char *const *argv, int failed,
             const std::function<Result<int>()> &run);

}  // namespace ckpt::tools
