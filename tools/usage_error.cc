// SPDX-License-Identifier: Apache-2.0
#include "tools/usage_error.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tools/help_text.h"
#include "tools/suggestion.h"

namespace ckpt::tools {
namespace {

// The command that was given, or the tool itself.
const CLI::App &active(const CLI::App &app) {
  std::vector<CLI::App *> given = app.get_subcommands();
  return given.empty() ? app : *given.back();
}

std::string see_help(const CLI::App &app) {
  return fmt::format("{} --help lists the {}", full_name(app),
                     app.get_subcommands({}).empty() ? "options" : "commands");
}

// Their long names, each behind `dashes`.
std::vector<std::string> options_of(const CLI::App &app, const std::string &dashes) {
  std::vector<std::string> names;
  for (const CLI::Option *o : app.get_options()) {
    if (o->get_group().empty()) continue;  // hidden
    for (const std::string &l : o->get_lnames()) names.push_back(dashes + l);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *c : app.get_subcommands({})) names.push_back(c->get_name());
  return names;
}

// The first argument that is no option and no value; an option goes before a value, which may be
// that of the option. CLI11 would rather blame what the value was taken for.
std::optional<std::string> unexpected(const CLI::App &app, int argc, const char *const *argv) {
  std::vector<std::string> left = app.remaining(true);
  auto is_left = [&](const std::string &word) {
    return std::ranges::find(left, word) != left.end();
  };
  std::optional<std::string> value;
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    if (!is_left(word)) continue;
    if (word == "--") continue;
    if (word.starts_with('-') && word.size() > 1) return word;
    if (!value) value = word;
  }
  return value;
}

Error describe_unexpected(const CLI::App &app, const std::string &word) {
  const CLI::App &on = active(app);
  std::string name = word.substr(0, word.find('=')), hint = see_help(on);
  if (word.starts_with('-'))
    return {"there is no option " + name + did_you_mean(name, options_of(on, "--")), hint};
  if (std::vector<std::string> commands = commands_of(on); !commands.empty())
    return {fmt::format("there is no command \"{}\"", word) + did_you_mean(word, commands), hint};
  return {fmt::format("\"{}\" is one argument too many", word), hint};
}

// A required option or argument that was not given.
Error describe_missing(const CLI::App &app) {
  for (const CLI::Option *o : app.get_options())
    if (o->get_required() && o->count() == 0)
      return {fmt::format("{} is missing", o->get_name()), see_help(app)};
  return {"no command was given", see_help(app)};
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  if (size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return text;
}

// A configuration file with a name that is no option.
Error describe_configuration(const CLI::App &app, const CLI::ConfigError &e) {
  std::string what = e.what(), file = app.get_config_ptr()->as<std::string>();
  std::string name = what.substr(what.rfind(' ') + 1);
  return {fmt::format("{}: there is no option \"{}\"", file, name) +
              did_you_mean(name, options_of(app, "")),
          "each line has the form name = value; " + see_help(app)};
}

}  // namespace

Error usage_error(const CLI::App &app, const CLI::ParseError &e, int argc,
                  const char *const *argv) {
  if (auto *c = dynamic_cast<const CLI::ConfigError *>(&e)) return describe_configuration(app, *c);
  if (std::optional<std::string> word = unexpected(app, argc, argv))
    return describe_unexpected(app, *word);
  std::string what = e.what(), name = e.get_name(), hint = see_help(active(app));
  if (name == "RequiredError") return describe_missing(active(app));
  if (name == "ArgumentMismatch") {
    bool twice = what.find("At Most") != std::string::npos;
    return {fmt::format("{} {}", what.substr(0, what.find(':')),
                        twice ? "is given more than once" : "needs a value"),
            hint};
  }
  if (name == "ExcludesError")
    return {replaced(what, " excludes ", " cannot be combined with "), hint};
  if (name == "RequiresError") return {replaced(what, " requires ", " needs "), hint};
  return {what, hint};
}

}  // namespace ckpt::tools
