// SPDX-License-Identifier: Apache-2.0
//
// Accesses of the program to memory that it has at other times: of a device that has the memory
// now. The essay is at the top of faults.cc.
#pragma once

#include "common/base/bytes.h"

namespace ckpt {

// From now on `resolve` is asked about each fault of the program (SIGSEGV), on the thread that
// faults. `mapped`: something is mapped there, but without the access. True: the access can be
// tried again. Otherwise the handler that the program had gets the signal.
//
// A handler that the program sets later replaces this one, until this is called again, with the
// same function.
void watch_faults(bool (*resolve)(u64 address, bool mapped));

}  // namespace ckpt
