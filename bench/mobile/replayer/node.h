// SPDX-License-Identifier: Apache-2.0
//
// A node in modelled time. The decisions are those of the Manager itself (manager/policy), and the
// engines are those of the software device's clock (softcuda/broker/engines.h). What is replaced is
// everything between: processes, sockets and waking up take no time. So the same experiment gives
// the same result, in a fraction of a second.
//
// Each program executes its script, one operation after the other. An event of the queue says when
// its next operation may begin. A program that must leave copies its memory out when what it has
// submitted is done, and in when it resumes.
#pragma once

#include <queue>
#include <tuple>

#include "bench/mobile/replayer/script.h"
#include "manager/policy/policy.h"
#include "softcuda/broker/engines.h"

namespace ckpt::replay {

struct Outcome {
  double makespan = 0, mean_end = 0;
  u32 evictions = 0, failed = 0;
  std::vector<double> busy, ends;  // of each GPU: seconds of kernels, and the end of the last one
};

// A stay of a program on a GPU.
struct Span {
  std::string program;
  u32 number = 0;
  int gpu = 0;
  double from = 0, to = 0;
};

class Node {
 public:
  explicit Node(const Experiment &experiment);
  Outcome run();
  const std::vector<Span> &spans() const { return spans_; }

 private:
  using Nanoseconds = i64;
  enum class Does : u8 { Waits, Runs, Leaves, Away, Returns, Ended };
  struct Program {
    const Script *script = nullptr;
    Does does = Does::Waits;
    size_t allocated = 0;       // of the script's allocations
    size_t done = 0;            // operations, of all of the script
    u64 used = 0, seen = 0;     // allocated; and what the device has of it now
    u64 calls = 0, copied = 0;  // as the gates count them
    Nanoseconds last_call = 0;
    bool asked = false;  // an allocation waits for the Manager
    bool context = false;
    bool busy = false;                  // an operation is under way
    std::optional<bool> told_to_leave;  // true: its context stays
    int gpu = -1;
    double since = 0;  // on the GPU
  };
  struct Event {
    Nanoseconds at = 0;
    u64 order = 0;
    enum class What : u8 { Done, Report, Tick, Left, Returned } what = What::Done;
    u32 program = 0;
    bool operator<(const Event &o) const { return std::tie(o.at, o.order) < std::tie(at, order); }
  };

  void begin(u32 p);
  void handle(const Event &e);
  void at(Nanoseconds when, Event::What what, u32 program);
  manager::Time time() const { return manager::Time(now_ / 1000); }
  void measure(u32 about);
  void report_kernels();
  void say(u32 p, const managed::ToManager &message);
  void obey(const manager::Orders &orders);

  void told(u32 p, const managed::ToProgram &message);
  void placed(u32 p, const std::string &gpu);
  void suspend(u32 p, bool memory_only);
  void leave(u32 p);
  void left(u32 p);
  void deepen(u32 p);
  void resume(u32 p, const std::string &gpu);
  void returned(u32 p);
  void granted(u32 p);
  void next(u32 p);
  void allocate(u32 p);
  void finish(u32 p);
  void start(u32 p, const Operation &o);
  void end(u32 p);
  void report(u32 p);
  bool in_steps(const Program &p) const;
  bool may_stop(const Program &p) const;
  size_t length(const Script &s) const;
  const Operation &operation(const Script &s, size_t i) const;
  Nanoseconds move(u32 p);
  softcuda::broker::Job job_of(const Operation &o) const;
  softcuda::broker::Engines &engine(const Program &p) {
    return engines_[static_cast<size_t>(p.gpu)];
  }
  void hold(Program &p, u64 bytes);
  void give_back(Program &p, u64 bytes);
  void note_span(u32 p);

  const Experiment &experiment_;
  manager::Policy policy_;
  std::vector<softcuda::broker::Engines> engines_;
  std::vector<u64> free_;
  std::vector<Nanoseconds> kernels_;  // of each program, as reported
  std::vector<Program> programs_;
  std::priority_queue<Event> events_;
  std::vector<Span> spans_;
  std::vector<double> last_end_;
  u64 order_ = 0;
  Nanoseconds now_ = 0;
  Outcome outcome_;
  u32 running_ = 0;
};

}  // namespace ckpt::replay
