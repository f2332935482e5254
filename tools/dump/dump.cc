// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump.h"

#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "tools/dump/link_remaps.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

// A script that constantly starts programs changes the tree between any two inspections.
constexpr int kAttempts = 20;
constexpr auto kNameWait = 500ms;  // for another dump

}  // namespace

// A shortage of memory or threads is a failed step like any other.
Result<DumpReport> Dump::run() {
  OnCancel guard(cancel_, [this] {
    if (options_.in_pipe()) image_.abandon();  // the pipe's reader may have stopped reading
  });
  auto deadline = Clock::now() + std::chrono::seconds(options_.timeout_seconds);
  for (int number = 1;; number++) {
    DumpAttempt attempt(options_, cancel_, marker_, image_);
    Result<> done = guarded([&] { return attempt.begin(); });
    if (done) done = guarded([&] { return attempt.checkpoint(); });
    if (done) return finish(attempt);
    if (Result<> cancelled = cancel_.check(); !cancelled) done = cancelled;
    bool again =
        number < kAttempts && Clock::now() < deadline && attempt.another_may_succeed(done.error());
    attempt.undo(done.error());
    if (!again) return Failure(done.error());
    if (link_name_is_taken(done.error())) std::this_thread::sleep_for(kNameWait);
    log::debug("the dump is started again");
  }
}

Result<DumpReport> Dump::finish(DumpAttempt &attempt) {
  Result<> done = attempt.finish();
  devices_lost_ = attempt.devices_lost();
  if (!done) return Failure(std::move(done).error());
  return attempt.report();
}

}  // namespace ckpt::tools
