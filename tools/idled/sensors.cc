// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/sensors.h"

#include <sys/stat.h>

#include <algorithm>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/regular_file.h"
#include "idle/sample_log.h"
#include "tools/idled/surroundings.h"

namespace ckpt::tools {

Result<Seen> MachineSensors::read() {
  Seen seen;
  CKPT_TRY(Processors::Use use, processors_.read(guests_));
  seen.guest_cpu = use.guests;
  seen.sample.owner_cpu = use.owner;
  seen.sample.owner_device_bytes = owner_device_bytes();
  seen.sample.input = input_ && input_->used();
  seen.sample.on_battery = on_battery("");
  seen.sample.celsius = warmest_celsius("");
  seen.sample.minute = minute_of_day();
  return seen;
}

// The Manager may be away for a moment. Each time that it goes away is logged once.
u64 MachineSensors::owner_device_bytes() {
  if (!memory_) return 0;
  Result<u64> bytes = memory_->owner_bytes(guests_);
  if (!bytes && !memory_failed_)
    log::warn("cannot read the use of device memory: {}", bytes.error().text());
  memory_failed_ = !bytes;
  if (bytes) device_bytes_ = boot_.more_than_after_boot(*bytes);
  return device_bytes_;
}

// Its end is enough, however long it has become.
Result<std::string> FileSensors::last_line() const {
  constexpr off_t kMostBytes = 1024;
  UniqueFd file = open_regular(path_);
  struct stat st {};
  if (!file || ::fstat(file.get(), &st) < 0) return std::string();
  std::string text(kMostBytes, '\0');
  CKPT_TRY(size_t n, read_at(file.get(), std::as_writable_bytes(std::span(text)),
                             std::max<off_t>(0, st.st_size - kMostBytes)));
  text.resize(n);
  size_t end = text.rfind('\n');
  if (end == text.npos || end == 0) return std::string();
  size_t before = text.rfind('\n', end - 1);
  return text.substr(before == text.npos ? 0 : before + 1, end - before - 1);
}

Result<Seen> FileSensors::read() {
  Seen seen;
  CKPT_TRY(std::string line, last_line());
  Result<std::optional<idle::Sample>> sample = idle::parse_sample(line);
  if (!sample) return Failure(std::move(sample).error().in(path_));
  seen.sample = *sample ? **sample : idle::Sample{.owner_cpu = 1};
  return seen;
}

}  // namespace ckpt::tools
