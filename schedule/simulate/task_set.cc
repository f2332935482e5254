// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate/task_set.h"

#include <utility>

#include "schedule/contention/paper_tasks.h"
#include "schedule/simulate/random.h"

namespace ckpt::schedule {
namespace {

constexpr const char *kOthers[] = {"CG",     "LU",           "MG",          "SP",
                                   "UA",     "alignedTypes", "gaussian",    "Hotspot",
                                   "Kmeans", "SRAD",         "transposeNew"};

// One round of a set, which is repeated.
std::vector<const char *> round_of(TaskSet set) {
  std::vector<const char *> names(std::begin(kOthers), std::end(kOthers));
  size_t cbmat = set == TaskSet::Equal ? 1 : set == TaskSet::MuchCbmat ? 5 : 0;
  names.insert(names.end(), cbmat, "cbmat");
  return names;
}

}  // namespace

std::vector<ContentionTask> task_set(TaskSet set, size_t count, u64 seed) {
  std::vector<const char *> names = round_of(set);
  std::vector<ContentionTask> tasks;
  for (size_t i = 0; i < count; i++) tasks.push_back(paper_task(names[i % names.size()]));
  Random random(seed);
  for (size_t i = tasks.size(); i > 1; i--) std::swap(tasks[i - 1], tasks[random.below(i)]);
  return tasks;
}

}  // namespace ckpt::schedule
