// SPDX-License-Identifier: Apache-2.0
//
// What is known of kinds of programs, in a file from one ckptd to the next: JSON, as it is told in
// the status.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/result.h"
#include "manager/policy/kinds.h"

namespace ckpt::manager {

nlohmann::json kinds_as_json(const std::vector<KindFacts> &all);
// Nothing where there is no such file. One that is not understood is an error; a kind that is not
// is left out.
Result<std::vector<KindFacts>> read_kinds(const std::string &path);
// The file is the old one or the new one, whole, unless the machine stops.
Result<> write_kinds(const std::string &path, const std::vector<KindFacts> &all);

}  // namespace ckpt::manager
