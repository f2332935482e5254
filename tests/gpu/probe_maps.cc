// SPDX-License-Identifier: Apache-2.0
//
// Questions about maps of GPUs for cuCheckpointProcessRestore (driver 580). NVIDIA's own test says
// that a map must name every GPU that the kernel's driver sees (cuda-python, test_checkpoint.py).
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "probe.h"

namespace probe {

namespace fs = std::filesystem;

std::string text_of(const CUuuid &uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; i++) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::vector<CUuuid> visible_devices() {
  int count = 0;
  CHECKED(cuDeviceGetCount, 2000, &count);
  std::vector<CUuuid> all(static_cast<size_t>(count));
  for (int i = 0; i < count; i++)
    CHECKED_AS(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, &all[static_cast<size_t>(i)], i);
  return all;
}

namespace {

CUuuid parsed(const std::string &text) {
  CUuuid uuid{};
  std::string digits;
  for (char c : text.substr(4))
    if (c != '-') digits += c;
  for (size_t i = 0; i < 16 && digits.size() >= 32; i++)
    uuid.bytes[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return uuid;
}

// Of the machine; those that this process sees where the files are not there.
std::vector<CUuuid> all_gpus() {
  std::vector<CUuuid> all;
  std::error_code ec;
  for (const auto &gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", ec)) {
    std::ifstream in(gpu.path() / "information");
    for (std::string line; std::getline(in, line);)
      if (size_t at = line.find("GPU-"); at != std::string::npos)
        all.push_back(parsed(line.substr(at)));
  }
  return all.empty() ? visible_devices() : all;
}

std::vector<CUcheckpointGpuPair> identity(const std::vector<CUuuid> &gpus) {
  std::vector<CUcheckpointGpuPair> pairs;
  for (const CUuuid &u : gpus) pairs.push_back({u, u});
  return pairs;
}

void swap_two() {
  std::vector<CUuuid> gpus = all_gpus();
  if (gpus.size() < 2) skip("there is one GPU");
  CUuuid mine = visible_devices().front();
  auto same = [&](const CUuuid &u) { return std::memcmp(&u, &mine, 16) == 0; };
  auto other = std::find_if_not(gpus.begin(), gpus.end(), same);
  std::vector<CUcheckpointGpuPair> pairs = identity(gpus);
  for (CUcheckpointGpuPair &p : pairs) {
    if (same(p.oldUuid))
      p.newUuid = *other;
    else if (std::memcmp(&p.oldUuid, &*other, 16) == 0)
      p.newUuid = mine;
  }
  CUdeviceptr p = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
  fill(p, 0x5eed);
  char before[32] = {}, after[32] = {};
  CALL(cuDeviceGetPCIBusId, 4010, before, 31, 0);
  leave_and_return(pairs);
  CALL(cuDeviceGetPCIBusId, 4010, after, 31, 0);
  CUuuid now = visible_devices().front();
  if (std::memcmp(&now, &*other, 16) != 0) fail("Restore has succeeded and moved nothing");
  if (!holds(p, 0x5eed)) fail("moved, and the contents have changed");
  std::printf("moved; the PCI bus id %s\n",
              std::strcmp(before, after) == 0 ? "is still the old one" : "is the new one");
}

}  // namespace

void ask_about_maps(const std::string &question) {
  if (question == "map-swapped") return swap_two();
  std::vector<CUcheckpointGpuPair> pairs;
  if (question == "map-visible") pairs = identity(visible_devices());
  bool listed = fs::exists("/proc/driver/nvidia/gpus");
  if (question == "map-full" && !listed && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr)
    skip("there is no list of the machine's GPUs");
  size_t gpus = all_gpus().size();
  if (question == "map-full") pairs = identity(all_gpus());
  leave();
  CUresult e = restore(pairs);
  if (e == CUDA_SUCCESS) unlock();
  std::printf("a map of %zu of %zu GPUs: %s\n", pairs.size(), gpus, error_name(e).c_str());
  std::fflush(stdout);
  _exit(e == CUDA_SUCCESS ? 0 : 1);  // a driver that is locked may block the end of the process
}

}  // namespace probe
