// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/status.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/json_fields.h"
#include "common/base/units.h"
#include "tools/idled/small_file.h"
#include "tools/json_text.h"
#include "tools/proc/process.h"
#include "tools/text_file.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr const char *kLock = "/lock", *kStatus = "/status.json";

json as_json(const IdledStatus &s) {
  json j = {{"idle", s.last.idle},
            {"reason", name_of(s.last.reason)},
            {"text", s.last.text},
            {"since", s.since},
            {"transitions", s.transitions},
            {"owner_cpu", s.sample.owner_cpu},
            {"guest_cpu", s.guest_cpu},
            {"owner_device_bytes", s.sample.owner_device_bytes},
            {"on_battery", s.sample.on_battery},
            {"off_by", s.off_by}};
  j["celsius"] = s.sample.celsius ? json(*s.sample.celsius) : json();
  if (!s.node.empty())
    j["slurm"] = {{"node", s.node},
                  {"partition", s.partition},
                  {"error", s.slurm_error.empty() ? json() : json(s.slurm_error)}};
  return j;
}

}  // namespace

Result<StatusFile> StatusFile::create(const std::string &folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  // No other user may open it: a lock of theirs would keep ckpt-idled from starting.
  std::string lock = folder + kLock;
  UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail_with_hint(
        fmt::format("cannot open {}: {}", lock, std::strerror(errno)),
        "run ckpt-idled as root or by its systemd unit, or name another --folder");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0)
    return fail_with_hint(fmt::format("another ckpt-idled uses {}", folder),
                          "end it, or start this one with another --folder");
  CKPT_TRY(Process self, read_process(::getpid()));
  return StatusFile(folder + kStatus, std::move(fd), self.start_ticks);
}

Result<> StatusFile::write(const IdledStatus &s) {
  json j = as_json(s);
  j["pid"] = ::getpid();
  j["start_ticks"] = start_ticks_;
  return replace_small_file(path_, json_text(j) + "\n");
}

Result<json> read_status(const std::string &folder) {
  json status = json::parse(contents_of(folder + kStatus).value_or(""), nullptr, false);
  Result<Process> writer = read_process(json_value(status, "pid", 0));
  if (!writer || writer->start_ticks != json_value(status, "start_ticks", u64{0}))
    return fail_with_hint(fmt::format("no ckpt-idled runs with the folder {}", folder),
                          "start it: systemctl start ckpt-idled");
  return status;
}

std::string status_line(const json &status, i64 now) {
  auto seconds = static_cast<u64>(std::max<i64>(0, now - json_value(status, "since", now)));
  std::string line =
      fmt::format("{} for {}: {}", json_value(status, "idle", false) ? "idle" : "busy",
                  human_duration(seconds), json_string(status, "text"));
  std::vector<std::string> off = json_strings(json_member(status, "off_by"));
  if (!off.empty()) line += fmt::format(" (by {})", fmt::join(off, ", "));
  std::string error = json_string(json_member(status, "slurm"), "error");
  return error.empty() ? line : line + "\nSlurm could not be told: " + error;
}

}  // namespace ckpt::tools
