// SPDX-License-Identifier: Apache-2.0
//
// A ckpt-dump or ckpt-restore that works for a migration.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class ToolRun {
 public:
  // Runs a tool that stands beside this one. `connection`: the option that names one end of a
  // socket to it; "": it gets none.
  static Result<ToolRun> start(const std::string &tool, std::vector<std::string> arguments,
                               const std::string &connection = {});
  ToolRun(ToolRun &&o) noexcept;
  ToolRun &operator=(ToolRun &&) = delete;
  // Hangs up, has a tool that still runs undo its work (SIGTERM), and waits for it.
  ~ToolRun();

  using Meanwhile = std::function<Result<>()>;
  // Until it has ended; `meanwhile` is called again and again, and its failure ends the wait.
  Result<> wait(const Meanwhile &meanwhile);
  // Until it has said `word`. A tool that ends or hangs up instead is an error.
  Result<> hear(char word, const Meanwhile &meanwhile);
  // The next word; no value: it has hung up, and has ended or will soon.
  Result<std::optional<char>> next_word(const Meanwhile &meanwhile);
  // What follows a word.
  template <class T>
  Result<T> hear_number() {
    T number{};
    CKPT_CHECK(hear_bytes(&number, sizeof number));
    return number;
  }
  Result<std::string> hear_text();
  // `rest`: what follows the word.
  Result<> say(char word, ByteView rest = {});
  // From now on it goes on whatever becomes of this object.
  void detach() { detached_ = true; }

  bool succeeded() const { return status_ == 0; }
  // It has ended with exit code 1: there is no image, and the program goes on.
  bool failed_by_itself() const;
  std::string output() const;     // its standard output
  std::string errors() const;     // what it has logged
  nlohmann::json report() const;  // its standard output, if that is one JSON object
  // Why it failed: of its report, or what it has logged.
  Error error() const;

 private:
  explicit ToolRun(std::string tool) : tool_(std::move(tool)) {}
  bool reap(bool block);
  Result<> hear_bytes(void *to, size_t size);

  std::string tool_;
  pid_t pid_ = 0;  // 0: it has ended
  bool detached_ = false;
  std::optional<int> status_;
  UniqueFd connection_, out_, err_;
};

}  // namespace ckpt::tools
