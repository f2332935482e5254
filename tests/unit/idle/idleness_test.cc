// SPDX-License-Identifier: Apache-2.0
#include "idle/idleness.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::idle;

namespace {

Time at(double seconds) { return Time(static_cast<i64>(seconds * 1e6)); }

// A machine that is seen at given times; `s` is what is seen next.
struct Machine {
  Settings settings;
  Sample s;
  Idleness idleness{settings};

  explicit Machine(const Settings &with = {}) : settings(with), idleness(with) {}
  std::optional<Transition> see(double seconds) {
    s.at = at(seconds);
    return idleness.observe(s);
  }
  // Idle since a second.
  void settle() {
    see(0);
    see(1);
    REQUIRE(idleness.idle());
  }
};

}  // namespace

TEST_CASE("a machine begins as busy, and is idle after a quiet second") {
  Machine m;
  CHECK_FALSE(m.see(0));
  CHECK_FALSE(m.see(0.999));
  CHECK_FALSE(m.idleness.idle());
  std::optional<Transition> t = m.see(1);
  REQUIRE(t);
  CHECK(t->idle);
  CHECK(t->reason == Reason::Quiet);
  CHECK(t->at == at(1));
}

TEST_CASE("it is busy at once, by the processors or by the device's memory") {
  Machine m;
  m.settle();
  SUBCASE("processors") {
    m.s.owner_cpu = 0.29;
    CHECK_FALSE(m.see(2));
    m.s.owner_cpu = 0.3;
    std::optional<Transition> t = m.see(2.001);
    REQUIRE(t);
    CHECK(t->reason == Reason::Cpu);
    CHECK(t->text == "the owner's programs use 30 % of the processors (limit: 30 %)");
  }
  SUBCASE("device memory") {
    m.s.owner_device_bytes = (1u << 20) - 1;
    CHECK_FALSE(m.see(2));
    m.s.owner_device_bytes = 1u << 20;
    REQUIRE(m.see(2.001));
    CHECK(m.idleness.last().reason == Reason::DeviceMemory);
  }
  CHECK_FALSE(m.idleness.idle());
}

TEST_CASE("a busy machine has the last reason that was seen, and the time of its transition") {
  Machine m;
  m.settle();
  m.s.owner_cpu = 1;
  CHECK(m.see(2));
  m.s.owner_cpu = 0;
  m.s.owner_device_bytes = 1u << 30;
  CHECK_FALSE(m.see(3));
  CHECK(m.idleness.last().reason == Reason::DeviceMemory);
  CHECK(m.idleness.last().at == at(2));
}

TEST_CASE("the quiet second starts again after each interruption, and makes one transition only") {
  Machine m;
  m.settle();
  m.s.owner_cpu = 1;
  CHECK(m.see(2));
  CHECK_FALSE(m.see(2.25));
  m.s.owner_cpu = 0;
  CHECK_FALSE(m.see(2.5));
  m.s.owner_cpu = 1;
  CHECK_FALSE(m.see(3.25));
  m.s.owner_cpu = 0;
  CHECK_FALSE(m.see(3.5));
  CHECK_FALSE(m.see(4.4));
  CHECK(m.see(4.5));
}

TEST_CASE("the first sample already says why a machine is busy") {
  Machine m;
  m.s.off = true;
  std::optional<Transition> t = m.see(0);
  REQUIRE(t);
  CHECK_FALSE(t->idle);
  CHECK(t->reason == Reason::Off);
}

TEST_CASE("the keyboard counts only where it is watched") {
  Machine plain;
  plain.settle();
  plain.s.input = true;
  CHECK_FALSE(plain.see(2));
  Machine m({.input = at(60)});
  CHECK_FALSE(m.see(0)->idle);  // nothing is known of the time before
  CHECK(m.idleness.due() == at(60));
  CHECK_FALSE(m.see(59.9));
  CHECK_FALSE(m.see(60));
  CHECK(m.idleness.due() == at(61));
  CHECK(m.see(61)->idle);
  m.s.input = true;
  CHECK(m.see(70)->reason == Reason::Input);
  m.s.input = false;
  CHECK_FALSE(m.see(129.9));
  CHECK(m.idleness.due() == at(130));
}

TEST_CASE("battery, temperature and hours count only where they are set") {
  Machine plain;
  plain.settle();
  plain.s.on_battery = true;
  plain.s.celsius = 99;
  plain.s.minute = 12 * 60;
  CHECK_FALSE(plain.see(2));
  Machine m({.battery = true, .celsius = 80, .hours = Hours{18 * 60, 8 * 60}});
  m.settle();  // without sensors
  m.s.on_battery = true;
  CHECK(m.see(2)->reason == Reason::Battery);
  m.s.on_battery = false;
  m.see(3);
  CHECK(m.see(4)->idle);
  m.s.celsius = 80;
  CHECK(m.see(5)->reason == Reason::Temperature);
  m.s.celsius = 79.9;
  m.see(6);
  CHECK(m.see(7)->idle);
  m.s.minute = 8 * 60;
  CHECK(m.see(8)->text == "it is 08:00, and guests run from 18:00 to 08:00");
}

TEST_CASE("hours may pass midnight") {
  Hours day{8 * 60, 18 * 60}, night{18 * 60, 8 * 60};
  for (int minute = 0; minute < 1440; minute++) CHECK(day.contain(minute) != night.contain(minute));
  CHECK(night.contain(0));
  CHECK(day.contain(8 * 60));
}

TEST_CASE("due: when the state changes although nothing else does") {
  Machine m;
  CHECK_FALSE(m.idleness.due());
  m.see(5);
  CHECK(m.idleness.due() == at(6));
  m.see(6);
  CHECK_FALSE(m.idleness.due());
  m.s.owner_cpu = 1;
  m.see(7);
  CHECK_FALSE(m.idleness.due());
}

TEST_CASE("any history: busy samples leave a machine busy, and idle follows a quiet time only") {
  u64 seed = 1;
  auto random = [&seed](u64 n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
  };
  for (int history = 0; history < 200; history++) {
    Machine m({.quiet = at(1)});
    double now = 0, calm_since = 0;
    bool idle = false;
    for (int i = 0; i < 200; i++, now += 0.05 * static_cast<double>(random(20))) {
      bool busy = random(6) == 0;
      m.s.owner_cpu = busy ? 0.5 : 0.1;
      if (busy) calm_since = 1e9;
      if (!busy) calm_since = std::min(calm_since, now);
      bool changed = m.see(now).has_value();
      CHECK(m.idleness.idle() == (!busy && at(now) >= at(calm_since) + at(1)));
      CHECK(changed == (m.idleness.idle() != idle || (i == 0 && busy)));
      idle = m.idleness.idle();
    }
  }
}
