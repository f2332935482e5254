// SPDX-License-Identifier: Apache-2.0
#include "common/proc/mounts.h"

#include <algorithm>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {
namespace {

// The kernel writes a blank, a tab, a line's end and a backslash as three octal digits.
std::string without_escapes(std::string_view text) {
  constexpr size_t kDigits = 3;
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    unsigned code = 0;
    bool escape = text[i] == '\\' && i + kDigits < text.size() &&
                  parse_number(text.substr(i + 1, kDigits), code, 8);
    plain += escape ? static_cast<char>(code) : text[i];
    i += escape ? kDigits : 0;
  }
  return plain;
}

}  // namespace

// "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue": any number of
// fields before the hyphen.
std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  enum { kId = 0, kPoint = 4 };
  std::vector<Mount> all;
  for (std::string_view line : lines_of(mountinfo)) {
    std::vector<std::string_view> fields = words_of(line);
    auto hyphen = std::ranges::find(fields, "-");
    Mount m;
    if (hyphen - fields.begin() <= kPoint || fields.end() - hyphen < 4 ||
        !parse_number(fields[kId], m.id))
      continue;
    m.point = without_escapes(fields[kPoint]);
    m.type = hyphen[1];
    m.options = hyphen[3];
    all.push_back(std::move(m));
  }
  return all;
}

std::vector<Mount> mounts_of(pid_t pid) {
  std::string mountinfo = text(pid, "mountinfo");
  return parse_mounts(mountinfo);
}

}  // namespace ckpt::proc
