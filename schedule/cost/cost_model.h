// SPDX-License-Identifier: Apache-2.0
//
// The expected time of a checkpoint and of a restore (KS-1 to KS-4, docs/PAPERS.md).
//
//     C = aC M + bC + W        R = aR M + bR + K
//
// M is the data in the image, in MB (10^6 bytes); K the time in which the program's kernels are
// compiled again; a and b are constants of a resource class and its storage, fitted by least
// squares to what was measured there. The paper has no W, and its one bad prediction is a program
// with a queue of long kernels, for which a checkpoint waits. W is the time that a checkpoint waits
// for work which the device has begun; it is known for each measured checkpoint, so it does not
// distort the fit.
#pragma once

#include <span>
#include <vector>

namespace ckpt::schedule {

struct Line {
  double slope = 0, base = 0;
  double at(double x) const { return slope * x + base; }
};

// Least squares. With fewer than two different x: a constant line through the mean. Neither part
// may be negative, because no checkpoint takes negative time: a negative part is set to zero, and
// the other is fitted alone.
struct Point {
  double x = 0, y = 0;
};
Line fit_line(std::span<const Point> points);

struct CheckpointSample {
  double megabytes = 0, seconds = 0;
  double waited = 0;  // of these seconds, for work that the device had begun
};
struct RestoreSample {
  double megabytes = 0, seconds = 0;
  double compiled = 0;  // of these seconds, to build kernels
};

struct CostModel {
  Line checkpoint, restore;  // seconds by megabytes

  double checkpoint_seconds(double megabytes, double wait = 0) const {
    return checkpoint.at(megabytes) + wait;
  }
  double restore_seconds(double megabytes, double compile = 0) const {
    return restore.at(megabytes) + compile;
  }
};

CostModel fit_costs(std::span<const CheckpointSample> checkpoints,
                    std::span<const RestoreSample> restores);

// (predicted - measured) / measured (KS-4).
double relative_error(double predicted, double measured);

// The share of the errors with an absolute value of at most `limit`; 1 if there are none.
double share_within(std::span<const double> errors, double limit);

// KS-3's table, for comparisons: an i7 920 with a Tesla C1060 and NFS.
CostModel paper_cpu_costs();
CostModel paper_gpu_costs();

}  // namespace ckpt::schedule
