// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "common/progress.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt {
namespace {

using nlohmann::json;

json report_json(const ImageReader &image, const ImageReader::VerifyReport &report) {
  return {{"image", image.path()},
          {"ok", report.ok()},
          {"damaged_chunks", report.damaged_chunks},
          {"damages", report.damages}};
}

void print_report(const ImageReader &image, const ImageReader::VerifyReport &report,
                  double seconds) {
  for (const std::string &d : report.damages) fmt::print("{}\n", for_terminal(d));
  ImageStats s = image.stats();
  if (report.ok())
    fmt::print("{}: whole; {} of {} streams checked in {:.1f} s\n", for_terminal(image.path()),
               human_bytes(s.raw_bytes), image.streams().size(), seconds);
  else
    fmt::print("{}: DAMAGED; {} of {} stored chunks\n", for_terminal(image.path()),
               report.damaged_chunks, image.index().chunks.size());
}

}  // namespace

int verify(const ImageReader &image, bool quiet, bool as_json) {
  auto start = std::chrono::steady_clock::now();
  Progress progress("verify", quiet || as_json);
  ImageReader::VerifyReport report = image.verify(
      ImageReader::Depth::Full, [&](u64 done, u64 total) { progress.update(done, total); });
  progress.finish();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (as_json)
    fmt::print("{}\n",
               report_json(image, report).dump(2, ' ', false, json::error_handler_t::replace));
  else
    print_report(image, report, seconds);
  return report.ok() ? 0 : 1;
}

}  // namespace ckpt
