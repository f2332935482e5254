// SPDX-License-Identifier: Apache-2.0
//
// The one place where fmt's own code is compiled. Everybody else sees only its declarations, which
// makes a source file five times cheaper to compile than FMT_HEADER_ONLY everywhere; and there is
// no libfmt.so to load into somebody else's process, or to miss on the machine of a restore.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace ckpt {

// In this mode fmt's functions are inline: what is not used is not there.
[[gnu::used]] static std::string (*const to_string)(fmt::string_view,
                                                    fmt::format_args) = &fmt::vformat;
[[gnu::used]] static void (*const to_stdout)(fmt::string_view, fmt::format_args) = &fmt::vprint;
[[gnu::used]] static void (*const to_file)(std::FILE *, fmt::string_view,
                                           fmt::format_args) = &fmt::vprint;

}  // namespace ckpt
