// SPDX-License-Identifier: Apache-2.0
//
// The log: one line to standard error for each message.
//
//   ckpt-dump: warning: …            a tool: its name and the level
//   ckpt: agent: warning: …          a library in an application: also the module
//   <4>ckptd: manager: warning: …    under systemd: also the priority of sd-daemon(3)
//
// The module is the room of the source file that logs the message; no declaration is needed.
// Messages of tools/ have no module, because the name of the executable is enough.
//
// Inside an application's process the log must not interfere with the program: each message is one
// write(2), no descriptor stays open and no lock is held. CKPT_LOG=debug|info|warn|error|off sets
// the lowest level that is shown (default: warn); CKPT_LOG_FILE appends the lines to a file
// instead.
#pragma once

#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "common/base/result.h"

namespace ckpt::log {

enum class Level { Debug, Info, Warn, Error, Off };

// A path as meson passes it, less the way from the build folder to the repository's root:
// "../a.cc", or, where several sources are compiled as one, "/root/build/../a.cc".
constexpr std::string_view below_build_folder(std::string_view path) {
  constexpr std::string_view kUp = "../";
  size_t at = path.rfind(kUp);
  return at == std::string_view::npos ? path : path.substr(at + kUp.size());
}

// The room of a source file, "agent" for "../agent/ipc/channel.cc"; empty for tools/ and for files
// outside the repository. This header's own path shows how the compiler sees the root.
constexpr std::string_view module_of(std::string_view file) {
  constexpr std::string_view kThis = below_build_folder(__FILE__), kName = "common/base/log.h";
  constexpr std::string_view kLibraryPrefix = "libckpt-", kTools = "tools";
  std::string_view root = kThis.substr(0, kThis.size() - kName.size());
  file = below_build_folder(file);
  if (!file.starts_with(root)) return {};
  file.remove_prefix(root.size());
  std::string_view room = file.substr(0, file.find('/'));
  if (room == kTools || room == file) return {};
  if (room.starts_with(kLibraryPrefix)) room.remove_prefix(kLibraryPrefix.size());
  return room;
}

// A format string and the module of the caller.
template <class... A>
struct Format {
  template <class S>
  consteval Format(const S &format, const char *file = __builtin_FILE())
      : text(format), module(module_of(file)) {}
  fmt::format_string<A...> text;
  std::string_view module;
};

// The name at the start of each line ("ckpt-run"); the string must outlive the process.
void set_name(const char *name);
void set_level(Level lowest);
bool enabled(Level level);
// Writes one line, whether or not the level is enabled.
void write(Level level, std::string_view text,
           std::string_view module = module_of(__builtin_FILE()));

template <class... A>
void log(Level level, Format<std::type_identity_t<A>...> f, A &&...a) {
  if (enabled(level)) write(level, fmt::format(f.text, std::forward<A>(a)...), f.module);
}
template <class... A>
void debug(Format<std::type_identity_t<A>...> f, A &&...a) {
  log(Level::Debug, f, std::forward<A>(a)...);
}
template <class... A>
void info(Format<std::type_identity_t<A>...> f, A &&...a) {
  log(Level::Info, f, std::forward<A>(a)...);
}
template <class... A>
void warn(Format<std::type_identity_t<A>...> f, A &&...a) {
  log(Level::Warn, f, std::forward<A>(a)...);
}
template <class... A>
void error(Format<std::type_identity_t<A>...> f, A &&...a) {
  log(Level::Error, f, std::forward<A>(a)...);
}
// An Error, and its hint on a second line.
void error(const Error &e, std::string_view module = module_of(__builtin_FILE()));

}  // namespace ckpt::log
