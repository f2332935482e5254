// SPDX-License-Identifier: Apache-2.0
//
// The text of --help: usage, arguments, options with their values and defaults, commands. It is
// also what scripts/completions makes the completions of zsh and fish from.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ckpt::tools {

// `more` is appended to the line of usage: arguments that do not belong to the tool itself.
std::string help_text(const CLI::App &app, const std::string &more);
// "ckpt-image show", for a command of a tool too.
std::string full_name(const CLI::App &app);

}  // namespace ckpt::tools
