// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/stand_by.h"

#include "common/base/io.h"
#include "common/base/test_points.h"
#include "tools/restore/restored_agents.h"

namespace ckpt::tools {

StandBy::StandBy(const MigrationOptions &m, const RestoreOptions &o)
    : connection_(m.take_over.value_or(-1)), folder_(m.record), options_(o) {}

Result<> StandBy::wait(RestoreOptions &o, RestorePlan &plan) {
  CKPT_CHECK(prepare(options_.image));
  test_point("standing-by");
  CKPT_CHECK(write_all(connection_, view("C")));
  for (char word = 0; word != 'L';) {
    u32 round = 0;
    if (!read_exactly(connection_, &word, 1)) return fail("the program goes on where it was");
    if (word != 'N') continue;
    CKPT_CHECK(read_exactly(connection_, &round, sizeof round));
    CKPT_CHECK(prepare(fmt::format("{}/{}.img", folder_, round)));
  }
  o.image = options_.image;
  CKPT_TRY(plan, make_plan(o, &plan));
  return {};
}

// There is time now, so this uses a core even if none is idle. What was decompressed before keeps
// its memory, and what has not changed its bytes.
Result<> StandBy::prepare(const std::string &path) {
  options_.image = path;
  CKPT_TRY(auto image, open_image(options_));
  CKPT_TRY(ImageManifest m, ImageManifest::parse(image->manifest()));
  contents_ = begin_contents(*image, m, std::max(1U, idle_cores()), std::move(contents_));
  image_ = std::move(image);  // the one before is in use until here
  return {};
}

// Its files grow meanwhile.
Result<RestorePlan> first_plan(RestoreOptions o) {
  if (!o.stand_by) return make_plan(o);
  o.check_only = true;
  o.grown_files.choice = GrownFiles::Append;
  return make_plan(o);
}

}  // namespace ckpt::tools
