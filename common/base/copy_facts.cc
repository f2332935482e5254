// SPDX-License-Identifier: Apache-2.0
#include "common/base/copy_facts.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace ckpt {
namespace {

constexpr std::string_view kSetting = "set ";

bool is_name(std::string_view name) {
  auto fits = [](unsigned char c) { return c < 0x80 && (std::isalnum(c) || c == '_'); };
  return !name.empty() && std::ranges::all_of(name, fits);
}

template <class T>
bool read_number(std::string_view line, std::string_view name, T &value) {
  if (!line.starts_with(name)) return false;
  line.remove_prefix(name.size());
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc() && end == line.data() + line.size();
}

bool read_line(std::string_view line, CopyFacts &facts) {
  if (!line.starts_with(kSetting))
    return read_number(line, "number ", facts.number) ||
           read_number(line, "copies ", facts.copies) ||
           read_number(line, "generation ", facts.generation);
  auto setting = parse_setting(line.substr(kSetting.size()));
  if (setting) facts.settings.insert(std::move(*setting));
  return setting.has_value();
}

}  // namespace

std::string CopyFacts::text() const {
  std::string all =
      fmt::format("number {}\ncopies {}\ngeneration {}\n", number, copies, generation);
  for (const auto &[name, value] : settings) all += fmt::format("{}{}={}\n", kSetting, name, value);
  return all;
}

std::optional<CopyFacts> CopyFacts::parse(std::string_view text) {
  CopyFacts facts;
  while (!text.empty()) {
    size_t end = text.find('\n');
    if (end == text.npos || !read_line(text.substr(0, end), facts)) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  return facts.number > 0 ? std::optional(std::move(facts)) : std::nullopt;
}

std::optional<std::pair<std::string, std::string>> parse_setting(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == text.npos || !is_name(text.substr(0, equals))) return std::nullopt;
  std::string_view value = text.substr(equals + 1);
  if (value.find_first_of(std::string_view("\n\0", 2)) != value.npos) return std::nullopt;
  return std::pair{std::string(text.substr(0, equals)), std::string(value)};
}

}  // namespace ckpt
