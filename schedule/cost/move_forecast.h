// SPDX-License-Identifier: Apache-2.0
//
// What a move between devices of this node and of another one costs, what it gains, and from which
// remaining run time on it pays (MR-4 and MR-5, docs/PAPERS.md).
//
// Behind a link, a call that waits for an answer waits for a round trip more than on this node, and
// bytes take as long as the link needs for them:
//
//     lost = waits × answer + bytes / rate           of each second of the program's time
//
// On a device of this node nothing is lost. A second of work takes 1 - lost(now) + lost(then) after
// the move, if both devices compute equally fast, which nothing here knows. The move costs what the
// program stands still for, and pays once that is gained:
//
//     move = leave(bytes) + enter(bytes)             as earlier moves of this machine took
//     pays after  move / (lost(now) - lost(then))    seconds of its time on its present devices
//
// Example: 25 waits a second for 2.1 ms are 5 % of the time. A move that takes 0.9 s pays after
// 18 s, or 300 steps of 60 ms.
//
// Waits of several threads at the same time count one after the other, and so the gain may be too
// high; what the device does while an answer travels is not seen, with the same effect.
#pragma once

#include <optional>
#include <span>

#include "schedule/cost/estimate.h"

namespace ckpt::schedule {

// A second of a program's time: its calls that wait, and the bytes that go both ways. No value: it
// was not counted.
struct Work {
  std::optional<double> waits, bytes;
};

// The way to devices. The seconds for an answer, and bytes a second; no value: not measured.
struct Way {
  bool here = true;  // of this node: nothing is lost
  std::optional<double> answer, rate;
};

// A part of an earlier move: what the program had on its devices, and how long it took.
struct MovedBytes {
  double bytes = 0, seconds = 0;
};

// Without earlier moves it is at least the time that the bytes take on the way, if its rate is
// known.
Estimate part_of_move(std::span<const MovedBytes> earlier, double bytes, const Way &way);

// The share of the program's time that it loses by the way.
Estimate lost_share(const Work &work, const Way &way);

struct Forecast {
  Estimate move;  // seconds for which the program stands still
  Estimate then;  // seconds that the work of a second takes after the move
  Estimate gain;  // of each second
  enum class Pays { Unknown, Never, After };
  Pays pays = Pays::Unknown;
  Estimate after;  // seconds of its time on its present devices
};

Forecast forecast_move(const Estimate &move, const Estimate &lost_now, const Estimate &lost_then);

}  // namespace ckpt::schedule
