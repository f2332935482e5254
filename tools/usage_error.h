// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a command line, in words for its user.
#pragma once

#include "common/base/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ckpt::tools {

// `app` has refused these arguments with `error`.
Error usage_error(const CLI::App &app, const CLI::ParseError &error, int argc,
                  const char *const *argv);

}  // namespace ckpt::tools
