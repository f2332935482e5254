// SPDX-License-Identifier: Apache-2.0
#include "tools/job/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/io.h"
#include "common/base/json_depth.h"
#include "common/base/json_fields.h"
#include "storage/format/uuid.h"
#include "storage/io/key_file.h"
#include "storage/io/partial_folder.h"
#include "tools/job/create_once.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxAddresses = 64, kMaxMembers = 10'000, kMaxNameBytes = 64;
constexpr const char *kRemoved = ".removed";
constexpr off_t kMaxMemberBytes = 64 << 10;

// The contents of the folder are trusted like the program itself, so no other user may write to it.
Result<> check_owner(const std::string &path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return fail_errno("cannot find the job's folder {}", path);
  if (!S_ISDIR(st.st_mode)) return fail("{} is not a folder", path);
  if (st.st_uid != ::geteuid())
    return fail_with_hint(fmt::format("the job's folder {} belongs to uid {}", path, st.st_uid),
                          "name a folder of your own with --job");
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    return fail_with_hint(fmt::format("other users may write to the job's folder {}", path),
                          fmt::format("chmod 700 {}", path));
  return {};
}

std::string full_path(const std::string &path) {
  std::error_code ec;
  std::string full = fs::absolute(path, ec).lexically_normal().string();
  while (full.size() > 1 && full.back() == '/') full.pop_back();
  return full;
}

Result<> create_key(const std::string &path) {
  Bytes random(storage::Key::kBytes);
  CKPT_CHECK(storage::fill_random(random.data(), random.size()));
  return create_once(path, random).transform([](bool) {});
}

std::string name_of_checkpoint(unsigned number) { return fmt::format("{:04}", number); }

// 0: the name is not that of a checkpoint.
unsigned number_of(const fs::path &path) {
  std::string name = path.filename().string();
  unsigned n = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
  return error == std::errc() && name == name_of_checkpoint(n) ? n : 0;
}

// What this user's processes create in the folder of a checkpoint (.nfs…: a network file system).
bool is_of_checkpoint(const std::string &name) {
  return name == "decision" || name.starts_with("restore-") || name.starts_with(".draft-") ||
         name.starts_with(".nfs") || name.ends_with(".img") || name.ends_with(".img.ended") ||
         name.ends_with(".criu.log") || storage::is_partial_name(name);
}

// A folder that happens to have the name of a checkpoint may contain anything.
bool holds_only_checkpoint(const fs::path &folder) {
  std::error_code ec;
  if (!fs::is_directory(fs::symlink_status(folder, ec))) return false;
  for (const fs::directory_entry &e : fs::directory_iterator(folder, ec))
    if (!is_of_checkpoint(e.path().filename().string())) return false;
  return !ec;
}

// What another member may have created before the key.
bool may_precede_key(const std::string &name) {
  return name == "members" || name == "ended" || name == "commands" || name.starts_with('.');
}

// A folder with other contents is not made a job's, where numbers are checkpoints that are removed.
Result<> check_unused(const std::string &path) {
  std::error_code ec;
  std::string other;
  for (const fs::directory_entry &e : fs::directory_iterator(path, ec))
    if (std::string name = e.path().filename().string(); !may_precede_key(name)) other = name;
  // Asked afterwards, because another member may create the key at any moment.
  if (other.empty() || fs::exists(path + "/key", ec)) return {};
  return fail_with_hint(
      fmt::format("{} is not the folder of a job, and contains {}", path, other),
      "name a folder that is new or empty with --job; in a batch job, one that ends with /%j");
}

Result<MemberAddress> read_member(const std::string &path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno("cannot read {}", path);
  Failure unreadable =
      fail_with_hint(fmt::format("{} does not name a member of a job", path), "remove the file");
  if (!S_ISREG(st.st_mode) || st.st_size > kMaxMemberBytes) return unreadable;
  std::string text(static_cast<size_t>(st.st_size), '\0');
  CKPT_CHECK(read_exactly(fd.get(), text.data(), text.size()));
  json j = json_depth(text) <= 2 ? json::parse(text, nullptr, false) : json();
  MemberAddress a;
  if (!j.is_object() || !j["addresses"].is_array() || !j["port"].is_number_unsigned() ||
      !j["restoring"].is_number_unsigned() || j["addresses"].size() > kMaxAddresses ||
      j["port"].get<u64>() > UINT16_MAX)
    return unreadable;
  for (const json &address : j["addresses"]) {
    if (!address.is_string()) return unreadable;
    a.addresses.push_back(address.get<std::string>());
  }
  a.port = j["port"].get<u16>();
  a.restoring = j["restoring"].get<unsigned>();
  a.programs = json_value(j, "programs", 0U);
  a.start = json_string(j, "start");
  a.lives = ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0;
  return a;
}

std::string text_of(const MemberAddress &a) {
  return json_text({{"addresses", a.addresses},
                    {"port", a.port},
                    {"restoring", a.restoring},
                    {"programs", a.programs},
                    {"start", a.start}});
}

// A reader has it locked for a moment.
bool try_lock(int fd) {
  using namespace std::chrono_literals;
  for (int n = 0; n < 20; n++, std::this_thread::sleep_for(10ms))
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  return false;
}

// Removes the file of a member if its ckpt-run was killed or its node has failed. False: the member
// lives.
bool remove_stale(const std::string &path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno == ENOENT;
  if (!try_lock(fd.get())) return false;
  struct stat ours {
  }, named{};
  // Another process may have done the same before we had the lock.
  bool same = ::fstat(fd.get(), &ours) == 0 && ::lstat(path.c_str(), &named) == 0 &&
              ours.st_ino == named.st_ino;
  return !same || ::unlink(path.c_str()) == 0;
}

}  // namespace

Result<JobFolder> JobFolder::create(const std::string &given) {
  std::string path = full_path(given);
  std::error_code ec;
  fs::create_directories(fs::path(path).parent_path(), ec);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot create the job's folder {}", path);
  CKPT_CHECK(check_owner(path));
  CKPT_CHECK(check_unused(path));
  for (const char *name : {"members", "ended", "commands"})
    if (::mkdir((path + "/" + name).c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno("cannot create {}/{}", path, name);
  if (!fs::exists(path + "/key", ec)) CKPT_CHECK(create_key(path + "/key"));
  return open(path);
}

Result<JobFolder> JobFolder::open(const std::string &given) {
  std::string path = full_path(given);
  CKPT_CHECK(check_owner(path));
  Result<storage::Key> key = storage::read_key(path + "/key");
  if (!key)
    return fail_with_hint(fmt::format("{} is not the folder of a job: {}", path, key.error().what),
                          "name the folder that was given to ckpt-run --job");
  return JobFolder(path, *key);
}

Result<std::optional<UniqueFd>> JobFolder::lock() const {
  std::string path = path_ + "/lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail_errno("cannot open {}", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(fd));
  if (errno == EWOULDBLOCK) return std::optional<UniqueFd>();
  return fail_errno("cannot lock {}", path);
}

Result<> JobFolder::check_readable() const {
  UniqueFd folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("cannot read {}", path_);
  for (unsigned n : numbers())
    if (Result<json> d = read_decision(decision(n)); !d)
      return fail_with_hint(
          d.error().what,
          fmt::format("make it readable; or, to use an older checkpoint, move {} elsewhere",
                      checkpoint(n)));
  return {};
}

Result<std::map<std::string, MemberAddress>> JobFolder::members() const {
  std::map<std::string, MemberAddress> all;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(path_ + "/members", ec)) {
    std::string name = e.path().filename().string();
    if (!check_member_name(name)) continue;  // a draft
    if (all.size() == kMaxMembers) return fail("the job has more than {} members", kMaxMembers);
    Result<MemberAddress> a = read_member(e.path().string());
    if (!a && !fs::exists(e.path(), ec)) continue;
    CKPT_CHECK(a);
    all[name] = std::move(*a);
  }
  return all;
}

std::string JobFolder::checkpoint(unsigned number) const {
  return path_ + "/" + name_of_checkpoint(number);
}

std::string JobFolder::image(unsigned number, const std::string &member) const {
  return fmt::format("{}/{}.img", checkpoint(number), member);
}

std::vector<unsigned> JobFolder::numbers() const {
  std::vector<unsigned> all;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(path_, ec))
    if (unsigned n = number_of(e.path())) all.push_back(n);
  std::sort(all.rbegin(), all.rend());
  return all;
}

std::vector<unsigned> JobFolder::complete() const {
  std::vector<unsigned> all = numbers();
  std::erase_if(all, [this](unsigned n) {
    Result<json> d = read_decision(decision(n));
    return !d || !is_complete(*d);
  });
  return all;
}

unsigned JobFolder::finished() const {
  unsigned n = 0;
  std::ifstream(path_ + "/finished") >> n;
  return n;
}

Result<> JobFolder::mark_finished(unsigned number) const {
  return replace_file(path_ + "/finished", view(fmt::format("{}\n", number)));
}

Result<unsigned> JobFolder::begin_checkpoint() const {
  std::vector<unsigned> all = numbers();
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(path_, ec))
    if (e.path().extension() == kRemoved && number_of(e.path().stem()) != 0 &&
        holds_only_checkpoint(e.path()))
      fs::remove_all(e.path(), ec);
  for (unsigned n : all) {
    if (!holds_only_checkpoint(checkpoint(n))) continue;
    Result<json> d = decide(decision(n), abandoned("its coordinator has ended"));
    if (d && !is_complete(*d)) remove_checkpoint(n);
  }
  unsigned next = std::max(all.empty() ? 0 : all.front(), finished()) + 1;
  if (::mkdir(checkpoint(next).c_str(), 0700) != 0)
    return fail_errno("cannot create the folder {}", checkpoint(next));
  return next;
}

// Renamed first, so that a partly removed checkpoint is not taken for a complete one.
void JobFolder::remove_checkpoint(unsigned number) const {
  std::error_code ec;
  std::string folder = checkpoint(number), gone = folder + kRemoved;
  fs::rename(folder, gone, ec);
  if (!ec) fs::remove_all(gone, ec);
}

std::vector<std::string> members_of(const json &decision) {
  std::vector<std::string> names;
  if (!decision.contains("members") || !decision["members"].is_array()) return names;
  for (const json &name : decision["members"])
    if (name.is_string() && check_member_name(name.get<std::string>())) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Error not_in_checkpoint(const JobFolder &folder, unsigned checkpoint, const std::string &member,
                        const std::vector<std::string> &members) {
  std::string names = fmt::format("{}", fmt::join(members, ", "));
  return {
      fmt::format("the checkpoint {} has no member {}, only {}", folder.checkpoint(checkpoint),
                  member, names),
      fmt::format("start the job on the same nodes (in Slurm: --nodelist), or choose one of its "
                  "members with --member: {}",
                  names)};
}

Result<> check_member_name(const std::string &name) {
  auto plain = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
  bool sound = !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
               std::all_of(name.begin(), name.end(), plain);
  if (sound) return {};
  return fail_with_hint(fmt::format("\"{}\" is not a valid name for a member of a job", name),
                        "use at most 64 letters, digits, dots, dashes and underscores");
}

std::string usual_member_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

Registration::~Registration() {
  if (file_) ::unlink(path_.c_str());
}

Result<Registration> Registration::make(const JobFolder &folder, const std::string &member,
                                        const MemberAddress &a) {
  CKPT_CHECK(check_member_name(member));
  Registration r;
  r.path_ = folder.member_file(member);
  std::string text = text_of(a);
  for (int attempt = 0; attempt < 2; attempt++) {
    CKPT_TRY(bool made, create_once(r.path_, view(text), &r.file_));
    if (made) return r;
    if (!remove_stale(r.path_)) break;
  }
  return fail_with_hint(fmt::format("the job has a member {} that runs", member),
                        "give each program of the job a name of its own with --member; under srun, "
                        "--member=%t names it after its task");
}

Result<> Registration::change(const MemberAddress &a) {
  return replace_file(path_, view(text_of(a)), &file_);
}

}  // namespace ckpt::tools
