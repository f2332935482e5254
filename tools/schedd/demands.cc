// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/demands.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

constexpr unsigned kMostParentheses = 32;

// expression := term ('&' term)* | term ('|' term)*; term := NAME | '(' expression ')'
class Constraint {
 public:
  Constraint(std::string_view text, const std::vector<std::string> &features)
      : rest_(text), features_(features) {}

  std::optional<bool> value() {
    std::optional<bool> all = expression(0);
    return rest_.empty() ? all : std::nullopt;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<bool> expression(unsigned depth) {
    std::optional<bool> all = term(depth);
    const char joint = rest_.starts_with('|') ? '|' : '&';
    while (all && take(joint)) {
      std::optional<bool> next = term(depth);
      if (!next) return {};
      all = joint == '|' ? *all || *next : *all && *next;
    }
    return all;
  }

  std::optional<bool> term(unsigned depth) {
    if (take('(')) {
      if (depth == kMostParentheses) return {};
      std::optional<bool> inner = expression(depth + 1);
      return take(')') ? inner : std::nullopt;
    }
    std::string_view name = rest_.substr(0, rest_.find_first_of("&|()[]*,: "));
    if (name.empty()) return {};
    rest_.remove_prefix(name.size());
    return std::ranges::find(features_, name) != features_.end();
  }

  std::string_view rest_;
  const std::vector<std::string> &features_;
};

}  // namespace

std::optional<bool> satisfies(const std::vector<std::string> &features,
                              std::string_view constraint) {
  if (constraint.empty()) return true;
  return Constraint(constraint, features).value();
}

}  // namespace ckpt::tools
