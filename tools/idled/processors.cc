// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/processors.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/base/words.h"
#include "tools/text_file.h"

namespace ckpt::tools {

// The line "cpu" of /proc/stat (proc_stat(5)), in ticks: user nice system idle iowait irq softirq
// steal. The time of virtual machines is in user and nice already. Stolen time is other machines'.
Result<Processors::Use> Processors::read(Guests &guests) {
  CKPT_TRY(std::string text, contents_of(root_ + "/proc/stat"));
  std::string_view line = after_name(text, "cpu ");
  std::array<double, 7> t{};
  bool complete = true;
  for (double &value : t) {
    u64 ticks = 0;
    complete &= parse_number(next_word(line), ticks);
    value = static_cast<double>(ticks);
  }
  if (!complete) return fail("{}/proc/stat has no line \"cpu\"", root_);
  auto [user, nice, system, idle, iowait, irq, softirq] = t;
  double busy = user + nice + system + irq + softirq, all = busy + idle + iowait;
  double busy_delta = busy - std::exchange(busy_before_, busy);
  double all_delta = all - std::exchange(all_before_, all);
  double guest_delta = guests.seconds_since_last() * static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (std::exchange(first_, false) || all_delta <= 0) return Use{};
  auto share = [&](double ticks) { return std::clamp(ticks / all_delta, 0.0, 1.0); };
  return Use{share(busy_delta - guest_delta), share(guest_delta)};
}

}  // namespace ckpt::tools
