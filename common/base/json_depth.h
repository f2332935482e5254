// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace ckpt {

// The depth to which arrays and objects of a JSON text are nested, or more if the text is not JSON.
// The JSON library copies and prints a value by recursion, so a text from elsewhere with a million
// brackets would use up the stack. It is counted before the parser runs: the parser's own callback
// costs time in proportion to the number of values already in the list (nlohmann 3.11,
// json_sax_dom_callback_parser::end_object), so a list of n objects took n² steps.
inline int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;  // the next character is a part of the string
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace ckpt
