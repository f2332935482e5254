// SPDX-License-Identifier: Apache-2.0
//
// The one place where fmt's own code is compiled. All other files see only its declarations, which
// makes them five times cheaper to compile than with FMT_HEADER_ONLY. Linking libfmt.so instead
// would load it into the application, and the machine of a restore might not have it.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace ckpt {

// With FMT_HEADER_ONLY fmt's functions are inline, so the compiler emits only those that are used.
[[gnu::used]] static std::string (*const to_string)(fmt::string_view,
                                                    fmt::format_args) = &fmt::vformat;
[[gnu::used]] static void (*const to_stdout)(fmt::string_view, fmt::format_args) = &fmt::vprint;
[[gnu::used]] static void (*const to_file)(std::FILE *, fmt::string_view,
                                           fmt::format_args) = &fmt::vprint;
// Of "{:?}". Other files call it where the compiler inlines less than with -O2.
[[gnu::used]] static bool (*const for_escapes)(uint32_t) = &fmt::detail::is_printable;

}  // namespace ckpt
