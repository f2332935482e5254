// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "common/base/clock.h"
#include "common/base/print.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/manifest/restorable.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

json report_json(const storage::ImageReader &image,
                 const storage::ImageReader::VerifyReport &report, const Reasons &reasons) {
  return {{"image", image.path()},
          {"ok", report.ok() && reasons.empty()},
          {"damaged_chunks", report.damaged_chunks},
          {"damages", report.damages},
          {"reasons", reasons}};
}

void print_report(const storage::ImageReader &image,
                  const storage::ImageReader::VerifyReport &report, const Reasons &reasons,
                  double seconds) {
  for (const std::string &d : report.damages) print("{}\n", printable(d));
  storage::ImageStats s = image.stats();
  for (const std::string &r : reasons) print("{}\n", printable(r, kMaxReasonBytes));
  if (!reasons.empty())
    print("{}: undamaged, but CANNOT BE RESTORED\n", printable(image.path()));
  else if (report.ok())
    print("{}: undamaged; {} in {} streams checked in {:.1f} s\n", printable(image.path()),
          human_bytes(s.raw_bytes), image.streams().size(), seconds);
  else
    print("{}: DAMAGED; {} of {} stored chunks are affected\n", printable(image.path()),
          report.damaged_chunks, image.index().chunks.size());
}

}  // namespace

int verify(const storage::ImageReader &image, bool quiet, bool as_json) {
  auto start = Clock::now();
  Progress progress("verify", quiet || as_json);
  storage::ImageReader::VerifyReport report =
      image.verify(storage::ImageReader::Depth::Full,
                   [&](u64 done, u64 total) { progress.update(done, total); });
  progress.finish();
  Reasons reasons = report.ok() ? reasons_against(image) : Reasons();
  double seconds = seconds_since(start);
  if (as_json)
    print_text(json_text(report_json(image, report, reasons), 2) + "\n");
  else if (!quiet || !report.ok() || !reasons.empty())
    print_report(image, report, reasons, seconds);
  return report.ok() && reasons.empty() ? 0 : 1;
}

}  // namespace ckpt::tools
