// SPDX-License-Identifier: Apache-2.0
//
// The status of ckptd (manager/daemon/report/status.h) as text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/top/graph.h"

namespace ckpt::tools {

struct TableOptions {
  int width = 0;   // columns at which lines are cut; 0: they are not
  int height = 0;  // lines; 0: all
  int first = 0;   // with `height`: so many programs are scrolled out of sight
  bool colours = false;
  std::string sort = "arrival";       // one of kSortings
  const UsageGraph *graph = nullptr;  // shown below each GPU
};

inline const std::vector<std::string> kSortings = {"arrival", "pid", "user", "time", "memory"};

// A missing value is shown as 0 or as nothing, and a control character in a name as \xNN.
std::string status_table(const nlohmann::json &status, const TableOptions &options);
// What the columns and marks of the table mean.
std::string table_legend();
// At most `height` lines (0: all): the first `fixed` ones, and of the others those from `first` on.
// Where some are left out, the last line says so.
std::string scrolled(const std::vector<std::string> &lines, int fixed, int first, int height);

}  // namespace ckpt::tools
