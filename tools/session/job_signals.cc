// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_signals.h"

namespace ckpt::tools {

Result<JobSignals> JobSignals::hold(const std::string &list) {
  JobSignals s;
  CKPT_TRY(s.signals_, parse_signals(list));
  hold_signals(s.signals_);
  return s;
}

Result<> JobSignals::start(Keeper &keeper, const std::string &folder, unsigned keep) {
  if (signals_.empty()) return {};
  auto begin = [&keeper, folder, keep](Keeper::DumpEnded ended) {
    return keeper.start_job_dump({"--job", folder, "--keep", std::to_string(keep)}, folder,
                                 std::move(ended));
  };
  CKPT_TRY(on_signal_, OnSignal::start(keeper, signals_, begin));
  return {};
}

int JobSignals::exit_code(const Keeper::Outcome &outcome) const {
  return on_signal_ && (outcome.image || outcome.error) ? on_signal_->exit_code() : 0;
}

}  // namespace ckpt::tools
