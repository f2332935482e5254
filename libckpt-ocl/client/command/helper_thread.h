// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::ocl {

// Starts a thread of this library in the application. All signals are blocked in it, so that the
// application's threads handle them. Returns false if there can be no further thread.
bool start_helper_thread(const char *name, void (*run)(void *), void *argument);

}  // namespace ckpt::ocl
