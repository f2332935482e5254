// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/place_search.h"

#include <algorithm>

#include "schedule/steer/estimates.h"

namespace ckpt::schedule {
namespace {

// The job on one class, and what both searches ask for.
class Seeker {
 public:
  Seeker(Ticks now, const Cluster &cluster, SharedNodes &shared, const LiveJob &j, ClassIndex c)
      : now_(now),
        calendar_(cluster.classes[c].calendar),
        shared_(shared),
        tree_(shared.tree(c)),
        on_(c),
        sharer_(
            shared.sharer_on(j, c, seconds_of(share_of(j.run[c], Estimates::left_of(j))), false)) {}

  const SharedTree &tree() const { return tree_; }
  const Resources &needs() const { return sharer_.needs; }
  bool is_idle(Ticks begin, Ticks end) const { return calendar_.is_idle(begin, end, 1); }
  Ticks from_now(double seconds) const { return now_ + ticks_of(seconds); }

  // The job ends on no node below the place before that time. Nothing: it can run on none of them.
  std::optional<Ticks> earliest_end(size_t place) const {
    const SharedSummary &s = tree_[place];
    if (!needs().fits_in(s.has)) return {};
    const double start = needs().fits_in(s.room) ? 0 : s.later;
    const Ticks end = from_now((start + sharer_.seconds) * (1 - SharedNodes::kRounding));
    return is_idle(s.until, end) ? std::optional(end) : std::nullopt;
  }
  std::optional<Ticks> earliest_end_beside(size_t node) const {
    const Ticks end = from_now(shared_.earliest_end(node, sharer_));
    return is_idle(shared_.until(node), end) ? std::optional(end) : std::nullopt;
  }
  bool may_begin_now(size_t place) const {
    const SharedSummary &s = tree_[place];
    return needs().fits_in(s.room) &&
           is_idle(s.until, from_now(sharer_.seconds * (1 - SharedNodes::kRounding)));
  }
  // Whether it surely occupies the node for too long.
  bool delays(size_t node) const {
    return !is_idle(shared_.until(node), from_now(shared_.earliest_node_end(node, sharer_)));
  }
  // Where no job copies, a further job does not make the node's end earlier.
  std::optional<PlaceSearch::Witness> witness(size_t node) const {
    PlaceSearch::Witness w{on_, node, shared_.jobs_on(node), 0};
    if (is_copying(sharer_) || shared_.any_copies(node)) return w;
    if (delays(node)) return {};
    w.node_end = from_now(shared_.joined(node, sharer_).node_end * (1 - SharedNodes::kRounding));
    return is_idle(shared_.until(node), w.node_end) ? std::optional(w) : std::nullopt;
  }
  std::optional<Place> place(size_t node) const {
    auto [span, node_end] = shared_.joined(node, sharer_);
    const Ticks end = from_now(node_end);
    if (!is_idle(shared_.until(node), end)) return {};
    return Place{node, on_, from_now(span.start), from_now(span.end), end, true};
  }

 private:
  const Ticks now_;
  const Calendar &calendar_;
  const SharedNodes &shared_;
  const SharedTree &tree_;
  const ClassIndex on_;
  const Sharer sharer_;
};

bool is_earlier(Ticks end, size_t node, const Place &than) {
  return std::pair(end, node) < std::pair(than.end, than.node);
}

class FirstBeside {
 public:
  explicit FirstBeside(Ticks by) : by_(by) {}

  void add(const Seeker &job) { add_place(job, SharedTree::kRoot); }

  std::optional<Place> find() {
    while (!candidates_.empty()) {
      const Candidate first = candidates_.top();
      if (best_ && !is_earlier(first.end, first.node, *best_)) break;
      candidates_.pop();
      look_at(first);
    }
    return best_;
  }

 private:
  struct Candidate {
    Ticks end;    // not before it
    size_t node;  // the first one
    const Seeker *job;
    size_t place;
    bool beside;  // it counts the neighbours' contention

    bool operator<(const Candidate &o) const {
      return std::pair(o.end, o.node) < std::pair(end, node);  // the top is the earliest one
    }
  };

  void look_at(const Candidate &c) {
    if (!c.job->tree().is_node(c.place)) {
      add_place(*c.job, SharedTree::left(c.place));
      add_place(*c.job, SharedTree::right(c.place));
    } else if (!c.beside) {
      add_candidate(c.job->earliest_end_beside(c.node), {0, c.node, c.job, c.place, true});
    } else if (!c.job->delays(c.node)) {
      std::optional<Place> place = c.job->place(c.node);
      if (place && place->end <= by_ && (!best_ || is_earlier(place->end, place->node, *best_)))
        best_ = place;
    }
  }

  void add_place(const Seeker &job, size_t place) {
    if (std::optional<Ticks> end = job.earliest_end(place))
      add_candidate(end, {0, job.tree().first_node(place), &job, place, false});
  }

  void add_candidate(std::optional<Ticks> end, Candidate c) {
    if (!end || *end > by_) return;
    c.end = *end;
    candidates_.push(c);
  }

  const Ticks by_;
  std::priority_queue<Candidate> candidates_;
  std::optional<Place> best_;
};

// The first one below the place, and the job beside those that run there.
std::optional<PlaceSearch::Witness> witness_below(const Seeker &job, size_t place) {
  if (!job.may_begin_now(place)) return {};
  if (job.tree().is_node(place)) return job.witness(job.tree().first_node(place));
  if (auto witness = witness_below(job, SharedTree::left(place))) return witness;
  return witness_below(job, SharedTree::right(place));
}

}  // namespace

std::optional<Place> PlaceSearch::first_beside(const LiveJob &j, Ticks by) const {
  std::vector<Seeker> on;  // by class
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
    if (j.run[c] > 0 && shared_.may_share(j, c)) on.emplace_back(now_, cluster_, shared_, j, c);
  FirstBeside first(by);
  for (const Seeker &job : on) first.add(job);
  return first.find();
}

std::optional<Place> PlaceSearch::first_of_all(const LiveJob &j, Ticks by) const {
  std::optional<Place> best;
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
    if (j.run[c] <= 0 || !shared_.may_share(j, c)) continue;
    const Seeker job(now_, cluster_, shared_, j, c);
    for (size_t node : shared_.shared(c)) {
      if (!shared_.is_large_enough(node, job.needs())) continue;
      std::optional<Place> place = job.place(node);
      if (place && place->end <= by && (!best || is_earlier(place->end, node, *best))) best = place;
    }
  }
  return best;
}

std::optional<PlaceSearch::Witness> PlaceSearch::may_begin_now(const LiveJob &j,
                                                               ClassIndex c) const {
  if (!shared_.may_share(j, c)) return {};
  return witness_below(Seeker(now_, cluster_, shared_, j, c), SharedTree::kRoot);
}

bool PlaceSearch::still_holds(const Witness &w) const {
  return shared_.jobs_on(w.node) == w.jobs &&
         cluster_.classes[w.on].calendar.is_idle(shared_.until(w.node), w.node_end, 1);
}

}  // namespace ckpt::schedule
