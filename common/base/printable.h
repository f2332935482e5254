// SPDX-License-Identifier: Apache-2.0
//
// Escapes text from untrusted sources: names of processes and files, command lines, text from
// images and agents. Such text may hold a terminal's control sequences, line feeds that imitate a
// message of ours, or a path to somewhere else.
#pragma once

#include <string>
#include <string_view>

namespace ckpt {

// `text` on one line, for a terminal or a log. Keeps UTF-8. Control characters, line feeds
// included, marks that change the writing direction, and bytes that are not UTF-8 become \xNN. What
// exceeds `max_bytes` is cut off and replaced by "...".
std::string printable(std::string_view text, size_t max_bytes = std::string_view::npos);

// The same for a text of several lines: a line feed stays if two blanks follow it, as before the
// items of a list. So no line begins like another message.
std::string printable_lines(std::string_view text);

// `text` as a part of a file's name: only letters, digits, '.', '_', '+' and '-', not '.' at the
// beginning, and at most 64 bytes. Everything else becomes '_'.
std::string name_part(std::string_view text);

}  // namespace ckpt
