// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "common/base/print.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

json report_json(const storage::ImageReader &image,
                 const storage::ImageReader::VerifyReport &report) {
  return {{"image", image.path()},
          {"ok", report.ok()},
          {"damaged_chunks", report.damaged_chunks},
          {"damages", report.damages}};
}

void print_report(const storage::ImageReader &image,
                  const storage::ImageReader::VerifyReport &report, double seconds) {
  for (const std::string &d : report.damages) print("{}\n", printable(d));
  storage::ImageStats s = image.stats();
  if (report.ok())
    print("{}: undamaged; {} in {} streams checked in {:.1f} s\n", printable(image.path()),
          human_bytes(s.raw_bytes), image.streams().size(), seconds);
  else
    print("{}: DAMAGED; {} of {} stored chunks are affected\n", printable(image.path()),
          report.damaged_chunks, image.index().chunks.size());
}

}  // namespace

int verify(const storage::ImageReader &image, bool quiet, bool as_json) {
  auto start = std::chrono::steady_clock::now();
  Progress progress("verify", quiet || as_json);
  storage::ImageReader::VerifyReport report =
      image.verify(storage::ImageReader::Depth::Full,
                   [&](u64 done, u64 total) { progress.update(done, total); });
  progress.finish();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (as_json)
    print_text(json_text(report_json(image, report), 2) + "\n");
  else if (!quiet || !report.ok())
    print_report(image, report, seconds);
  return report.ok() ? 0 : 1;
}

}  // namespace ckpt::tools
