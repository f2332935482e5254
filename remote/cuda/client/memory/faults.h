// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

// From now on `resolve` is asked about each fault of the program (SIGSEGV), on the thread that
// faults. True: the access can be tried again. Otherwise the handler that the program had gets the
// signal. A handler that the program sets later replaces this one.
void watch_faults(bool (*resolve)(u64 address));

}  // namespace ckpt::remote::cuda
