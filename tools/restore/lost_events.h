// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/result.h"

namespace ckpt::tools {

// Makes IN_Q_OVERFLOW the next event of an inotify descriptor (inotify(7)): its program learns that
// events were lost, and looks again. The kernel adds that event when the queue is full, so the
// queue is filled with events of a file of ours, which are read again.
Result<> report_lost_events(int inotify);

}  // namespace ckpt::tools
