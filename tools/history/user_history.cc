// SPDX-License-Identifier: Apache-2.0
#include "tools/history/user_history.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "common/base/printable.h"
#include "common/base/unique_fd.h"
#include "tools/history/history.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kBelowHome = "/.local/state/ckpt/history.jsonl";
// A history of ours has at most 4 MiB. Of a larger one, the rest is read the next time.
constexpr u64 kMostRead = 8 << 20;

// The rights for files only (setfsuid(2)): the user can neither send this process signals nor trace
// it, and the user's own FUSE file systems, which may never answer, still refuse it (the kernel's
// fs/fuse/dir.c compares the real, effective and saved user, too). Others than root have only their
// own.
class FileRights {
 public:
  explicit FileRights(const UserHistory &of) {
    if (::geteuid() != 0) return;
    constexpr uid_t kAsk = static_cast<uid_t>(-1);  // changes nothing, returns what is
    ::setfsgid(of.gid);
    ::setfsuid(of.uid);
    taken_ = static_cast<uid_t>(::setfsuid(kAsk)) == of.uid;
  }
  // False, for example, in a container without CAP_SETUID.
  bool taken() const { return taken_; }
  FileRights(const FileRights &) = delete;
  FileRights &operator=(const FileRights &) = delete;
  ~FileRights() {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
  }

 private:
  bool taken_ = true;
};

struct OpenHistory {
  UniqueFd fd;
  std::string id;
  u64 size = 0;
};

// No value: there is no such file.
Result<std::optional<OpenHistory>> open_history(const std::string &path, uid_t owner) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0) return fail_errno("cannot read the history {}", path);
  if (!S_ISREG(s.st_mode) || s.st_uid != owner)
    return fail("{} is not a file of uid {}", path, owner);
  return OpenHistory{std::move(fd), fmt::format("{}:{}", s.st_dev, s.st_ino),
                     static_cast<u64>(s.st_size)};
}

std::string bytes_from(const OpenHistory &history, u64 offset) {
  std::string text(std::min(history.size - offset, kMostRead), '\0');
  size_t have = 0;
  while (have < text.size()) {
    ssize_t n = ::pread(history.fd.get(), text.data() + have, text.size() - have,
                        static_cast<off_t>(offset + have));
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

// Whole lines only: the last one may be being written. A line without an end is none of ours.
void read_on(const OpenHistory &history, ReadUpTo &up_to, std::vector<json> &events) {
  if (up_to.file != history.id || up_to.offset > history.size) {
    up_to.file = history.id;
    up_to.offset = 0;
  }
  std::string text = bytes_from(history, up_to.offset);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    if (auto event = event_in(text.substr(begin, end - begin))) events.push_back(std::move(*event));
  up_to.offset += begin == 0 && text.size() == kMostRead ? kMostRead : begin;
}

// A name service may say anything, and a label that is not UTF-8 spoils all metrics.
std::string printable_name(uid_t uid) { return printable(user_name(uid)); }

class Collected {
 public:
  void add(uid_t uid, gid_t gid, const std::string &file) {
    if (files_.insert(file).second) all_.push_back({printable_name(uid), uid, gid, file});
  }
  std::vector<UserHistory> take() { return std::move(all_); }

 private:
  std::set<std::string> files_;
  std::vector<UserHistory> all_;
};

void add_listed_users(Collected &all) {
  std::vector<std::pair<std::pair<uid_t, gid_t>, std::string>> homes;
  ::setpwent();
  while (const passwd *user = ::getpwent())
    if (user->pw_uid != 0 && user->pw_dir[0] == '/' && user->pw_dir[1] != 0)
      homes.push_back({{user->pw_uid, user->pw_gid}, user->pw_dir});
  ::endpwent();
  for (const auto &[user, home] : homes) all.add(user.first, user.second, home + kBelowHome);
}

Result<> add_homes(const std::string &folder, Collected &all) {
  std::error_code ec;
  fs::directory_iterator entries(folder, ec);
  if (ec)
    return fail_with_hint(fmt::format("cannot read the folder {}: {}", folder, ec.message()),
                          "name a folder that contains home folders with --homes");
  for (const fs::directory_entry &e : entries) {
    struct stat s {};
    if (::lstat(e.path().c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid != 0)
      all.add(s.st_uid, s.st_gid, e.path().string() + kBelowHome);
  }
  return {};
}

}  // namespace

Result<UserHistory> one_history(const std::string &named) {
  if (named.empty())
    return UserHistory{printable_name(::geteuid()), ::geteuid(), ::getegid(), history_file()};
  struct stat s {};
  if (::stat(named.c_str(), &s) != 0)
    return fail_with_hint(
        fmt::format("cannot read the history {}: {}", printable(named), std::strerror(errno)),
        "check the name");
  return UserHistory{printable_name(s.st_uid), s.st_uid, s.st_gid, named};
}

Result<std::vector<UserHistory>> all_histories(const std::vector<std::string> &homes) {
  if (::geteuid() != 0)
    return fail_with_hint("only root may read the histories of all users",
                          "run it as root, or leave out --all-users");
  Collected all;
  all.add(0, 0, history_file());
  add_listed_users(all);
  for (const std::string &folder : homes) CKPT_CHECK(add_homes(folder, all));
  return all.take();
}

Result<std::vector<json>> events_since(const UserHistory &history, ReadUpTo &up_to) {
  if (history.file.empty()) return std::vector<json>{};
  FileRights rights(history);
  if (!rights.taken())
    return fail("cannot take the rights of uid {} to read {}", history.uid, history.file);
  CKPT_TRY(std::optional<OpenHistory> older, open_history(history.file + ".1", history.uid));
  CKPT_TRY(std::optional<OpenHistory> newer, open_history(history.file, history.uid));
  std::vector<json> events;
  bool was_newer = newer && newer->id == up_to.file;
  bool is_done = older && older->id == up_to.older && older->id != up_to.file;
  if (older && !was_newer && !is_done) read_on(*older, up_to, events);
  if (older) up_to.older = older->id;
  if (newer) read_on(*newer, up_to, events);
  return events;
}

bool may_exist(const UserHistory &history, const std::string &image) {
  FileRights rights(history);
  struct stat s {};
  return !rights.taken() || ::stat((image + "/index.ckpt").c_str(), &s) == 0 ||
         (errno != ENOENT && errno != ENOTDIR);
}

}  // namespace ckpt::tools
