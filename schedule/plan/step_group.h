// SPDX-License-Identifier: Apache-2.0
//
// The two levels of a Calendar above its steps. Neither is ever empty.
#pragma once

#include <memory>
#include <vector>

#include "schedule/plan/idle_summary.h"

namespace ckpt::schedule {

class StepBlock {
 public:
  static constexpr size_t kMost = 128;

  explicit StepBlock(std::vector<Step> steps) : steps_(std::move(steps)) { count(); }

  const std::vector<Step> &steps() const { return steps_; }
  Ticks from() const { return steps_[0].from; }
  unsigned least() const { return least_; }
  unsigned most() const { return most_; }
  const IdleRuns &runs(unsigned level) const;
  // Since when its last steps have `n` free; kForever if the last one has not.
  Ticks open_since(unsigned n) const;
  // Of the step that contains `t`, or the first one.
  size_t index_of(Ticks t) const;

  // Makes a step begin at `t`, which is in the block.
  void split_at(Ticks t);
  // To the steps that begin in this time.
  void add(Ticks begin, Ticks end, i64 n);
  // Removes those that end by `now`, and appends them to `past`; the last one stays.
  void drop_before(Ticks now, std::vector<Step> &past);
  std::unique_ptr<StepBlock> split_off();

 private:
  void count();
  void merge(size_t i);

  std::vector<Step> steps_;
  unsigned least_ = 0, most_ = 0;
  RunsByLevel runs_;
};

class StepGroup {
 public:
  static constexpr size_t kMost = 64;

  explicit StepGroup(Step step);

  size_t size() const { return blocks_.size(); }
  StepBlock &block(size_t i) { return *blocks_[i]; }
  const StepBlock &block(size_t i) const { return *blocks_[i]; }
  Ticks from() const { return blocks_[0]->from(); }
  unsigned least() const { return least_; }
  unsigned most() const { return most_; }
  const IdleRuns &runs(unsigned level) const;
  Ticks open_since(unsigned n) const;
  size_t index_of(Ticks t) const;

  // After a change of one of its blocks, which is split here if it has become too large.
  void changed(size_t i);
  void drop_first() { blocks_.erase(blocks_.begin()), count(); }
  StepGroup split_off();

 private:
  StepGroup() = default;
  void count();

  std::vector<std::unique_ptr<StepBlock>> blocks_;
  unsigned least_ = 0, most_ = 0;
  RunsByLevel runs_;
};

}  // namespace ckpt::schedule
