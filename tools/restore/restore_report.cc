// SPDX-License-Identifier: Apache-2.0
//
// What a restore says of itself: --json-report, and the history of this machine.
#include <fcntl.h>

#include <filesystem>

#include "common/base/new_file.h"
#include "storage/format/pipe_format.h"
#include "tools/history/history.h"
#include "tools/json_text.h"
#include "tools/lazy/lazy_restore.h"
#include "tools/restore/restore.h"

namespace ckpt::tools {

nlohmann::json Restore::report() const {
  return {{"image", options_.image},
          {"pid", root_},
          {"processes", plan_.manifest.processes.size()},
          {"bytes", plan_.image->stats().raw_bytes},
          {"own_pid_namespace", new_namespace_},
          {"seconds", phases_.total_seconds()},
          {"phases", phases_.json()}};
}

nlohmann::json Restore::device_times() const {
  const RestoredAgents::Times &t = agents_.times();
  return {{"connect_seconds", t.connect},
          {"attach_seconds", t.attach},
          {"load_seconds", t.load},
          {"ahead_bytes", t.ahead_bytes},
          {"ahead_seconds", t.ahead_seconds}};
}

Result<> Restore::write_report() const {
  if (options_.json_report.empty()) return {};
  CKPT_TRY(UniqueFd out, open_output(options_.json_report, O_TRUNC, 0666));
  nlohmann::json all = report();
  all["device_times"] = device_times();
  if (options_.served) all["lazy"] = options_.served->report();
  return write_all(out.get(), view(json_text(all) + "\n"));
}

void Restore::note(const nlohmann::json &event) const {
  std::vector<std::string> apis;
  for (const ImageManifest::Requirement &r : plan_.manifest.requirements) apis.push_back(r.api);
  std::string image = options_.image == storage::kPipeImage
                          ? options_.image
                          : std::filesystem::absolute(options_.image).lexically_normal().string();
  nlohmann::json line = report();
  line.update(event);
  line.update({{"event", "restore"},
               {"program", plan_.manifest.program},
               {"devices", apis},
               {"device_bytes", plan_.manifest.device_bytes},
               {"stored_bytes", plan_.image->stats().stored_bytes},
               {"compile_seconds", agents_.compile_seconds()},
               {"image", image},
               {"starts", phase_starts(line["phases"])},
               {"phases", phase_seconds(line["phases"])}});
  if (options_.history)
    options_.history->append(std::move(line));
  else
    HistoryFile().append(std::move(line));
}

}  // namespace ckpt::tools
