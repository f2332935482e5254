// SPDX-License-Identifier: Apache-2.0
//
// Lines, words and numbers of a text, without copies and without exceptions.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt {

// The lines of a text; a last one without an end counts. They lie in the text, so a temporary
// string is refused.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(lines.back().size() + 1, text.size()));
  }
  return lines;
}
std::vector<std::string_view> lines_of(std::string &&) = delete;

// Takes the next word from the line; "": there is none.
inline std::string_view next_word(std::string_view &line) {
  constexpr const char *kSpace = " \t\n";
  size_t begin = std::min(line.find_first_not_of(kSpace), line.size());
  size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
  std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

inline std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::string_view word; !(word = next_word(line)).empty();) words.push_back(word);
  return words;
}
std::vector<std::string_view> words_of(std::string &&) = delete;

// True if the whole word is a number, which may begin with 0x if the base is 16.
template <class T>
bool parse_number(std::string_view word, T &value, int base = 10) {
  if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return error == std::errc() && end == word.data() + word.size();
}

// The number that a text begins with, behind blanks; `otherwise` if there is none.
template <class T>
T leading_number(std::string_view text, T otherwise, int base = 10) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  T value{};
  return std::from_chars(text.data(), text.data() + text.size(), value, base).ec == std::errc()
             ? value
             : otherwise;
}

// What follows `name` in the first line that begins with it; "": no line does.
inline std::string_view after_name(std::string_view text, std::string_view name) {
  for (std::string_view line : lines_of(text))
    if (line.starts_with(name)) return line.substr(name.size());
  return {};
}

}  // namespace ckpt
