// SPDX-License-Identifier: Apache-2.0
//
// Facts flow from functions to their callers until nothing changes. There are three, each set at
// most once, so the work is linear in the number of calls. A call through a pointer may reach every
// function: it goes to a node of its own, which all functions lead to.
#include "slicing/reach.h"

#include <unordered_map>

namespace ckpt::slicing {
namespace {

class Flow {
 public:
  explicit Flow(const Outline &outline)
      : outline_(outline),
        any_function_(outline.routines.size()),
        facts_(outline.routines.size() + 1),
        callers_(outline.routines.size() + 1) {}

  std::vector<Reach> run() {
    connect();
    for (size_t i = 0; i < any_function_; ++i) start(i);
    while (!changed_.empty()) {
      size_t i = changed_.back();
      changed_.pop_back();
      for (size_t caller : callers_[i])
        if (add(facts_[caller], facts_[i])) changed_.push_back(caller);
    }
    facts_.pop_back();
    return std::move(facts_);
  }

 private:
  void connect() {
    std::unordered_map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < any_function_; ++i)
      if (const Routine &r = outline_.routines[i]; r.has_body()) by_name[r.name()] = i;
    for (size_t i = 0; i < any_function_; ++i) {
      const Routine &r = outline_.routines[i];
      for (std::string_view name : r.calls)
        if (auto callee = by_name.find(name); callee != by_name.end())
          callers_[callee->second].push_back(i);
      if (r.calls_pointer) callers_[any_function_].push_back(i);
      if (!r.is_kernel() && r.has_body()) callers_[i].push_back(any_function_);
    }
  }

  void start(size_t i) {
    const Routine &r = outline_.routines[i];
    facts_[i] = {!r.is_kernel() && !r.reads.empty(), r.may_wait, r.whole};
    changed_.push_back(i);
  }

  static bool add(Reach &to, const Reach &from) {
    Reach before = to;
    to.reads_in_function |= from.reads_in_function;
    to.may_wait |= from.may_wait;
    if (to.whole == nullptr) to.whole = from.whole;
    return to.reads_in_function != before.reads_in_function || to.may_wait != before.may_wait ||
           to.whole != before.whole;
  }

  const Outline &outline_;
  const size_t any_function_;
  std::vector<Reach> facts_;
  std::vector<std::vector<size_t>> callers_;
  std::vector<size_t> changed_;
};

}  // namespace

std::vector<Reach> reach_of(const Outline &outline) { return Flow(outline).run(); }

}  // namespace ckpt::slicing
