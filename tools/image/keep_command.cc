// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image keep.
#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/units.h"
#include "tools/image/commands.h"
#include "tools/image/keep.h"
#include "tools/image/tree.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

struct Done {
  json kept = json::array(), removed = json::array(), left = json::array(),
       failures = json::array();
  u64 bytes = 0;
  std::string text;
};

void note(Done &done, const ImageFolder &folder, const KeepPlan &plan, bool dry_run) {
  for (const SavedImage &image : folder.images()) {
    const std::string name = name_of(image), path = printable(image.path);
    if (auto kept = plan.kept.find(name); kept != plan.kept.end()) {
      done.kept.push_back({{"image", image.path}, {"reasons", kept->second}});
      done.text += fmt::format("kept     {}  {}\n", path, fmt::join(kept->second, ", "));
    } else if (plan.gone.contains(name)) {
      done.removed.push_back(image.path);
      done.text += fmt::format("{}  {}\n", dry_run ? "to go  " : "removed", path);
    } else if (auto left = plan.left.find(name); left != plan.left.end()) {
      done.left.push_back({{"image", image.path}, {"why", left->second}});
      done.text += fmt::format("left     {}  {}\n", path, printable(left->second));
    }
  }
  done.bytes += folder.bytes_of(plan.gone);
}

void note_excess(Done &done, const std::string &path, u64 bytes) {
  std::string what = fmt::format(
      "{}: the images that stay take {} more than --max-size, because each is the newest of its "
      "program, needed by an increment or in use",
      path, human_bytes(bytes));
  log::warn("{}", what);
  done.failures.push_back(what);
}

Result<> keep_in(const std::string &path, const KeepOptions &o, Done &done) {
  if (is_of_job(path))
    return fail_with_hint(
        fmt::format("{} is a checkpoint of a job, in which all images belong together", path),
        "remove the older checkpoints of a job with ckpt-dump --job FOLDER --keep N");
  CKPT_TRY(ImageFolder folder, ImageFolder::read(path, o.removal.key));
  CKPT_TRY(KeepPlan plan, plan_keep(folder, o.rules));
  if (!o.removal.dry_run) CKPT_CHECK(folder.remove(plan.gone));
  note(done, folder, plan, o.removal.dry_run);
  if (plan.bytes_over > 0) note_excess(done, path, plan.bytes_over);
  return {};
}

// Of many folders, one that cannot be worked on does not stop the others.
Result<> keep_in_tree(const std::string &top, const KeepOptions &o, Done &done) {
  CKPT_TRY(std::vector<std::string> folders, folders_of_tree(top));
  for (const std::string &folder : folders) {
    if (is_of_job(folder)) continue;
    Result<> kept = keep_in(folder, o, done);
    if (kept) continue;
    log::warn("{}", kept.error().text());
    done.failures.push_back(kept.error().text());
  }
  return {};
}

void report(const Done &done, const KeepOptions &o) {
  if (o.removal.json) {
    json j{{"kept", done.kept},         {"removed", done.removed}, {"left", done.left},
           {"failures", done.failures}, {"bytes", done.bytes},     {"dry_run", o.removal.dry_run}};
    return print_text(json_text(j, 2) + "\n");
  }
  print_text(done.text);
  print("{} of {} images {}, {}\n", done.removed.size(), done.kept.size() + done.removed.size(),
        o.removal.dry_run ? "would be removed" : "removed", human_bytes(done.bytes));
}

}  // namespace

Result<int> keep(const std::string &folder, const KeepOptions &o) {
  if (!o.rules.any())
    return fail_with_hint("no rule says which images to keep",
                          "give at least one of --last, --hourly, --daily, --weekly, --monthly, "
                          "--within, --unused and --max-size");
  Done done;
  CKPT_CHECK(o.recursive ? keep_in_tree(folder, o, done) : keep_in(folder, o, done));
  report(done, o);
  return done.failures.empty() ? 0 : 1;
}

}  // namespace ckpt::tools
