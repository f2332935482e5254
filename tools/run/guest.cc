// SPDX-License-Identifier: Apache-2.0
#include "tools/run/guest.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/base/log.h"
#include "tools/run/display.h"

namespace ckpt::tools {
namespace {

constexpr const char *kVariable = "CKPT_SLICES";
constexpr const char *kMemoryVariable = "CKPT_WHOLE_KERNELS";
// Of a client of CUDA's MPS server: 1 is below normal (Multi-Process Service, section 4.2.8).
constexpr const char *kMpsPriority = "CUDA_MPS_CLIENT_PRIORITY";
constexpr std::string_view kTunable[] = {"frame",      "continuous", "kernels", "margin",  "window",
                                         "percentile", "lows",       "probes",  "patience"};

bool is_number(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1e15;
}

Failure wrong(std::string_view option, std::string_view value, std::string hint) {
  return fail_with_hint(fmt::format("{} cannot be \"{}\"", option, value), std::move(hint));
}

// "auto", "64" (blocks), "25%" or "20ms".
Result<std::string> slice_word(std::string_view slice) {
  if (slice.empty() || slice == "auto") return std::string();
  std::string_view number = slice.substr(0, slice.find_first_not_of(".0123456789"));
  std::string_view unit = slice.substr(number.size());
  const char *word = unit == "ms" ? "ms" : unit == "%" ? "percent" : "blocks";
  bool whole = number.find('.') == std::string_view::npos;
  bool known = unit.empty() ? whole : unit == "ms" || unit == "%";
  if (!known || !is_number(number) || std::strtod(std::string(number).c_str(), nullptr) == 0)
    return wrong(
        "--slice", slice,
        "write auto, a number of blocks (64), a part of each launch (25%) or a time (20ms)");
  return fmt::format(",{}={}", word, number);
}

Result<> check_tuning(std::string_view list) {
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    size_t equals = word.find('=');
    bool known = equals != std::string_view::npos &&
                 std::ranges::find(kTunable, word.substr(0, equals)) != std::end(kTunable) &&
                 is_number(word.substr(equals + 1));
    if (!known)
      return wrong("--guest-tuning", word,
                   fmt::format("write NAME=NUMBER with one of {}", fmt::join(kTunable, ", ")));
  }
  return {};
}

// Without a display, the default of slicing/settings.h holds.
std::string frames_of_display() {
  std::optional<double> rate = display_rate(system_displays());
  if (!rate) return {};
  log::info("guest: the display shows {:.2f} frames per second", *rate);
  return fmt::format(",fps={:.3f}", *rate);
}

// ~/.cache/ckpt/whole-kernels, in a folder that exists. Empty without a home, and where it belongs
// to another user, as may be under sudo.
std::string memory_path() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache == '/')
    folder = cache;
  else if (home != nullptr && *home == '/')
    folder = std::filesystem::path(home) / ".cache";
  else
    return {};
  std::error_code ignored;
  std::filesystem::create_directories(folder / "ckpt", ignored);
  struct stat status {};
  bool own = ::stat((folder / "ckpt").c_str(), &status) == 0 && status.st_uid == ::geteuid();
  return own ? (folder / "ckpt" / "whole-kernels").string() : std::string();
}

}  // namespace

void add_guest_options(CommandLine &line, GuestOptions &o) {
  Option guest = line.flag("--guest", o.guest,
                           "share the device with its owner: run kernels in slices, and pause "
                           "while the owner's programs use it");
  line.option("--fps=N", o.fps,
              "with --guest: the frames that the owner's programs draw each second")
      .default_is("of the display, or 60")
      .needs(guest);
  line.option(
      "--slice=SIZE", o.slice,
      "run kernels in slices of this many blocks (64), this part of a launch (25%) or this time "
      "(20ms), so that a checkpoint need not wait for the end of a kernel; auto: as --guest "
      "chooses");
  line.option("--guest-tuning=LIST", o.tuning,
              "with --guest or --slice: NAME=NUMBER,… as in docs/GUEST.md");
}

Result<> add_slices(const GuestOptions &o, ProgramEnvironment &e) {
  e.without.insert(e.without.end(), {kVariable, kMemoryVariable});
  if (!o.fps.empty() && (!is_number(o.fps) || std::strtod(o.fps.c_str(), nullptr) < 1))
    return wrong("--fps", o.fps, "write a number of frames per second, such as 60");
  CKPT_TRY(std::string slice, slice_word(o.slice));
  CKPT_CHECK(check_tuning(o.tuning));
  if (!o.guest && slice.empty()) {
    if (o.slice.empty() && o.tuning.empty()) return {};
    return fail_with_hint("--slice=auto and --guest-tuning need --guest",
                          "add --guest, or give --slice a size");
  }
  std::string words = o.guest ? "guest" : "slice";
  if (!o.fps.empty()) words += ",fps=" + o.fps;
  if (o.guest && o.fps.empty()) words += frames_of_display();
  if (o.guest && std::getenv(kMpsPriority) == nullptr) e.set.emplace_back(kMpsPriority, "1");
  words += slice;
  if (!o.tuning.empty()) words += "," + o.tuning;
  e.set.emplace_back(kVariable, words);
  if (std::string path = memory_path(); !path.empty()) e.set.emplace_back(kMemoryVariable, path);
  return {};
}

}  // namespace ckpt::tools
