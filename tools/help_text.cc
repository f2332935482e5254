// SPDX-License-Identifier: Apache-2.0
#include "tools/help_text.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace ckpt::tools {
namespace {

constexpr size_t kWidth = 80, kTextAt = 28;

size_t columns_of(const std::string &utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(utf8, [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

// Breaks `text` into lines. The first begins at column `at`, the others at `indent`.
std::string wrapped(const std::string &text, size_t at, size_t indent) {
  std::string out;
  std::istringstream words(text);
  bool begun = false;
  for (std::string word; words >> word; begun = true) {
    size_t columns = columns_of(word);
    if (begun && at + 1 + columns > kWidth) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (begun) {
      out += " ";
      at++;
    }
    out += word;
    at += columns;
  }
  return out;
}

std::string paragraphs(const std::string &text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += wrapped(line, 0, 0) + "\n";
  return out;
}

// One row: a name, and what it is.
std::string row(const std::string &name, const std::string &text) {
  std::string left = "  " + name;
  if (left.size() + 2 > kTextAt) return left + "\n" + row("", text);
  left.resize(kTextAt, ' ');
  return left + wrapped(text, kTextAt, kTextAt) + "\n";
}

// "-o, --output=FOLDER", "--suspend[=full|memory]"
std::string name_of(const CLI::Option &o) {
  std::string out;
  for (const std::string &s : o.get_snames()) out += "-" + s + ", ";
  for (const std::string &l : o.get_lnames()) out += "--" + l;
  if (o.get_type_name().empty()) return out;
  bool optional = o.get_items_expected_min() == 0;
  return out + (optional ? "[=" : "=") + o.get_type_name() + (optional ? "]" : "");
}

std::string text_of(const CLI::Option &o) {
  std::string text = o.get_description();
  if (!o.get_default_str().empty() && !o.get_required())
    text += fmt::format(" (default: {})", o.get_default_str());
  if (!o.get_envname().empty()) text += fmt::format(" (environment: {})", o.get_envname());
  return text;
}

std::string usage(const CLI::App &app, const std::string &more) {
  std::string line = "Usage: " + full_name(app) + " [OPTIONS]";
  if (!app.get_subcommands({}).empty()) line += " COMMAND";
  for (const CLI::Option *o : app.get_options()) {
    if (!o->get_positional()) continue;
    const std::string name = o->get_name(true) + (o->get_items_expected_max() > 1 ? " …" : "");
    line += o->get_required() ? " " + name : " [" + name + "]";
  }
  return line + (more.empty() ? "" : " " + more) + "\n";
}

// Rows under a title; nothing if there are none.
std::string titled(const std::string &title, const std::string &rows) {
  return rows.empty() ? "" : "\n" + title + ":\n" + rows;
}

}  // namespace

std::string full_name(const CLI::App &app) {
  const CLI::App *above = app.get_parent();
  return above ? above->get_name() + " " + app.get_name() : app.get_name();
}

std::string help_text(const CLI::App &app, const std::string &more) {
  std::string arguments, options, commands;
  for (const CLI::Option *o : app.get_options()) {
    if (o->get_group().empty()) continue;  // hidden
    if (o->get_positional())
      arguments += row(o->get_name(true), text_of(*o));
    else
      options += row(name_of(*o), text_of(*o));
  }
  for (const CLI::App *c : app.get_subcommands({}))
    commands += row(c->get_name(), c->get_description());
  return usage(app, more) + "\n" + paragraphs(app.get_description()) +
         titled("Arguments", arguments) + titled("Options", options) + titled("Commands", commands);
}

}  // namespace ckpt::tools
