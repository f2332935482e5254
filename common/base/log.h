// SPDX-License-Identifier: Apache-2.0
//
// One line to standard error: "ckpt-dump: warning: …". Inside an application's process it must not
// disturb: one write(2), no allocation kept, no lock held. CKPT_LOG=debug|info|warn|error|off sets
// the least level that is shown (default warn); CKPT_LOG_FILE sends the lines to a file instead.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "common/base/result.h"

namespace ckpt::log {

enum class Level { Debug, Info, Warn, Error, Off };

// The name before the colon; the literal must outlive the process ("ckpt-run").
void set_name(const char *name);
void set_level(Level least);
bool enabled(Level level);
void write(Level level, std::string_view text);

template <class... A>
void debug(fmt::format_string<A...> f, A &&...a) {
  if (enabled(Level::Debug)) write(Level::Debug, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A &&...a) {
  if (enabled(Level::Info)) write(Level::Info, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void warn(fmt::format_string<A...> f, A &&...a) {
  if (enabled(Level::Warn)) write(Level::Warn, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void error(fmt::format_string<A...> f, A &&...a) {
  if (enabled(Level::Error)) write(Level::Error, fmt::format(f, std::forward<A>(a)...));
}
// An Error with its hint on a second line.
void error(const Error &e);

}  // namespace ckpt::log
