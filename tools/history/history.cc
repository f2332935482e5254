// SPDX-License-Identifier: Apache-2.0
#include "tools/history/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/io.h"
#include "common/base/json_depth.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/printable.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr off_t kMaxBytes = 4 << 20;
constexpr size_t kMaxLine = 16 << 10;
constexpr int kMaxDepth = 8;  // of ours: 2

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// The processes that want to run for each core, over the last minute (getloadavg(3)).
double load_of_node() {
  double minute = 0;
  long cores = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  return ::getloadavg(&minute, 1) == 1 ? minute / static_cast<double>(cores) : 0;
}

void rotate(const std::string &path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) == 0 && s.st_size >= kMaxBytes)
    ::rename(path.c_str(), (path + ".1").c_str());
}

// In a folder of this user's only.
Result<UniqueFd> open_history(const std::string &path) {
  std::error_code ec;
  fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && fs::create_directories(folder, ec))
    fs::permissions(folder, fs::perms::owner_all, ec);
  rotate(path);
  return open_output(path, O_APPEND, 0600);
}

void say_left_out(const Error &why) { log::info("cannot add a line to the history: {}", why.what); }

// The kind of storage that a file is on, for cost models: its file system (statfs(2)).
std::string storage_of(const std::string &path) {
  struct statfs s {};
  std::string folder = fs::path(path).parent_path();
  if (::statfs(path.c_str(), &s) < 0 && ::statfs(folder.empty() ? "." : folder.c_str(), &s) < 0)
    return "";
  switch (static_cast<unsigned long>(s.f_type)) {
    case 0xEF53: return "ext4";
    case 0x58465342: return "xfs";
    case 0x9123683E: return "btrfs";
    case 0x01021994: return "tmpfs";
    case 0x794C7630: return "overlay";
    case 0x6969: return "nfs";
    case 0x0BD00BD0: return "lustre";
    case 0x47504653: return "gpfs";
    case 0x19830326: return "beegfs";
    case 0x65735546: return "fuse";
    case 0x2FC12FC1: return "zfs";
    default: return fmt::format("{:#x}", static_cast<unsigned long>(s.f_type));
  }
}

// The numbers of the lines that are no events.
std::vector<size_t> read_file(const std::string &path, std::vector<json> &events) {
  std::vector<size_t> left_out;
  std::ifstream in(path);
  std::string line;
  for (size_t number = 1; std::getline(in, line); number++) {
    if (std::optional<json> event = event_in(line))
      events.push_back(std::move(*event));
    else
      left_out.push_back(number);
  }
  return left_out;
}

json by_phase(const json &phases, const char *field) {
  json all = json::object();
  for (const json &phase : phases) all[json_string(phase, "name")] = json_value(phase, field, 0.0);
  return all;
}

}  // namespace

double bounded_seconds(double seconds) { return std::clamp(seconds, 0.0, 1e11); }

double seconds_in(const json &event, const char *name) {
  return bounded_seconds(json_value(event, name, 0.0));
}

std::string local_time_of(const json &event) {
  time_t when = static_cast<time_t>(seconds_in(event, "time"));
  tm local{};
  char text[32] = "";
  if (::localtime_r(&when, &local)) ::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string history_file() {
  if (const char *named = std::getenv("CKPT_HISTORY")) return named;
  if (::geteuid() == 0) return "/var/lib/ckpt/history.jsonl";
  std::string state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (state.starts_with('/')) return state + "/ckpt/history.jsonl";
  return home.starts_with('/') ? home + "/.local/state/ckpt/history.jsonl" : "";
}

HistoryFile::HistoryFile() : user_(::geteuid()) {
  const std::string path = history_file();
  if (path.empty()) return;
  Result<UniqueFd> file = open_history(path);
  if (file)
    file_ = std::move(*file);
  else
    say_left_out(file.error());
}

void HistoryFile::append(json event) const {
  if (!file_) return;
  event["time"] = ::time(nullptr);
  event["host"] = host_name();
  event["uid"] = user_;
  event["load"] = load_of_node();
  if (auto image = event.find("image"); image != event.end() && image->is_string())
    if (std::string storage = storage_of(*image); !storage.empty()) event["storage"] = storage;
  if (std::string job = variable("SLURM_JOB_ID"); !job.empty()) event["job"] = job;
  if (std::string count = variable(kRestartCount); !count.empty())
    event["restarts"] = std::strtoul(count.c_str(), nullptr, 10);
  std::string line = json_text(event) + "\n";
  if (line.size() > kMaxLine) return;
  if (Result<> done = write_all(file_.get(), view(line)); !done) say_left_out(done.error());
}

std::optional<json> event_in(const std::string &line) {
  if (line.size() > kMaxLine || json_depth(line) > kMaxDepth) return std::nullopt;
  json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return event.is_object() ? std::optional(std::move(event)) : std::nullopt;
}

std::vector<json> read_history(const std::string &path) {
  std::vector<json> events;
  read_file(path + ".1", events);
  read_file(path, events);
  return events;
}

Result<std::vector<json>> history_of(const std::string &named) {
  if (!named.empty() && ::access(named.c_str(), R_OK) != 0)
    return fail_with_hint(
        fmt::format("cannot read the history {}: {}", printable(named), std::strerror(errno)),
        "check the name");
  const std::string file = named.empty() ? history_file() : named;
  std::vector<json> events;
  for (const std::string &path : {file + ".1", file}) {
    std::vector<size_t> left_out = read_file(path, events);
    if (!left_out.empty())
      log::warn(
          "{}: line {} is not a JSON object and is left out{}", printable(path), left_out[0],
          left_out.size() > 1 ? fmt::format(", and so are {} more", left_out.size() - 1) : "");
  }
  return events;
}

json phase_seconds(const json &phases) { return by_phase(phases, "seconds"); }
json phase_starts(const json &phases) { return by_phase(phases, "start"); }

}  // namespace ckpt::tools
