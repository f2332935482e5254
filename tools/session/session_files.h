// SPDX-License-Identifier: Apache-2.0
//
// What a keeper writes into its session's folder. A program may run for longer than other programs
// leave files in /tmp alone, so the keeper knows every content: it writes what is missing again, on
// request and from time to time, and keeps the times of all files young.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace ckpt::tools {

class SessionFiles {
 public:
  explicit SessionFiles(std::string folder) : folder_(std::move(folder)) {}

  void write(std::string_view name, const std::string &content);
  void write_missing() const;
  // For cleaners that go by the age of a file.
  void renew() const;

 private:
  std::string path_of(const std::string &name) const { return folder_ + "/" + name; }
  std::string folder_;
  std::map<std::string, std::string> contents_;
};

}  // namespace ckpt::tools
