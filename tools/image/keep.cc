// SPDX-License-Identifier: Apache-2.0
#include "tools/image/keep.h"

#include <algorithm>
#include <tuple>

namespace ckpt::tools {
namespace {

using State = SavedImage::State;
using Images = std::vector<const SavedImage *>;

bool is_newer(const SavedImage *a, const SavedImage *b) {
  auto order = [](const SavedImage &i) { return std::tuple(i.created_time, i.generation, i.path); };
  return order(*a) > order(*b);
}

// Why the rules do not apply to an image; "": they do.
std::string left_because(const ImageFolder &folder, const SavedImage &image) {
  if (image.state == State::Locked) return image.why;
  return folder.against(name_of(image));
}

// Takes the images that the rules apply to together with the first one of `all`.
Images take_group(Images &all, CountedBy by) {
  const SavedImage *first = all.front();
  auto begin = std::stable_partition(all.begin(), all.end(), [&](const SavedImage *i) {
    return by == CountedBy::Program && !i->is_of_program(*first);
  });
  Images group(begin, all.end());
  all.erase(begin, all.end());
  std::ranges::sort(group, is_newer);
  return group;
}

void apply(const Retention &rules, const Images &group, KeepPlan &plan) {
  std::vector<time_t> times;
  for (const SavedImage *image : group) times.push_back(image->created_time);
  std::vector<std::vector<std::string>> why = rules_that_keep(times, rules);
  for (size_t i = 0; i < group.size(); i++)
    if (why[i].empty())
      plan.gone.insert(name_of(*group[i]));
    else
      plan.kept[name_of(*group[i])] = std::move(why[i]);
}

void keep(KeepPlan &plan, const std::string &name, const char *reason) {
  if (plan.gone.erase(name) > 0) plan.kept[name].emplace_back(reason);
}

// What a kept image needs, and what a dump is using.
void keep_needed(const ImageFolder &folder, KeepPlan &plan) {
  for (const std::string &name : ImageFolder::Names(plan.gone))
    if (folder.is_in_use(name)) keep(plan, name, "parent of a dump in progress");
  ImageFolder::Names staying;
  for (const SavedImage &image : folder.images())
    if (!plan.gone.contains(name_of(image))) staying.insert(name_of(image));
  for (const std::string &name : folder.with_parents(staying))
    keep(plan, name, "needed by an increment");
}

Failure refuse_damaged(const SavedImage &image) {
  return fail_with_hint(
      fmt::format("nothing was removed, because an image cannot be read, and may need others: {}",
                  image.why),
      fmt::format("repair it, or remove it: ckpt-image rm {}", image.path));
}

}  // namespace

Result<KeepPlan> plan_keep(const ImageFolder &folder, const Retention &rules, CountedBy by) {
  KeepPlan plan;
  Images candidates;
  for (const SavedImage &image : folder.images()) {
    if (image.state == State::Damaged) return refuse_damaged(image);
    std::string why = left_because(folder, image);
    if (why.empty())
      candidates.push_back(&image);
    else
      plan.left[name_of(image)] = why;
  }
  while (!candidates.empty()) apply(rules, take_group(candidates, by), plan);
  keep_needed(folder, plan);
  return plan;
}

}  // namespace ckpt::tools
