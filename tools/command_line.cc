// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/bytes.h"
#include "common/base/log.h"
#include "common/base/shortage.h"

namespace ckpt::tools {

Option &Option::required() {
  option_->required();
  return *this;
}

Option &Option::range(int min, int max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Option &Option::range(double min, double max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Option &Option::one_of(const std::vector<std::string> &values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option &Option::environment(const std::string &variable) {
  option_->envname(variable);
  return *this;
}

Option &Option::needs(const Option &other) {
  option_->needs(other.option_);
  return *this;
}

Option &Option::excludes(const Option &other) {
  option_->excludes(other.option_);
  return *this;
}

Option &Option::hide() {
  option_->group("");
  return *this;
}

CommandLine::CommandLine(const char *tool, const std::string &description)
    : owned_(std::make_unique<CLI::App>(description, tool)), app_(owned_.get()) {
  log::set_name(tool);
  app_->set_version_flag("--version", CKPT_VERSION);
}

CommandLine::CommandLine(CLI::App *command) : app_(command) {}
CommandLine::CommandLine(CommandLine &&) noexcept = default;
CommandLine::~CommandLine() = default;

Option CommandLine::flag(const std::string &names, bool &value, const std::string &help) {
  return Option(app_->add_flag(names, value, help));
}

template <class T>
Option CommandLine::option(const std::string &names, T &value, const std::string &help) {
  return Option(app_->add_option(names, value, help));
}

template Option CommandLine::option(const std::string &, std::string &, const std::string &);
template Option CommandLine::option(const std::string &, int &, const std::string &);
template Option CommandLine::option(const std::string &, unsigned &, const std::string &);
template Option CommandLine::option(const std::string &, u64 &, const std::string &);
template Option CommandLine::option(const std::string &, double &, const std::string &);
template Option CommandLine::option(const std::string &, std::optional<int> &, const std::string &);
template Option CommandLine::option(const std::string &, std::optional<unsigned> &,
                                    const std::string &);
template Option CommandLine::option(const std::string &, std::optional<u64> &, const std::string &);

CommandLine CommandLine::command(const std::string &name, const std::string &help) {
  app_->require_subcommand(1);
  return CommandLine(app_->add_subcommand(name, help));
}

bool CommandLine::given() const { return app_->parsed(); }

std::optional<int> CommandLine::parse(int argc, const char *const *argv, int usage) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app_->exit(e) == 0 ? 0 : usage;
  }
  return std::nullopt;
}

std::string CommandLine::help() const { return app_->help(); }

int CommandLine::count_options(int argc, const char *const *argv) const {
  int at = 1;
  for (; at < argc; at++) {
    std::string_view word = argv[at];
    if (word == "--") return at + 1;
    if (!word.starts_with('-')) break;
    const CLI::Option *option = app_->get_option_no_throw(std::string(word));
    if (option && option->get_items_expected_min() > 0) at++;
  }
  return std::min(at, argc);
}

namespace {

int code_of_failure = 1;

// The last resort for a shortage of memory where no exception can pass: in a destructor (that of
// nlohmann's json allocates), or in a thread of a library. What the tool holds is then released by
// the kernel, as after a SIGKILL: a keeper and its agents undo an unfinished dump.
[[noreturn]] void give_up() {
  static constexpr std::string_view kMessage =
      "error: not enough memory (free memory, or raise its limit: ulimit -v, the cgroup's limit)\n";
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc &) {
    if (::write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) { /* there is no reader */
    }
    ::_exit(code_of_failure);
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int fail_with_code(int code, const Error &error) {
  log::error(error);
  return code;
}

int run_tool(CommandLine &line, int argc, const char *const *argv, ExitCodes codes,
             const std::function<Result<int>()> &run) {
  if (std::optional<int> code = line.parse(argc, argv, codes.usage)) return *code;
  survive_file_size_limit();
  code_of_failure = codes.failed;
  std::set_terminate(give_up);
  Result<int> code = guarded(run);
  return code ? *code : fail_with_code(codes.failed, code.error());
}

}  // namespace ckpt::tools
