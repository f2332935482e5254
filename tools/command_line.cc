// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/shortage.h"
#include "tools/help_text.h"
#include "tools/suggestion.h"
#include "tools/usage_error.h"
#include "tools/version.h"

namespace ckpt::tools {

Option &Option::required() {
  option_->required();
  return *this;
}

// Refuses a value that does not pass `check`, which returns what is wrong with it. Without a
// description, so that --help shows only the value's name.
Option &Option::refuse_unless(const std::function<std::string(std::string &)> &check) {
  option_->check(CLI::Validator(check, ""));
  return *this;
}

template <class T>
std::string outside(const std::string &text, T min, T max) {
  T value{};
  if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return {};
  return fmt::format("\"{}\" is not a number from {} to {}", text, min, max);
}

Option &Option::range(int min, int max) {
  return refuse_unless([=](const std::string &text) { return outside(text, min, max); });
}

Option &Option::range(double min, double max) {
  return refuse_unless([=](const std::string &text) { return outside(text, min, max); });
}

Option &Option::one_of(const std::vector<std::string> &values) {
  option_->type_name(fmt::format("{}", fmt::join(values, "|")));
  return refuse_unless([=](const std::string &text) -> std::string {
    if (std::ranges::find(values, text) != values.end()) return {};
    return fmt::format("\"{}\" is not one of {}", text, fmt::join(values, ", ")) +
           did_you_mean(text, values);
  });
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

Option &Option::default_is(const std::string &text) {
  option_->default_str(text);
  return *this;
}

Option &Option::hide() {
  option_->group("");
  return *this;
}

std::optional<u64> parse_size(std::string text) {
  u64 bytes = 0;
  try {
    CLI::AsSizeValue(false)(text);
  } catch (const CLI::ValidationError &) {
    return {};
  }
  if (!CLI::detail::lexical_cast(text, bytes)) return {};
  return bytes;
}

namespace {

// "64M": the form that parse_size() reads.
std::string size_text(u64 bytes) {
  static constexpr std::string_view kUnits = "KMGT";
  size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit < kUnits.size(); unit++) bytes /= 1024;
  return std::to_string(bytes) + (unit > 0 ? std::string(1, kUnits[unit - 1]) : "");
}

// "-o,--output=FOLDER" consists of names and the name of the value.
struct Declared {
  explicit Declared(const std::string &text)
      : names(text.substr(0, text.find('='))),
        value(names.size() < text.size() ? text.substr(names.size() + 1) : "") {}
  std::string names, value;
};

template <class T>
struct Inner {
  using Type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using Type = T;
};

// What --help says of the default. A value that may be absent, or an empty text, has none.
template <class T>
std::string default_of(const T &value) {
  if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>)
    return fmt::format("{}", value);
  else
    return {};
}

template <class T>
std::string no_number(const std::string &text) {
  T value{};
  if (CLI::detail::lexical_cast(text, value)) return {};
  bool digits = text.find_first_not_of("0123456789") == text.npos && !text.empty();
  if (digits) return fmt::format("\"{}\" is too large", text);
  return fmt::format("\"{}\" is not a {}number", text, std::is_integral_v<T> ? "whole " : "");
}

}  // namespace

CommandLine::CommandLine(const char *tool, const std::string &description)
    : owned_(std::make_unique<CLI::App>(description, tool)), app_(owned_.get()) {
  log::set_name(tool);
  app_->set_help_flag("-h,--help", "print this help and exit");
  app_->set_version_flag(
      "--version",
      [this, tool] { return version_text(tool) + (more_version_ ? "\n" + more_version_() : ""); },
      "print the version and exit");
}

CommandLine::CommandLine(CLI::App *command) : app_(command) {}
CommandLine::CommandLine(CommandLine &&) noexcept = default;
CommandLine::~CommandLine() = default;

void CommandLine::version_also(std::function<std::string()> more) {
  more_version_ = std::move(more);
}

void CommandLine::followed_by(const std::string &usage) { usage_ = usage; }

Option CommandLine::flag(const std::string &names, bool &value, const std::string &help) {
  return Option(app_->add_flag(names, value, help));
}

Option CommandLine::flag_of(const std::string &name, std::string &value,
                            const std::vector<std::string> &values, const std::string &help) {
  return Option(app_->add_flag(name + "{" + values.front() + "}", value, help)).one_of(values);
}

template <class T>
Option CommandLine::option(const std::string &names, T &value, const std::string &help) {
  using Number = typename Inner<T>::Type;
  Declared declared(names);
  CLI::Option *option = app_->add_option(declared.names, value, help);
  option->default_str(default_of(value));
  option->type_name(declared.value);
  Option declaration(option);
  if constexpr (std::is_arithmetic_v<Number>) declaration.refuse_unless(no_number<Number>);
  return declaration;
}

Option CommandLine::repeated(const std::string &names, std::vector<std::string> &values,
                             const std::string &help) {
  Declared declared(names);
  CLI::Option *option = app_->add_option(declared.names, values, help);
  option->allow_extra_args(option->get_positional());
  option->type_name(declared.value);
  return Option(option);
}

Option CommandLine::size_option(const std::string &names, u64 &bytes, const std::string &help) {
  Declared declared(names);
  CLI::Option *option = app_->add_option(declared.names, bytes, help);
  option->type_name(declared.value);
  option->transform(CLI::Validator(
      [](std::string &text) -> std::string {
        std::optional<u64> size = parse_size(text);
        if (!size) return fmt::format("\"{}\" is not a size, such as 512M or 2G", text);
        text = std::to_string(*size);
        return {};
      },
      ""));
  return Option(option).default_is(size_text(bytes));
}

void CommandLine::configuration_file(const std::string &names, const std::string &path,
                                     const std::string &help) {
  Declared declared(names);
  app_->set_config(declared.names, path, help)->type_name(declared.value);
  // A misspelt limit would not limit anything.
  app_->allow_config_extras(CLI::config_extras_mode::error);
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
template Option CommandLine::option(const std::string &, std::optional<double> &,
                                    const std::string &);

CommandLine CommandLine::command(const std::string &name, const std::string &help) {
  app_->require_subcommand(1);
  return CommandLine(app_->add_subcommand(name, help));
}

bool CommandLine::given() const { return app_->parsed(); }

std::optional<int> CommandLine::parse(int argc, const char *const *argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    print_text(help());
    return 0;
  } catch (const CLI::CallForVersion &e) {
    print_text(std::string(e.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError &e) {
    return fail_with_code(kWrongUsage, usage_error(*app_, e, argc, argv));
  }
  return std::nullopt;
}

std::string CommandLine::help() const {
  std::vector<CLI::App *> given = app_->get_subcommands();
  return help_text(given.empty() ? *app_ : *given.back(), usage_);
}

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

// Whether the C++ library ends the tool because something is short. While an exception unwinds the
// stack, a destructor cannot go on (that of a thread that runs): only a shortage throws.
bool is_shortage() {
  if (std::uncaught_exceptions() > 0) return true;
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc &) {
    return true;
  } catch (const std::system_error &e) {
    return e.code() == std::errc::resource_unavailable_try_again ||
           e.code() == std::errc::not_enough_memory;
  } catch (...) {
  }
  return false;
}

// The last resort for a shortage of memory where no exception can pass: in a destructor (that of
// nlohmann's json allocates), or in a thread of a library. What the tool holds is then released by
// the kernel, as after a SIGKILL: a keeper and its agents undo an unfinished dump.
[[noreturn]] void give_up() {
  static constexpr std::string_view kMessage =
      "error: not enough memory (free memory, or raise its limit: ulimit -v, the cgroup's limit)\n";
  if (!is_shortage()) std::abort();
  if (::write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) { /* there is no reader */
  }
  ::_exit(code_of_failure);
}

}  // namespace

int fail_with_code(int code, const Error &error) {
  log::error(error);
  return code;
}

int run_tool(CommandLine &line, int argc, const char *const *argv, int failed,
             const std::function<Result<int>()> &run) {
  if (std::optional<int> code = line.parse(argc, argv)) return *code;
  survive_file_size_limit();
  code_of_failure = failed;
  std::set_terminate(give_up);
  Result<int> code = guarded(run);
  return code ? *code : fail_with_code(failed, code.error());
}

}  // namespace ckpt::tools
