// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-idled reads of a machine, from folders with proc/ and sys/ of their own.
#include <linux/input.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tools/idled/device_memory.h"
#include "tools/idled/input.h"
#include "tools/idled/off_switch.h"
#include "tools/idled/processors.h"
#include "tools/idled/sensors.h"
#include "tools/idled/surroundings.h"
#include "tools/session/programs.h"

using namespace ckpt;
using namespace ckpt::tools;
namespace fs = std::filesystem;

namespace {

struct Root {
  std::string path;
  Root() {
    char name[] = "/tmp/ckpt-idled-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Root() { fs::remove_all(path); }
  void write(const std::string &file, const std::string &text) const {
    fs::create_directories(fs::path(path + file).parent_path());
    std::ofstream(path + file) << text;
  }
  // Ticks: of the owner and the guests together, and of nothing.
  void cpu(int used, int idle) const {
    write("/proc/stat", fmt::format("cpu  {} 0 0 {} 0 0 0 500 77 0\ncpu0 1 2 3\n", used, idle));
  }
  void process(int pid, int ticks, int start = 5, const char *name = "a) b") const {
    write(fmt::format("/proc/{}/stat", pid),
          fmt::format("{} ({}) S 1 1 1 0 -1 0 0 0 0 0 {} 0 9999 9999 20 0 1 0 {} 0 0\n", pid, name,
                      ticks, start));
  }
};

std::string self() { return std::to_string(::geteuid()); }

}  // namespace

TEST_CASE("the guests' processor time, by account, is not the owner's") {
  Root root;
  Guests guests(root.path);
  REQUIRE(guests.add_users(self()));
  Processors processors(root.path);
  root.cpu(1000, 1000);
  root.process(10, 300);
  REQUIRE(processors.read(guests));
  root.cpu(1060, 1040);
  root.process(10, 340);
  root.process(11, 5);  // new
  Processors::Use use = *processors.read(guests);
  CHECK(use.guests == doctest::Approx(0.45));
  CHECK(use.owner == doctest::Approx(0.15));
  // Another process with the PID of one that has ended has used all of its time since.
  root.cpu(1120, 1080);
  root.process(10, 30, 900);
  CHECK(processors.read(guests)->guests == doctest::Approx(0.30));
  // Guests that were counted too late do not make the owner's use negative.
  root.cpu(1121, 1180);
  root.process(10, 90, 900);
  CHECK(processors.read(guests)->owner == 0);
}

TEST_CASE("the guests' processor time, by cgroup") {
  Root root;
  Guests guests(root.path);
  REQUIRE(guests.add_cgroup("system.slice/guests.scope/"));
  Processors processors(root.path);
  root.cpu(0, 0);
  REQUIRE(processors.read(guests));  // there is no such cgroup yet
  const double tick = 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto used = [&](int ticks) {
    root.write("/sys/fs/cgroup/system.slice/guests.scope/cpu.stat",
               fmt::format("usage_usec {}\nuser_usec 1\n", static_cast<i64>(ticks * tick)));
  };
  used(50);
  root.cpu(80, 20);
  CHECK(processors.read(guests)->owner == doctest::Approx(0.3));
  used(60);
  root.cpu(180, 20);
  CHECK(processors.read(guests)->owner == doctest::Approx(0.9));
  for (const char *wrong : {"", "/", "a/../b"}) CHECK_FALSE(guests.add_cgroup(wrong));
}

TEST_CASE("a guest is known by its account or its cgroup") {
  Root root;
  Guests by_account(root.path), by_cgroup(root.path);
  REQUIRE(by_account.add_users(self()));
  CHECK_FALSE(by_account.add_users("no-such-account"));
  REQUIRE(by_cgroup.add_cgroup("guests"));
  root.write("/proc/10/cgroup", "0::/guests/job_1\n");
  root.write("/proc/11/cgroup", "0::/guests-not\n");
  // Beside hierarchies of version 1 the line of version 2 is the last one.
  root.write("/proc/13/cgroup", "4:memory:/guests\n1:name=systemd:/guests\n0::/guests\n");
  root.write("/proc/14/cgroup", "4:memory:/guests\n0::/\n");
  CHECK(by_account.has(10));
  CHECK_FALSE(by_account.has(12));
  CHECK(by_cgroup.has(10));
  CHECK_FALSE(by_cgroup.has(11));
  CHECK(by_cgroup.has(13));
  CHECK_FALSE(by_cgroup.has(14));
}

TEST_CASE("device memory of the owner is what guests do not hold, more than after boot") {
  class TwoGpus final : public manager::Meter {
   public:
    const std::vector<manager::MeteredGpu> &gpus() const override { return gpus_; }
    Result<manager::Reading> read(size_t gpu) override { return readings[gpu]; }
    std::vector<manager::Reading> readings = {{900, {{}}}, {1000, {{}}}};

   private:
    std::vector<manager::MeteredGpu> gpus_ = {{"a", "a", 1000}, {"b", "b", 1000}};
  };
  Root root;
  root.process(10, 0);
  Guests guests(root.path);
  REQUIRE(guests.add_users(self()));
  auto gpus = std::make_unique<TwoGpus>();
  TwoGpus *meter = gpus.get();
  std::unique_ptr<DeviceMemory> memory = memory_by_meter(std::move(gpus));
  CHECK(*memory->owner_bytes(guests) == 100);
  meter->readings = {{500, {{{10, 300}, {999999, 200}}}}, {800, {{{10, 200}}}}};
  CHECK(*memory->owner_bytes(guests) == 200);
  meter->readings[1].processes.reset();
  CHECK_FALSE(memory->owner_bytes(guests));
}

TEST_CASE("what was held after boot outlasts ckpt-idled, and is the least that was seen") {
  Root root;
  std::string file = root.path + "/boot";
  BootMemory first(file);
  CHECK(first.more_than_after_boot(100) == 0);
  CHECK(first.more_than_after_boot(150) == 50);
  BootMemory second(file);
  CHECK(second.more_than_after_boot(150) == 50);
  CHECK(second.more_than_after_boot(60) == 0);
  CHECK(BootMemory(file).more_than_after_boot(70) == 10);
}

TEST_CASE("keys and the mouse are input, other events are not") {
  Root root;
  fs::create_directories(root.path + "/input");
  CHECK_FALSE(InputDevices::open(root.path + "/input"));
  auto event = [&](u16 type) {
    input_event e{};
    e.type = type;
    std::ofstream out(root.path + "/input/event0", std::ios::app | std::ios::binary);
    out.write(reinterpret_cast<const char *>(&e), sizeof e);
  };
  event(EV_ABS);
  Result<InputDevices> input = InputDevices::open(root.path + "/input");
  REQUIRE(input);
  CHECK_FALSE(input->used());
  event(EV_REL);
  CHECK(input->used());
  CHECK_FALSE(input->used());
  event(EV_KEY);
  event(EV_SW);
  CHECK(input->used());
}

TEST_CASE("battery and temperature") {
  Root root;
  CHECK_FALSE(on_battery(root.path));
  CHECK_FALSE(warmest_celsius(root.path));
  root.write("/sys/class/power_supply/AC/type", "Mains\n");
  root.write("/sys/class/power_supply/mouse/type", "Battery\n");
  root.write("/sys/class/power_supply/mouse/status", "Discharging\n");
  root.write("/sys/class/power_supply/mouse/scope", "Device\n");
  CHECK_FALSE(on_battery(root.path));
  root.write("/sys/class/power_supply/BAT0/type", "Battery\n");
  root.write("/sys/class/power_supply/BAT0/status", "Charging\n");
  CHECK_FALSE(on_battery(root.path));
  root.write("/sys/class/power_supply/BAT0/status", "Discharging\n");
  CHECK(on_battery(root.path));
  root.write("/sys/class/thermal/thermal_zone0/temp", "41500\n");
  root.write("/sys/class/thermal/thermal_zone1/temp", "63000\n");
  root.write("/sys/class/thermal/cooling_device0/cur_state", "1\n");
  CHECK(warmest_celsius(root.path) == 63);
}

TEST_CASE("the off switch: what is not a user's own file does not count, and is removed") {
  Root root;
  OffSwitch off(root.path + "/off");
  CHECK_FALSE(off.off());
  REQUIRE(off.create());
  CHECK(off.users().empty());
  REQUIRE(off.off());
  REQUIRE(off.off());
  CHECK(off.users() == std::vector{user_name(::geteuid())});
  root.write("/off/4242", "");
  fs::create_symlink("/etc/passwd", root.path + "/off/4243");
  CHECK(off.users().size() == 1);
  CHECK_FALSE(fs::exists(root.path + "/off/4242"));
  CHECK_FALSE(fs::is_symlink(root.path + "/off/4243"));
  REQUIRE(off.on());
  CHECK(off.users().empty());
  // What cannot be removed sends guests away.
  root.write("/off/4242/file", "");
  CHECK(off.users().size() == 1);
}

TEST_CASE("samples from a file: the last whole line; without one the machine is busy") {
  Root root;
  FileSensors sensors(root.path + "/samples");
  CHECK(sensors.read()->sample.owner_cpu == 1);
  root.write("/samples", "0 cpu=10");
  CHECK(sensors.read()->sample.owner_cpu == 1);
  root.write("/samples", "0 cpu=10\n1 cpu=2");
  CHECK(sensors.read()->sample.owner_cpu == doctest::Approx(0.1));
  root.write("/samples", std::string(5000, '#') + "\n1 cpu=20\n");
  CHECK(sensors.read()->sample.owner_cpu == doctest::Approx(0.2));
  root.write("/samples", "1 cpu=x\n");
  CHECK_FALSE(sensors.read());
}
