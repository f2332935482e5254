// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/tool_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "common/base/io.h"
#include "common/base/json_fields.h"
#include "common/ipc/unix_socket.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMaxOutput = 16u << 20;
constexpr size_t kMaxErrors = 64u << 10;
constexpr u32 kMaxTextBytes = 64u << 10;
constexpr int kTickMs = 20;

// Without the name of the tool in front of each line.
std::string plain(std::string text, const std::string &tool) {
  for (std::string_view prefix : {"error: ", ""}) {
    std::string start = fmt::format("{}: {}", tool, prefix);
    for (size_t at; (at = text.find(start)) != text.npos;) text.erase(at, start.size());
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

Result<ToolRun> ToolRun::start(const std::string &tool, std::vector<std::string> arguments,
                               const std::string &connection) {
  ToolRun run(tool);
  run.out_.reset(::memfd_create("ckpt-migrate-out", MFD_CLOEXEC));
  run.err_.reset(::memfd_create("ckpt-migrate-err", MFD_CLOEXEC));
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC)), theirs;
  if (!run.out_ || !run.err_ || !null) return fail_errno("cannot create a file in memory");
  if (!connection.empty()) {
    CKPT_TRY(auto ends, socket_pair());
    run.connection_ = std::move(ends.first);
    theirs = std::move(ends.second);
    arguments.push_back(fmt::format("{}={}", connection, theirs.get()));
  }
  arguments.insert(arguments.begin(), sibling_tool(tool));
  Spawn spec{.argv = std::move(arguments),
             .in = null.get(),
             .out = run.out_.get(),
             .err = run.err_.get(),
             .own_group = true};
  if (theirs) spec.keep.push_back(theirs.get());
  CKPT_TRY(run.pid_, spawn(spec));
  return run;
}

ToolRun::ToolRun(ToolRun &&o) noexcept
    : tool_(std::move(o.tool_)),
      pid_(std::exchange(o.pid_, 0)),
      detached_(o.detached_),
      status_(o.status_),
      connection_(std::move(o.connection_)),
      out_(std::move(o.out_)),
      err_(std::move(o.err_)) {}

ToolRun::~ToolRun() {
  connection_.reset();
  if (pid_ == 0 || detached_) return;
  ::kill(pid_, SIGTERM);
  reap(true);
}

bool ToolRun::reap(bool block) {
  if (pid_ == 0) return true;
  int status = 0;
  pid_t ended;
  while ((ended = ::waitpid(pid_, &status, block ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (ended == 0) return false;
  pid_ = 0;
  status_ = status;
  return true;
}

Result<> ToolRun::wait(const Meanwhile &meanwhile) {
  while (!reap(false)) {
    CKPT_CHECK(meanwhile());
    ::poll(nullptr, 0, kTickMs);
  }
  return {};
}

Result<> ToolRun::hear(char word, const Meanwhile &meanwhile) {
  CKPT_TRY(std::optional<char> said, next_word(meanwhile));
  if (said) return *said == word ? Result<>() : fail("{} has sent an unexpected answer", tool_);
  CKPT_CHECK(wait(meanwhile));
  return Failure(error());
}

Result<std::optional<char>> ToolRun::next_word(const Meanwhile &meanwhile) {
  for (;;) {
    CKPT_CHECK(meanwhile());
    pollfd p{connection_.get(), POLLIN, 0};
    if (::poll(&p, 1, kTickMs) <= 0) continue;
    char said = 0;
    bool heard = read_exactly(connection_.get(), &said, 1).has_value();
    return heard ? std::optional(said) : std::nullopt;
  }
}

Result<> ToolRun::hear_bytes(void *to, size_t size) {
  return read_exactly(connection_.get(), to, size);
}

Result<std::string> ToolRun::hear_text() {
  CKPT_TRY(u32 size, hear_number<u32>());
  if (size > kMaxTextBytes) return fail("{} has sent an unexpected answer", tool_);
  std::string text(size, '\0');
  CKPT_CHECK(hear_bytes(text.data(), size));
  return text;
}

Result<> ToolRun::say(char word, ByteView rest) {
  Writer words;
  words.raw(&word, 1).raw(rest.data(), rest.size());
  ssize_t sent = ::send(connection_.get(), words.bytes().data(), words.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(words.size()) ? Result<>() : fail("{} has ended", tool_);
}

bool ToolRun::failed_by_itself() const {
  return status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 1;
}

std::string ToolRun::output() const { return output_in(out_.get(), kMaxOutput); }
std::string ToolRun::errors() const { return output_in(err_.get(), kMaxErrors); }

nlohmann::json ToolRun::report() const {
  nlohmann::json j = nlohmann::json::parse(output(), nullptr, false);
  return j.is_object() ? j : nlohmann::json::object();
}

Error ToolRun::error() const {
  nlohmann::json all = report();
  const nlohmann::json &error = json_member(all, "error");
  if (error.is_object()) return {json_string(error, "what"), json_string(error, "hint")};
  std::string said = plain(errors(), tool_);
  return {said.empty() ? tool_ + " has failed" : said, ""};
}

}  // namespace ckpt::tools
