// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/move_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "common/base/log.h"
#include "storage/io/file_system.h"
#include "tools/job/create_once.h"
#include "tools/job/decision.h"
#include "tools/json_text.h"
#include "tools/migrate/decision_files.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kAboutFile = "about";
constexpr size_t kNumberBytes = 36;
constexpr std::chrono::hours kOld{24 * 90};

const char *suffix_of(MoveSide side) { return side == MoveSide::From ? ".from" : ".to"; }

std::string path_of(MoveSide side, const std::string &number) {
  return fmt::format("{}/{}{}", migrations_folder(), number, suffix_of(side));
}

// The folder has the memory of the user's programs.
Result<> make_private_folder(const std::string &path) {
  std::error_code ec;
  fs::create_directories(fs::path(path).parent_path(), ec);
  if (::mkdir(path.c_str(), 0700) != 0) return fail_errno("cannot create the folder {}", path);
  // Its files reach the disk by themselves (create_once), but its name would not.
  return storage::sync_folder(storage::FileSystem::real(), fs::path(path).parent_path());
}

bool is_image(const fs::path &path) {
  return path.filename().string().find(".img") != std::string::npos;
}

}  // namespace

std::string migrations_folder() {
  if (::geteuid() == 0 && !std::getenv("XDG_STATE_HOME")) return "/var/lib/ckpt/migrations";
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && *state == '/') return std::string(state) + "/ckpt/migrations";
  return home && *home == '/' ? std::string(home) + "/.local/state/ckpt/migrations" : "";
}

bool is_move_number(std::string_view number) {
  return number.size() == kNumberBytes && std::ranges::all_of(number, [](unsigned char c) {
           return c == '-' || std::isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

Result<MoveRecord> MoveRecord::named(MoveSide side, const std::string &number) {
  if (!is_move_number(number)) return fail("this is not the number of a migration");
  if (migrations_folder().empty())
    return fail_with_hint("this user has no folder for migrations",
                          "set HOME or XDG_STATE_HOME to the path of a folder");
  return MoveRecord(path_of(side, number), number);
}

Result<MoveRecord> MoveRecord::create(MoveSide side, const std::string &number,
                                      const nlohmann::json &about) {
  CKPT_TRY(MoveRecord r, named(side, number));
  CKPT_CHECK(make_private_folder(r.folder_));
  if (!r.lock()) return fail("another process uses {}", r.folder_);
  CKPT_TRY(bool first, create_once(r.folder_ + "/" + kAboutFile, view(json_text(about, 1) + "\n")));
  return first ? Result<MoveRecord>(std::move(r)) : fail("{} is in use", r.folder_);
}

std::vector<MoveRecord> MoveRecord::all(MoveSide side) {
  std::vector<std::pair<fs::file_time_type, MoveRecord>> found;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(migrations_folder(), ec)) {
    std::string number = e.path().stem();
    if (e.path().extension() != suffix_of(side) || !is_move_number(number)) continue;
    found.emplace_back(e.last_write_time(ec), MoveRecord(e.path(), number));
  }
  std::ranges::sort(found, {}, &std::pair<fs::file_time_type, MoveRecord>::first);
  std::vector<MoveRecord> all;
  for (auto &[time, record] : found) all.push_back(std::move(record));
  return all;
}

std::string MoveRecord::image(unsigned round) const {
  return fmt::format("{}/{}.img", folder_, round);
}

nlohmann::json MoveRecord::about() const {
  return read_decision(folder_ + "/" + kAboutFile).value_or(nlohmann::json());
}

bool MoveRecord::lock() {
  lock_.reset(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  return lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
}

bool MoveRecord::is_old() const {
  std::error_code ec;
  auto changed = fs::last_write_time(folder_, ec);
  return !ec && fs::file_time_type::clock::now() - changed > kOld;
}

void MoveRecord::remove() {
  std::error_code ec;
  fs::remove_all(folder_, ec);
  if (ec) log::warn("cannot remove {}: {}", folder_, ec.message());
}

void MoveRecord::remove_images() {
  std::error_code ec;
  std::vector<fs::path> images;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec))
    if (is_image(e.path())) images.push_back(e.path());
  for (const fs::path &image : images) fs::remove_all(image, ec);
}

// The decision stays: the other side may still ask for it.
void remove_dead_receipts() {
  for (MoveRecord &r : MoveRecord::all(MoveSide::To)) {
    Result<TakingState> state = taking_state(r.folder());
    if (!state || (state->taking != Taking::Open && state->taking != Taking::Refused)) continue;
    if (!r.lock()) continue;
    bool old = r.is_old();
    state = refuse(r.folder());
    if (!state || state->taking != Taking::Refused) continue;
    old ? r.remove() : r.remove_images();
  }
}

}  // namespace ckpt::tools
