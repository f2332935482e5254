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

// Where no rule is about times, room and use decide on all of them.
void keep_all(const Images &group, const char *reason, KeepPlan &plan) {
  for (const SavedImage *image : group) plan.kept[name_of(*image)] = {reason};
}

// A program writes no more images after its end, or after its job was cancelled.
bool is_unused(const Images &group, const KeepRules &rules) {
  return rules.unused_since && group.front()->created_time < *rules.unused_since;
}

void apply(const KeepRules &rules, const Images &group, KeepPlan &plan) {
  if (is_unused(group, rules)) {
    for (const SavedImage *image : group) plan.gone.insert(name_of(*image));
    return;
  }
  plan.newest.insert(name_of(*group.front()));
  if (!rules.times.has_rules())
    return keep_all(group, rules.most_bytes ? "max-size" : "used", plan);
  std::vector<time_t> times;
  for (const SavedImage *image : group) times.push_back(image->created_time);
  std::vector<std::vector<std::string>> why = rules_that_keep(times, rules.times);
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

// The oldest image that can go without harm to the others.
const SavedImage *next_to_go(const ImageFolder &folder, const KeepPlan &plan) {
  const SavedImage *oldest = nullptr;
  for (const SavedImage &image : folder.images()) {
    const std::string name = name_of(image);
    if (!plan.kept.contains(name) || plan.newest.contains(name)) continue;
    if (oldest && !is_newer(oldest, &image)) continue;
    if (!folder.is_needed(name, plan.gone) && !folder.is_in_use(name)) oldest = &image;
  }
  return oldest;
}

u64 kept_bytes(const ImageFolder &folder, const KeepPlan &plan) {
  ImageFolder::Names names;
  for (const auto &[name, reasons] : plan.kept) names.insert(name);
  return folder.bytes_of(names);
}

void make_room(const ImageFolder &folder, u64 most_bytes, KeepPlan &plan) {
  for (u64 bytes; (bytes = kept_bytes(folder, plan)) > most_bytes;) {
    const SavedImage *image = next_to_go(folder, plan);
    if (!image) {
      plan.bytes_over = bytes - most_bytes;
      return;
    }
    plan.kept.erase(name_of(*image));
    plan.gone.insert(name_of(*image));
  }
}

Failure refuse_damaged(const SavedImage &image) {
  return fail_with_hint(
      fmt::format("nothing was removed, because an image cannot be read, and may need others: {}",
                  image.why),
      fmt::format("repair it, or remove it: ckpt-image rm {}", image.path));
}

}  // namespace

Result<KeepPlan> plan_keep(const ImageFolder &folder, const KeepRules &rules) {
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
  while (!candidates.empty()) apply(rules, take_group(candidates, rules.by), plan);
  keep_needed(folder, plan);
  if (rules.most_bytes) make_room(folder, *rules.most_bytes, plan);
  return plan;
}

}  // namespace ckpt::tools
