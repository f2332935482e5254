// SPDX-License-Identifier: Apache-2.0
//
// Which files ckpt-dump --with-files carries: the executable, libraries, and other files that the
// program has mapped or open for reading alone, up to a size.
//
// Not among them are files that a process can change now, those that execute with other rights
// (set-user-ID, set-group-ID), those that the program's user may not read, and libraries of a
// driver that works with its own version in the kernel alone.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/as_user.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/dump/outer_pipes.h"
#include "tools/session/target.h"

namespace ckpt::tools {

inline constexpr u64 kCarriedDataMiB = 64;  // the default of --with-files-up-to

class CarriedChoice {
 public:
  struct Options {
    bool all = false;                        // otherwise only those that a restore has supplied
    u64 data_bytes = kCarriedDataMiB << 20;  // the largest file without code
  };
  using Take = std::function<Result<>(const std::string &path, int fd, const struct stat &)>;
  using Leave = std::function<void(const std::string &path, std::string why)>;

  // `user`: with this user's rights files are opened by their names.
  CarriedChoice(const Target &target, Credentials user, Options options)
      : target_(target), user_(std::move(user)), options_(options) {}
  // Calls one of the two for each file but those in `without`. A file that a restore has supplied
  // is gone when the program ends: it is an error to leave it out. Files of which the names lead to
  // something else now, as those of an upgraded package do, are CRIU's: it puts them into the
  // image.
  Result<> choose(const DescriptorTable &table, const std::set<std::string> &without,
                  const Take &take, const Leave &leave) const;

 private:
  struct Candidate {
    u64 inode = 0;
    std::optional<u64> device;  // of the file system
    bool has_code = false;
    std::string writer;  // what can change it
    bool is(const struct stat &st) const;
  };
  using Candidates = std::map<std::string, Candidate>;

  Candidates candidates(const DescriptorTable &table) const;
  void note_writers(const DescriptorTable &table, Candidates &files) const;
  std::string why_not(const std::string &path, const Candidate &file, const struct stat &st) const;
  Result<> choose(const std::string &path, const Candidate &file, const Take &take,
                  const Leave &leave) const;

  const Target &target_;
  Credentials user_;
  Options options_;
};

}  // namespace ckpt::tools
