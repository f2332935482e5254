// SPDX-License-Identifier: Apache-2.0
//
// A connector is a folder of sysfs: card0-HDMI-A-1. Only a card with an enabled one is opened. The
// names of modes in sysfs have no rate, so the card's CRTCs (what sends pixels to connectors) are
// asked. That needs no right but to open the card, which the user of a seat and the group `video`
// have. It is the same under X11, Wayland and on the console.
//
// The first process that opens a card becomes its master, if it may. That is given up at once, so
// that a display server which starts at this moment can become it.
#include "tools/run/display.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

constexpr unsigned long kDropMaster = _IO('d', 0x1f), kResources = _IOWR('d', 0xa0, DrmResources),
                        kCrtc = _IOWR('d', 0xa1, DrmCrtc);
constexpr u32 kInterlaced = 1u << 4, kDoubleScan = 1u << 5;
constexpr u32 kMostCrtcs = 64;
constexpr double kLeast = 10, kMost = 1000;  // of a display

std::string word_in(const std::filesystem::path &file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

std::set<std::string> cards_in_use(const std::string &sysfs) {
  std::set<std::string> cards;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(sysfs, error)) {
    std::string name = entry.path().filename();
    size_t dash = name.find('-');
    if (!name.starts_with("card") || dash == std::string::npos) continue;
    if (word_in(entry.path() / "status") == "connected" &&
        word_in(entry.path() / "enabled") == "enabled")
      cards.insert(name.substr(0, dash));
  }
  return cards;
}

std::vector<u32> crtcs_of(int card, const DisplaySource &source) {
  std::vector<u32> ids(kMostCrtcs);
  DrmResources r{};
  r.crtcs = reinterpret_cast<u64>(ids.data());
  r.count_crtcs = kMostCrtcs;
  if (source.control(card, kResources, &r) != 0) return {};
  ids.resize(std::min(r.count_crtcs, kMostCrtcs));
  return ids;
}

double rate_of_card(int card, const DisplaySource &source) {
  double fastest = 0;
  source.control(card, kDropMaster, nullptr);
  for (u32 id : crtcs_of(card, source)) {
    DrmCrtc crtc{};
    crtc.id = id;
    if (source.control(card, kCrtc, &crtc) == 0 && crtc.mode_valid != 0)
      fastest = std::max(fastest, refresh_rate(crtc.mode));
  }
  return fastest;
}

}  // namespace

// As the kernel computes it (drm_mode_vrefresh), but not rounded.
double refresh_rate(const DrmMode &mode) {
  double pixels = static_cast<double>(mode.htotal) * mode.vtotal;
  if (pixels == 0) return 0;
  double rate = mode.clock * 1000.0 / pixels;
  if ((mode.flags & kInterlaced) != 0) rate *= 2;
  if ((mode.flags & kDoubleScan) != 0) rate /= 2;
  if (mode.vscan > 1) rate /= mode.vscan;
  return rate >= kLeast && rate <= kMost ? rate : 0;
}

DisplaySource system_displays() {
  DisplaySource source;
  source.control = [](int fd, unsigned long request, void *argument) {
    return ::ioctl(fd, request, argument);
  };
  return source;
}

std::optional<double> display_rate(const DisplaySource &source) {
  double fastest = 0;
  for (const std::string &name : cards_in_use(source.sysfs)) {
    UniqueFd card(::open((source.devices + "/" + name).c_str(), O_RDWR | O_CLOEXEC));
    if (card) fastest = std::max(fastest, rate_of_card(card.get(), source));
  }
  if (fastest == 0) return std::nullopt;
  return fastest;
}

}  // namespace ckpt::tools
