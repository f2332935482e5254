// SPDX-License-Identifier: Apache-2.0
//
// Errors are values. An Error says what failed and why (`what`), and what the reader can do about
// it (`hint`). No code of this project throws, and none ends the process of an application.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace ckpt {

struct Error {
  std::string what;  // "cannot open /x/y: Permission denied"
  std::string hint;  // "run as root, or …"; may be empty

  // Puts the failing step in front: "saving buffer 3: cannot open …".
  Error in(std::string_view step) && {
    what = fmt::format("{}: {}", step, what);
    return std::move(*this);
  }
  std::string text() const { return hint.empty() ? what : what + " (" + hint + ")"; }
};

template <class T = void>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

template <class... A>
Failure fail(fmt::format_string<A...> f, A &&...a) {
  return Failure(Error{fmt::format(f, std::forward<A>(a)...), {}});
}

inline Failure fail_with_hint(std::string what, std::string hint) {
  return Failure(Error{std::move(what), std::move(hint)});
}

// What a user can do if a system call fails because a resource is short; otherwise empty.
inline const char *resource_hint(int error) {
  switch (error) {
    case ENOMEM: return "free memory, or raise its limit (ulimit -v, the cgroup's limit)";
    case EMFILE: return "raise the limit of open files (ulimit -n)";
    case EFBIG: return "raise the limit of file sizes (ulimit -f)";
    case ENOSPC: return "make room on that file system";
    case EDQUOT: return "make room, or raise the quota";
    default: return "";
  }
}

// As fail(), followed by a colon and the text of errno, which is read before anything else runs.
template <class... A>
Failure fail_errno(fmt::format_string<A...> f, A &&...a) {
  int saved = errno;
  return Failure(Error{fmt::format(f, std::forward<A>(a)...) + ": " + std::strerror(saved),
                       resource_hint(saved)});
}

}  // namespace ckpt

#define CKPT_CONCAT_(a, b) a##b
#define CKPT_CONCAT(a, b) CKPT_CONCAT_(a, b)

// CKPT_TRY(UniqueFd fd, open_it(path)): declares fd, or returns the error of the call.
#define CKPT_TRY(decl, ...) CKPT_TRY_(CKPT_CONCAT(result_, __LINE__), decl, __VA_ARGS__)
#define CKPT_TRY_(tmp, decl, ...)                           \
  auto tmp = (__VA_ARGS__);                                 \
  if (!tmp) return ::ckpt::Failure(std::move(tmp).error()); \
  decl = std::move(*tmp)

// CKPT_CHECK(do_it()): returns the error of a call that has no value.
#define CKPT_CHECK(...)                                    \
  do {                                                     \
    if (auto checked_ = (__VA_ARGS__); !checked_)          \
      return ::ckpt::Failure(std::move(checked_).error()); \
  } while (0)
