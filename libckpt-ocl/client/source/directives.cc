// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/source/directives.h"

#include <algorithm>
#include <cctype>

namespace ckpt::ocl {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";
// Of macros in macros, and of names for one operand.
constexpr int kMaxDepth = 8;
constexpr size_t kMaxNames = 256;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view trimmed(std::string_view s) {
  size_t begin = s.find_first_not_of(kBlanks);
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(kBlanks) + 1 - begin);
}

std::string_view take_word(std::string_view &s) {
  s = trimmed(s);
  size_t n = 0;
  while (n < s.size() && is_word(s[n])) n++;
  std::string_view word = s.substr(0, n);
  s.remove_prefix(n);
  return word;
}

// The name between "" or <> at the beginning of `s`; empty: there is none.
std::string_view quoted_name(std::string_view s) {
  if (s.empty() || (s[0] != '"' && s[0] != '<')) return {};
  size_t end = s.find(s[0] == '"' ? '"' : '>', 1);
  return end == s.npos ? std::string_view() : s.substr(1, end - 1);
}

std::string_view without_comment(std::string_view s) {
  return trimmed(s.substr(0, std::min(s.find("//"), s.find("/*"))));
}

void add_operand(std::string_view s, Directives &d) {
  s = trimmed(s);
  if (std::string_view name = quoted_name(s); !name.empty())
    d.includes.emplace_back(name);
  else if (std::string_view operand = without_comment(s); !operand.empty())
    d.operands.emplace_back(operand);
}

void read_condition(std::string_view line, Directives &d) {
  constexpr std::string_view kQuestion = "__has_include";
  for (size_t at; (at = line.find(kQuestion)) != line.npos;) {
    line = trimmed(line.substr(at + kQuestion.size()));
    if (!line.starts_with('(')) continue;
    if (std::string_view name = quoted_name(trimmed(line.substr(1))); !name.empty())
      d.includes.emplace_back(name);
  }
}

void read_macro(std::string_view line, Directives &d) {
  std::string_view name = take_word(line);
  if (line.starts_with('(')) return;  // its arguments are read where it is used
  d.macros.emplace_back(name, without_comment(line));
}

void read_line(std::string_view line, Directives &d) {
  line = trimmed(line);
  if (!line.starts_with('#')) return;
  line.remove_prefix(1);
  std::string_view word = take_word(line);
  if (word == "include" || word == "include_next" || word == "import") return add_operand(line, d);
  if (word == "define") return read_macro(line, d);
  if (word == "if" || word == "elif") read_condition(line, d);
}

// Joins lines that end with a backslash.
std::string joined(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    bool crlf = text.substr(i).starts_with("\\\r\n");
    if (crlf || text.substr(i).starts_with("\\\n"))
      i += crlf ? 2 : 1;
    else
      out += text[i];
  }
  return out;
}

// The words of build options. Quotes group, and a backslash takes the next character as it is.
std::vector<std::string> words_of(std::string_view options) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (size_t i = 0; i < options.size(); i++) {
    char c = options[i];
    bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (blank && quote == 0) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\\' && i + 1 < options.size())
      words.back() += options[++i];
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  return words;
}

// The text of a call's arguments, for STRING(name.h); else the operand itself.
std::string arguments_of(const std::string &operand) {
  size_t n = 0;
  while (n < operand.size() && is_word(operand[n])) n++;
  std::string_view rest = trimmed(std::string_view(operand).substr(n));
  if (n == 0 || !rest.starts_with('(') || !rest.ends_with(')')) return operand;
  return std::string(trimmed(rest.substr(1, rest.size() - 2)));
}

// Replaces the first macro in `text` by each of its bodies.
bool replace_macro(const std::string &text, const MacroBodies &macros,
                   std::vector<std::string> &out) {
  for (size_t at = 0; at < text.size(); at++) {
    if (!is_word(text[at])) continue;
    size_t end = at;
    while (end < text.size() && is_word(text[end])) end++;
    std::string word = text.substr(at, end - at);
    bool found = false;
    for (const auto &[name, body] : macros) {
      if (name != word || body == word) continue;
      found = true;
      out.push_back(text.substr(0, at) + body + text.substr(end));
    }
    if (found) return true;
    at = end;
  }
  return false;
}

// A name without quotes, and without the blanks that stringification drops or keeps.
std::string bare(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '<' || c == '>' || c == '\\'; });
  return std::string(trimmed(text));
}

}  // namespace

Directives read_directives(std::string_view text) {
  Directives d;
  std::string lines = joined(text);
  for (size_t at = 0; at < lines.size();) {
    size_t end = std::min(lines.find('\n', at), lines.size());
    read_line(std::string_view(lines).substr(at, end - at), d);
    at = end + 1;
  }
  return d;
}

SearchOptions read_options(std::string_view options) {
  SearchOptions o;
  std::vector<std::string> words = words_of(options);
  for (size_t i = 0; i < words.size(); i++) {
    std::string_view flag = std::string_view(words[i]).substr(0, 2);
    if (flag != "-I" && flag != "-D") continue;
    std::string value = words[i].substr(2);
    if (value.empty() && i + 1 < words.size()) value = words[++i];
    if (flag == "-I") {
      o.folders.push_back(value);
      continue;
    }
    size_t equals = std::min(value.find('='), value.size());
    o.macros.emplace_back(value.substr(0, equals),
                          value.substr(std::min(equals + 1, value.size())));
  }
  return o;
}

// Every text that arises on the way is a name, too: STRING(DIR/x.h) may or may not expand DIR.
std::vector<std::string> expand_operand(const std::string &operand, const MacroBodies &macros) {
  std::vector<std::string> names, texts{arguments_of(operand)};
  for (int depth = 0; depth < kMaxDepth && !texts.empty() && names.size() < kMaxNames; depth++) {
    std::vector<std::string> next;
    for (const std::string &text : texts) {
      names.push_back(bare(text));
      if (next.size() < kMaxNames && replace_macro(text, macros, next))
        for (std::string &n : next) n = arguments_of(n);
    }
    texts = std::move(next);
  }
  return names;
}

}  // namespace ckpt::ocl
