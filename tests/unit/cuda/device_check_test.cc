// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/device_check.h"

#include <doctest/doctest.h>

#include "driver-checkpoint/uuid.h"
#include "libckpt-cuda/proxy/forwarded_check.h"

using namespace ckpt::cuda;
using nlohmann::json;

namespace {

RealDevice device(const char *uuid, unsigned long long free_mib = 100, int capability = 90) {
  return {"a GPU", uuid, 200ull << 20, free_mib << 20, capability};
}

json old_device(const char *uuid, bool used, unsigned mib = 10) {
  return {{"name", "a GPU"}, {"uuid", uuid},       {"capability", 90},
          {"used", used},    {"bytes", mib << 20}, {"memory_bytes", 200u << 20}};
}

json requirements(std::initializer_list<json> devices) { return {{"devices", json(devices)}}; }

using Map = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("without a choice each device is mapped to itself") {
  DeviceCheck v = check_devices(requirements({old_device("b", true), old_device("a", false)}),
                                {device("a"), device("b")}, {});
  CHECK(v.reasons.empty());
  CHECK(v.map == Map{{"b", "b"}, {"a", "a"}});
}

TEST_CASE("--device moves a used device, and the others take what is left") {
  DeviceCheck v = check_devices(requirements({old_device("a", true), old_device("b", false)}),
                                {device("a"), device("b")}, {"b"});
  CHECK(v.reasons.empty());
  CHECK(v.map == Map{{"a", "b"}, {"b", "a"}});
}

TEST_CASE("on another machine devices are mapped in order, and an unused one may go without") {
  DeviceCheck v = check_devices(requirements({old_device("a", false), old_device("b", true)}),
                                {device("x")}, {});
  CHECK(v.reasons.empty());
  CHECK(v.map == Map{{"b", "x"}});
}

TEST_CASE("requirements of wrong types name no device") {
  json wrong = {{"name", 1}, {"uuid", json::array()}, {"capability", "9"}, {"used", "yes"}};
  DeviceCheck v = check_devices(requirements({wrong, 7}), {device("a")}, {});
  CHECK(v.reasons.empty());
  complete_check(v, {{"gpus", {1, "a"}}}, {"a"}, 13000);
  CHECK(check_devices({{"devices", 7}}, {device("a")}, {}).map.empty());
}

TEST_CASE("two used devices never become one") {
  DeviceCheck v = check_devices(requirements({old_device("a", true), old_device("b", true)}),
                                {device("x")}, {});
  REQUIRE(v.reasons.size() == 1);
  CHECK(v.reasons[0].find("no CUDA device left") != std::string::npos);
  v = check_devices(requirements({old_device("a", true), old_device("b", true)}),
                    {device("x"), device("y")}, {"y"});
  CHECK(v.reasons.size() == 1);
}

TEST_CASE("every reason is reported: too little memory, another chip type") {
  DeviceCheck v = check_devices(requirements({old_device("a", true, 150), old_device("b", true)}),
                                {device("x", 100), device("y", 100, 80)}, {});
  REQUIRE(v.reasons.size() == 2);
  CHECK(v.reasons[0].find("100 MiB are free") != std::string::npos);
  CHECK(v.reasons[1].find("same chip type") != std::string::npos);
}

TEST_CASE("malformed requirements are no error") {
  for (const char *text : {"{}", "{\"devices\": 3}", "{\"devices\": [3, null, {}]}"})
    CHECK(check_devices(json::parse(text), {device("x")}, {}).reasons.empty());
}

TEST_CASE("a map names every GPU of the machine, each with one of its own") {
  std::vector<std::string> four{"a", "b", "c", "d"};
  CHECK(complete_map({{"a", "c"}}, four, four)->size() == 4);
  CHECK(*complete_map({{"a", "c"}}, four, four) ==
        Map{{"a", "c"}, {"b", "b"}, {"d", "d"}, {"c", "a"}});
  CHECK(*complete_map({{"a", "y"}}, {"a", "b"}, {"x", "y"}) == Map{{"a", "y"}, {"b", "x"}});
  CHECK(*complete_map({{"a", "y"}}, {"a"}, {"x", "y"}) == Map{{"a", "y"}});
  CHECK(*complete_map({{"a", "y"}}, {}, {"x", "y"}) == Map{{"a", "y"}});  // an older image
}

TEST_CASE("a map that moves nothing is left out") {
  CHECK(complete_map({{"a", "a"}, {"b", "b"}}, {"a", "b", "c"}, {"a", "b", "c"})->empty());
  CHECK(complete_map({}, {"a"}, {"b"})->empty());
}

TEST_CASE("fewer GPUs than before, and drivers without maps, are refused by name") {
  json needs = requirements({old_device("a", true)});
  needs["gpus"] = {"a", "b"};
  DeviceCheck v = check_devices(needs, {device("x")}, {});
  complete_check(v, needs, {"x"}, 13000);
  REQUIRE(v.reasons.size() == 1);
  CHECK(v.reasons[0].find("a machine with 2 GPUs, and this one has 1") != std::string::npos);
  v = check_devices(needs, {device("a"), device("b")}, {"b"});
  complete_check(v, needs, {"a", "b"}, 12080);
  REQUIRE(v.reasons.size() == 1);
  CHECK(v.reasons[0].find("CUDA 12.8") != std::string::npos);
  v = check_devices(needs, {device("a"), device("b")}, {});
  complete_check(v, needs, {"a", "b"}, 12080);
  CHECK(v.reasons.empty());
  CHECK(v.map.empty());
}

TEST_CASE("UUIDs are parsed as they are written") {
  CUuuid u{};
  for (int i = 0; i < 16; i++) u.bytes[i] = static_cast<char>(i * 17);
  std::string text = uuid_text(u);
  CHECK(text == "GPU-00112233-4455-6677-8899-aabbccddeeff");
  ckpt::Result<CUuuid> back = parse_uuid(text);
  REQUIRE(back);
  CHECK(uuid_text(*back) == text);
  for (const char *bad : {"", "GPU-", "GPU-0011", "GPU-zz112233-4455-6677-8899-aabbccddeeff"})
    CHECK(!parse_uuid(bad));
}

namespace {

json forwarded(std::initializer_list<json> devices, std::vector<std::string> targets) {
  return {{"forwarded", true},
          {"devices", json(devices)},
          {"code", {{{"kernel", "k"}, {"targets", targets}}}}};
}

json numbered(unsigned number, bool used, unsigned mib = 10) {
  return {{"number", number}, {"name", "a GPU"}, {"used", used}, {"bytes", mib << 20}};
}

}  // namespace

TEST_CASE("which chips code runs on") {
  CHECK(runs_on("sm_80", 86, false));
  CHECK_FALSE(runs_on("sm_86", 80, false));
  CHECK_FALSE(runs_on("sm_80", 90, false));
  CHECK_FALSE(runs_on("sm_80", 80, true));  // the software device
  CHECK(runs_on("compute_80", 90, true));
  CHECK_FALSE(runs_on("compute_90", 80, false));
  CHECK(runs_on("sm_90a", 90, false));
  CHECK_FALSE(runs_on("compute_90a", 100, false));
  CHECK(runs_on("compute_100f", 103, false));
  CHECK_FALSE(runs_on("compute_100f", 110, false));
  for (const char *nonsense : {"", "sm_", "sm", "compute_x", "90"})
    CHECK_FALSE(runs_on(nonsense, 90, false));
}

TEST_CASE("a program that calls a server takes any chip for which it has code") {
  std::vector<RealDevice> offered{device("a", 100, 80), device("b", 100, 90)};
  auto reasons = [&](const json &needs, const std::vector<std::string> &chosen) {
    return check_forwarded(needs, offered, chosen, false).reasons;
  };
  json portable = forwarded({numbered(0, true)}, {"sm_90", "compute_80"});
  CHECK(is_forwarded(portable));
  CHECK(reasons(portable, {}).empty());
  CHECK(reasons(portable, {"b"}).empty());
  json modern = forwarded({numbered(0, true)}, {"sm_90"});
  CHECK(reasons(modern, {"b"}).empty());
  REQUIRE(reasons(modern, {"a"}).size() == 1);
  CHECK(reasons(modern, {"a"})[0].find("kernel \"k\"") != std::string::npos);
  CHECK(reasons(forwarded({numbered(0, true, 150)}, {"compute_80"}), {"a"}).size() == 1);
  CHECK(reasons(forwarded({numbered(0, false), numbered(1, true)}, {"sm_90"}), {}).empty());
  CHECK(reasons(forwarded({numbered(1, true)}, {"sm_90"}), {"b"}).size() == 1);
}

TEST_CASE("requirements that are malformed are no program on a server, or have nothing") {
  CHECK_FALSE(is_forwarded(json{{"forwarded", "yes"}}));
  CHECK_FALSE(is_forwarded(requirements({})));
  for (const json &j : {json{{"forwarded", true}}, json{{"devices", 5}, {"code", "x"}},
                        json{{"devices", {1, "x", json::object()}}}})
    CHECK(check_forwarded(j, {device("a")}, {}, false).reasons.empty());
}
