// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// "TOOL: the program was checkpointed to IMAGE and stopped; …" on standard error. Not where that is
// a file: it is likely the program's own, and must keep the size that the image recorded.
void say_checkpointed(const char *tool, const std::string &image);

// Puts /dev/null in the place of our standard input and output. Until the program ends nobody but
// it may hold its streams: a reader must see its end of file, a writer its closed pipe.
void let_go_of_streams();

}  // namespace ckpt::tools
