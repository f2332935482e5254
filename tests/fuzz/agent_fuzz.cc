// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile agent. The input is all that it says to ckpt-dump during a dump or a
// suspend, or to ckpt-restore while contents are loaded; and what stands in an agent's outcome
// pipe. An image that is finished from it must be one that can be read.
#include <signal.h>

#include "agent/ipc/outcome_pipe.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "storage/read/image_reader.h"
#include "tests/fuzz/fake_peer.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/volatile_file_system.h"
#include "tools/agent_link/load_contents.h"
#include "tools/agent_link/requirements.h"
#include "tools/agent_link/save_contents.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;
using storage::ImageReader;
using storage::ImageWriter;

VolatileFileSystem &file_system() {
  static VolatileFileSystem fs;
  return fs;
}

std::string image_folder(const char *name) { return scratch_folder() + "/" + name; }

// An image with contents of an agent, as the parent of other images and for a load.
const std::string &golden_image() {
  static const std::string path = [] {
    std::string made = image_folder("golden");
    auto image = ImageWriter::create(made, {.threads = 1, .file_system = &file_system()});
    if (!image) std::abort();
    for (const char *name : {"device/0/ocl/mem-1", "device/0/ocl/mem-2"}) {
      Result<storage::StreamId> stream = (*image)->stream(name);
      if (!stream || !(*image)->append(*stream, Bytes(100'000, std::byte{7}))) std::abort();
    }
    if (!(*image)->finish({{"program", "golden"}})) std::abort();
    return made;
  }();
  return path;
}

void check_image(const std::string &path) {
  auto image = ImageReader::open(path, {.file_system = &file_system()});
  if (!image || !(*image)->verify(ImageReader::Depth::Full, {}, 1).ok()) std::abort();
}

void save(AgentClient &agent, bool with_parent) {
  std::string path = image_folder("image");
  Result<StagingSlots> staging = StagingSlots::create();  // outlives the image's workers
  auto image = ImageWriter::create(path, {.threads = 1,
                                          .overwrite = true,
                                          .parent = with_parent ? golden_image() : "",
                                          .file_system = &file_system()});
  if (!image || !staging) std::abort();
  Result<AgentClient::Welcome> welcome = agent.hello("fuzz");
  if (!welcome) return;
  (void)agent.preflight();
  (void)agent.quiesce(std::chrono::milliseconds(1));
  std::atomic<u64> progress{0};
  Result<SavedAgent> saved =
      guarded([&] { return save_agent(agent, *staging, **image, 0, 0, progress, with_parent); });
  if (!saved || !write_kept(*saved, **image)) return;
  nlohmann::json needs = nlohmann::json::array();
  for (auto &[api, one] : parse_requirements(saved->requirements, welcome->participants))
    needs.push_back({{"api", api}, {"needs", one}});
  if ((*image)->finish({{"participants", needs}})) check_image(path);
}

void suspend(AgentClient &agent) {
  (void)agent.suspend("");
  Result<std::string> needs = agent.requirements();
  if (needs) (void)parse_requirements(*needs, {"ocl"});
  (void)agent.use_devices("ocl", {{"a", "b"}});
  (void)agent.wake("/session");
  (void)agent.loss();
}

void load(AgentClient &agent) {
  static auto image = ImageReader::open(golden_image(), {.file_system = &file_system()});
  Result<StagingSlots> staging = StagingSlots::create();
  if (!image || !staging) std::abort();
  (void)agent.attach("/session");
  ContentsAhead ahead(**image, 0);
  ahead.start(1, 0);
  (void)load_agent(agent, *staging, ahead);
  (void)agent.resume();
}

void read_pipe(ByteView bytes) {
  Result<agent::OwnFd> pipe =
      agent::OwnFd::make([&]() -> Result<UniqueFd> { return std::move(FakePeer(bytes).ours); });
  if (pipe) (void)agent::read_outcome(*pipe);
}

void talk(u8 how, ByteView bytes) {
  FakePeer peer(bytes);
  AgentClient agent(std::move(peer.ours));
  switch (how % 5) {
    case 0:
    case 1: return save(agent, how % 5 == 1);
    case 2: return suspend(agent);
    case 3: return load(agent);
    case 4: return read_pipe(bytes);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  ::signal(SIGPIPE, SIG_IGN);
  if (size == 0) return 0;
  ByteView bytes = view(data + 1, size - 1);
  if (data[0] & 0x80)
    talk(data[0], bytes);
  else
    talk(data[0], as_frames(bytes));
  return 0;
}
