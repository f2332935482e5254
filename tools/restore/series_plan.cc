// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/series_plan.h"

#include <filesystem>

#include "common/base/log.h"

namespace ckpt::tools {
namespace {

bool is_damaged(const RestoreOptions &o) {
  Result<std::unique_ptr<storage::ImageReader>> image = open_image(o);
  return !image || !(*image)->verify(storage::ImageReader::Depth::Stored).ok();
}

}  // namespace

bool names_series(const std::string &folder) {
  std::error_code ec;
  return std::filesystem::is_directory(folder, ec) &&
         !std::filesystem::exists(folder + "/index.ckpt", ec) && Series::has_images(folder);
}

Result<RestorePlan> plan_series(RestoreOptions &o, Series &series) {
  std::vector<std::string> images = series.images();
  if (images.empty())
    return fail_with_hint(fmt::format("the program of {} has finished", series.folder()),
                          "name one of its images to restore it nevertheless");
  for (const std::string &image : images) {
    o.image = image;
    series.set_last(image);
    Result<RestorePlan> plan = make_plan(o);
    if (plan || !is_damaged(o) || image == images.back()) return plan;
    log::warn("the previous image is used, and the work since then is lost: {}",
              plan.error().text());
  }
  return fail("there is no image in {}", series.folder());
}

}  // namespace ckpt::tools
