// SPDX-License-Identifier: Apache-2.0
#include "tools/run/display.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <sys/ioctl.h>

using namespace ckpt;
using namespace ckpt::tools;

namespace {

DrmMode mode(u32 clock, u16 htotal, u16 vtotal, u32 flags = 0) {
  DrmMode m{};
  m.clock = clock, m.htotal = htotal, m.vtotal = vtotal, m.flags = flags;
  return m;
}

// A folder of sysfs with connectors, and a kernel with one CRTC for each mode; 0: none is set.
struct Displays {
  std::filesystem::path folder;
  DisplaySource source;
  std::vector<DrmMode> modes;
  bool dropped_master = false;

  Displays() {
    char name[] = "/tmp/ckpt-displays-XXXXXX";
    folder = ::mkdtemp(name);
    source.sysfs = folder / "sysfs";
    source.devices = folder / "dev";
    std::filesystem::create_directories(source.devices);
    source.control = [this](int, unsigned long request, void *p) { return control(request, p); };
  }
  ~Displays() { std::filesystem::remove_all(folder); }

  void connector(const std::string &name, const char *status, const char *enabled) {
    std::filesystem::path at = std::filesystem::path(source.sysfs) / name;
    std::filesystem::create_directories(at);
    std::ofstream(at / "status") << status << "\n";
    std::ofstream(at / "enabled") << enabled << "\n";
  }
  void device(const std::string &name) {
    std::ofstream(std::filesystem::path(source.devices) / name) << "";
  }

  int control(unsigned long request, void *p) {
    switch (_IOC_NR(request)) {
      case 0x1f: dropped_master = true; return 0;
      case 0xa0: return resources(*static_cast<DrmResources *>(p));
      case 0xa1: return crtc(*static_cast<DrmCrtc *>(p));
      default: return -1;
    }
  }
  int resources(DrmResources &r) const {
    auto *ids = reinterpret_cast<u32 *>(r.crtcs);
    for (u32 n = 0; n < modes.size() && n < r.count_crtcs; ++n) ids[n] = 40 + n;
    r.count_crtcs = static_cast<u32>(modes.size());
    return 0;
  }
  int crtc(DrmCrtc &c) const {
    c.mode = modes.at(c.id - 40);
    c.mode_valid = c.mode.clock != 0 ? 1 : 0;
    return 0;
  }
};

}  // namespace

TEST_CASE("the rate of a mode is its clock divided by its pixels") {
  CHECK(refresh_rate(mode(148'500, 2200, 1125)) == doctest::Approx(60));
  CHECK(refresh_rate(mode(148'352, 2200, 1125)) == doctest::Approx(59.94).epsilon(1e-4));
  CHECK(refresh_rate(mode(74'250, 2200, 1125, 1u << 4)) == doctest::Approx(60));  // interlaced
  CHECK(refresh_rate(mode(0, 2200, 1125)) == 0);
  CHECK(refresh_rate(mode(148'500, 0, 0)) == 0);
  CHECK(refresh_rate(mode(4'000'000, 20, 20)) == 0);
}

TEST_CASE("F is that of the fastest display that is switched on") {
  Displays d;
  d.connector("card1-HDMI-A-1", "connected", "enabled");
  d.connector("card1-DP-1", "disconnected", "disabled");
  d.device("card1");
  d.modes = {mode(148'500, 2200, 1125), mode(0, 0, 0), mode(586'000, 2720, 1496)};
  std::optional<double> rate = display_rate(d.source);
  REQUIRE(rate);
  CHECK(*rate == doctest::Approx(144).epsilon(1e-3));
  CHECK(d.dropped_master);
}

TEST_CASE("without an enabled display, or the right to open its card, there is no rate") {
  Displays d;
  d.modes = {mode(148'500, 2200, 1125)};
  CHECK(!display_rate(d.source));
  d.connector("card0-DP-1", "connected", "disabled");
  d.device("card0");
  CHECK(!display_rate(d.source));
  d.connector("card0-DP-1", "connected", "enabled");
  CHECK(display_rate(d.source));
  std::filesystem::remove(std::filesystem::path(d.source.devices) / "card0");
  CHECK(!display_rate(d.source));
  d.device("card0");
  d.source.control = [](int, unsigned long, void *) { return -1; };
  CHECK(!display_rate(d.source));
}

TEST_CASE("a driver with more CRTCs than there is room for is not believed") {
  Displays d;
  d.connector("card0-DP-1", "connected", "enabled");
  d.device("card0");
  d.modes.assign(100, mode(148'500, 2200, 1125));
  CHECK(*display_rate(d.source) == doctest::Approx(60));
}
