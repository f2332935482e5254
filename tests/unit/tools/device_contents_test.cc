// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/device_contents.h"

#include "agent/protocol.h"
#include "common/ipc/shared_memory.h"
#include "tests/unit/storage/support.h"

using namespace ckpt;
using namespace ckpt::test;
using namespace ckpt::tools;
using protocol::Type;

namespace {

constexpr u64 kPart = 1u << 20;
constexpr u32 kSlots = StagingSlots::kSlots;

// Three regions, of which the second one has zeros. The test is the process with the devices, which
// frees no slot unless it is told to.
struct Sent {
  TempFolder folder;
  std::vector<Bytes> regions{random_bytes(3 * kPart + 7, 1), random_bytes(6 * kPart, 2),
                             random_bytes(2 * kPart, 3)};
  std::unique_ptr<ImageReader> image;
  Arrival arrival;
  std::vector<std::string> failures;
  UniqueFd device;
  std::optional<DeviceContents> contents;
  Mapping slots;
  std::vector<Bytes> got{regions.size()};

  Sent() {
    std::fill_n(regions[1].begin() + kPart, 2 * kPart, std::byte{});
    write();
  }
  void write() {
    std::filesystem::remove_all(folder / "image");
    must(write_image(folder / "image", {{"device/0/ocl/mem-1", regions[0]},
                                        {"device/0/ocl/mem-2", regions[1]},
                                        {"device/0/ocl/mem-3", regions[2]}}));
    for (size_t i = 0; i < regions.size(); i++) got[i].resize(regions[i].size());
  }
  // After the image was damaged, if it is.
  void start(unsigned threads = 2) {
    image = must(ImageReader::open(folder / "image"));
    std::vector<const StreamEntry *> streams;
    for (const char *name : {"1", "2", "3"})
      streams.push_back(image->find(std::string("device/0/ocl/mem-") + name));
    contents.emplace(*image, arrival, [this](const Error &e) { failures.push_back(e.what); });
    auto ends = must(socket_pair());
    device = std::move(ends.second);
    must(contents->start(std::move(ends.first), streams, threads));
    Message first = next();
    REQUIRE(static_cast<Type>(first.type) == Type::Load);
    REQUIRE(first.fds.size() == 1);
    slots = must(Mapping::map(first.fds[0].get(), u64{kSlots} * StagingSlots::kSlotBytes));
  }
  Message next() const {
    auto m = must(receive_message(device.get()));
    REQUIRE(m);
    return std::move(*m);
  }
  void tell(Type type, u32 number) const {
    must(send_message(device.get(), static_cast<u16>(type), Writer().put(number).bytes()));
  }
  struct Piece {
    u32 slot, region;
  };
  Piece receive() {
    Message m = next();
    REQUIRE(static_cast<Type>(m.type) == Type::SlotFull);
    Reader r = m.reader();
    u32 slot = r.get<u32>(), region = r.get<u32>();
    u64 offset = r.get<u64>();
    u32 bytes = r.get<u32>();
    REQUIRE(r.done());
    REQUIRE(offset + bytes <= got[region].size());
    std::copy_n(slots.data() + u64{slot} * StagingSlots::kSlotBytes, bytes,
                got[region].begin() + static_cast<long>(offset));
    return {slot, region};
  }
  // Takes a piece, and returns the number of its region.
  u32 take() {
    Piece p = receive();
    tell(Type::SlotFree, p.slot);
    return p.region;
  }
  // Takes all pieces of a region, and nothing else may come.
  void take_only(u32 region) {
    for (size_t n = image->find("device/0/ocl/mem-" + std::to_string(region + 1))->chunks.size();
         n > 0; n--)
      CHECK(take() == region);
    CHECK(got[region] == regions[region]);
  }
  void wait() {
    contents->wait([] {});
  }
};

void damage_everything(const Sent &s) {
  Bytes chunks = read_file(s.folder / "image/chunks.ckpt");
  for (size_t at = 4096; at < chunks.size(); at += 1000) chunks[at] ^= std::byte{1};
  write_file(s.folder / "image/chunks.ckpt", chunks);
}

}  // namespace

TEST_CASE("what is needed comes first and alone, and the rest when it may, in its order") {
  Sent s;
  s.start();
  CHECK(s.arrival.owed == s.regions[0].size() + s.regions[1].size() + s.regions[2].size());
  s.tell(Type::ArrivalWanted, 2);
  s.take_only(2);
  s.tell(Type::ArrivalWanted, 1);
  s.take_only(1);
  s.contents->load_rest();
  s.take_only(0);
  s.wait();
  CHECK(s.arrival.arrived == s.arrival.owed);
  CHECK(s.failures.empty());
}

TEST_CASE("a region that is needed passes the rest") {
  Sent s;
  s.regions[0] = zeros((kSlots + 8) * kPart);
  s.write();
  s.start();
  s.contents->load_rest();
  std::vector<u32> taken;  // all slots, with pieces of the first region
  for (u32 i = 0; i < kSlots; i++) {
    CHECK(s.receive().region == 0);
    taken.push_back(i);
  }
  s.tell(Type::ArrivalWanted, 2);
  for (u32 slot : taken) s.tell(Type::SlotFree, slot);
  s.take_only(2);
}

TEST_CASE("a region that was released is not owed any more") {
  Sent s;
  s.start();
  s.tell(Type::ArrivalDropped, 1);
  s.tell(Type::ArrivalWanted, 1);
  s.tell(Type::ArrivalWanted, 2);
  s.take_only(2);
  s.contents->load_rest();
  s.take_only(0);
  s.wait();
  CHECK(s.arrival.owed == s.regions[0].size() + s.regions[2].size());
  CHECK(s.arrival.arrived == s.arrival.owed);
}

TEST_CASE("a damaged chunk is a failure that names it, and its bytes are not sent") {
  Sent s;
  damage_everything(s);
  s.start(1);
  s.tell(Type::ArrivalWanted, 0);
  s.wait();
  REQUIRE(s.failures.size() == 1);
  CHECK_MESSAGE(s.failures[0].find("damaged") != std::string::npos, s.failures[0]);
  s.contents.reset();
  CHECK(!must(receive_message(s.device.get())));
}

TEST_CASE("a process that ends is owed nothing, and has failed in nothing") {
  Sent s;
  s.start();
  s.tell(Type::ArrivalWanted, 2);
  s.take_only(2);
  s.device.reset();
  s.wait();
  CHECK(s.arrival.owed == s.arrival.arrived);
  CHECK(s.failures.empty());
}

TEST_CASE("a device that refuses contents, and messages that cannot be, are failures") {
  for (int i = 0; i < 4; i++) {
    Sent s;
    s.start();
    if (i == 0)
      must(send_message(s.device.get(), static_cast<u16>(Type::Failed),
                        Writer().str("no room").str({}).bytes()));
    if (i == 1) s.tell(Type::ArrivalWanted, 3);
    if (i == 2) s.tell(Type::ArrivalDropped, 3);
    if (i == 3) s.tell(Type::SlotFree, 0);
    s.wait();
    REQUIRE(s.failures.size() == 1);
    if (i == 0) CHECK(s.failures[0] == "no room");
  }
}
