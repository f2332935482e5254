// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace ckpt::tools {

struct MoveOptions {
  std::string host;                         // [USER@]HOST
  std::string rsh = "ssh";                  // how to get there
  std::string tool_there = "ckpt-migrate";  // and what to run there
  std::string device, output, key_file, key_file_there;
  bool shared_key = false;
  bool ignore_processor = false;
  bool with_files = false;  // the images carry the program's files
  unsigned most_rounds = 8;
  std::optional<double> max_downtime;  // seconds
  int timeout_seconds = 60;            // for running kernels
  int link_timeout = 60;
  bool keep = false;  // the images, on both sides
  bool quiet = false;
  bool json = false;
  std::string svg;  // the file for a picture
};

}  // namespace ckpt::tools
