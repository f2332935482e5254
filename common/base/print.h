// SPDX-License-Identifier: Apache-2.0
//
// What a tool prints, apart from its log (log.h). Names, paths and messages come from programs,
// images and other nodes; on the way to a terminal they must hold nothing but text. So every tool
// prints by these functions, and scripts/prints finds the places that do not.
//
//   print("removed  {}\n", path);   each string among the arguments is made printable (its lines,
//                                   as printable_lines() has them)
//   print_text(table.text());       a text of several lines that was put together before
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "common/base/printable.h"

namespace ckpt {

template <class T>
decltype(auto) as_printed(const T &v) {
  constexpr bool text = std::is_convertible_v<const T &, std::string_view>;
  static_assert(text || std::is_arithmetic_v<T>, "make a string of it first (fmt::format)");
  if constexpr (text)
    return printable_lines(v);
  else
    return (v);
}

template <class... A>
void print_to(FILE *out, fmt::format_string<A...> f, A &&...a) {
  auto format = [&](const auto &...printed) {
    return fmt::vformat(f, fmt::make_format_args(printed...));
  };
  std::string all = format(as_printed(a)...);
  std::fwrite(all.data(), 1, all.size(), out);
}

template <class... A>
void print(fmt::format_string<A...> f, A &&...a) {
  print_to(stdout, f, std::forward<A>(a)...);
}

// As printable(), but all line feeds stay. What the text holds of others must have been made
// printable before, so that no line begins like another message.
inline std::string printable_text(std::string_view text) {
  std::string out;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    out += printable(text.substr(0, end)) + "\n";
  return out + printable(text);
}

inline void print_text(std::string_view text) {
  std::string all = printable_text(text);
  std::fwrite(all.data(), 1, all.size(), stdout);
}

}  // namespace ckpt
