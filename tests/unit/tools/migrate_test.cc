// SPDX-License-Identifier: Apache-2.0
//
// The parts of a migration without its processes: messages, images over a connection, decisions and
// the policy of rounds.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>
#include <utility>

#include "common/ipc/unix_socket.h"
#include "storage/write/image_writer.h"
#include "tools/migrate/ahead_out.h"
#include "tools/migrate/image_in.h"
#include "tools/migrate/image_out.h"
#include "tools/migrate/move_record.h"
#include "tools/migrate/rounds.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr size_t kMiB = 1 << 20;

struct Folder {
  std::string path = "/tmp/ckpt-migrate-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string &name) const { return path + "/" + name; }
};

Bytes noise(u64 seed) {
  Bytes b(kMiB);
  for (size_t i = 0; i + 8 <= b.size(); i += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(b.data() + i, &seed, 8);
  }
  return b;
}

// An image of one buffer for each seed.
void write_image(const std::string &path, const std::string &parent, std::vector<u64> seeds,
                 const storage::Key *key = nullptr) {
  auto writer = storage::ImageWriter::create(path, {.parent = parent, .key = key});
  REQUIRE(writer);
  for (size_t i = 0; i < seeds.size(); i++) {
    auto stream = (*writer)->stream(fmt::format("device/0/{}", i));
    REQUIRE(stream);
    REQUIRE((*writer)->append(*stream, noise(seeds[i])));
  }
  REQUIRE((*writer)->finish({{"program", "test"}}));
}

struct Links {
  std::optional<FrameLink> from, to;
  Links() {
    auto ends = socket_pair();
    REQUIRE(ends);
    from = link(std::move(ends->first));
    to = link(std::move(ends->second));
  }
  static FrameLink link(UniqueFd socket) {
    UniqueFd other(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
    return {std::move(socket), std::move(other), [] { return Result<>(); }};
  }
};

// Both sides of the transfer of one image. `damage`: a byte of the file, after the sender has
// opened it.
Result<Stored> transfer(Links &links, u32 round, const std::string &from, const std::string &to,
                        ChunkShelf &shelf, const storage::Key *key = nullptr,
                        std::optional<AheadIn> ahead = {}) {
  Result<SentImage> sent = fail("");
  std::thread sender([&] {
    auto image = storage::ImageReader::open(from, {.key = key});
    sent = send_image(*links.from, round, **image, [](u64, u64) {});
  });
  auto receive = [&]() -> Result<Stored> {
    CKPT_TRY(Bytes body, links.to->receive(Kind::Image));
    std::optional<ImageOffer> offer = parse_image(body);
    CKPT_TRY(Stored stored, receive_image(*links.to, *offer, to, shelf, key, std::move(ahead)));
    CKPT_CHECK(links.to->send(Kind::Stored, encode(stored)));
    return stored;
  };
  Result<Stored> stored = receive();
  if (!stored) links.to->close();
  sender.join();
  CHECK(sent.has_value() == stored.has_value());
  return stored;
}

void add(ChunkShelf &shelf, const std::string &path, const storage::Key *key = nullptr) {
  auto image = storage::ImageReader::open(path, {.key = key});
  REQUIRE(image);
  shelf.add(std::move(*image));
}

bool is_sound(const std::string &path, const storage::Key *key = nullptr) {
  auto image = storage::ImageReader::open(path, {.key = key});
  return image && (*image)->verify(storage::ImageReader::Depth::Full).ok();
}

}  // namespace

TEST_CASE("migration: what is encoded is parsed again, and nothing else is") {
  Hello hello{
      .ckpt_version = "1", .number = std::string(36, 'a'), .host = "h", .patience_seconds = 9};
  REQUIRE(parse_hello(encode(hello)));
  CHECK(parse_hello(encode(hello))->number == hello.number);
  hello.number = "../../../../../../../../../../etc/xy";
  CHECK(!parse_hello(encode(hello)));
  Prepare wishes{.needs = "{}", .bytes = 5, .device = "ocl:0", .keep = true};
  std::optional<Prepare> again = parse_prepare(encode(wishes));
  REQUIRE(again);
  CHECK(again->device == "ocl:0");
  CHECK(again->keep);
  CHECK(!again->shared_key);
  CHECK(!parse_image(encode(ImageOffer{storage::kMaxParents, 1})));
  CHECK(!parse_image(encode(ImageOffer{0, storage::kMaxIndexBytes + 1})));
  CHECK(parse_state(encode(TakingState{Taking::Running, 7}))->pid == 7);
  CHECK(!parse_state(Writer().put(u8{9}).put(i32{1}).bytes()));
  CHECK(parse_failure(encode(Error{"what", "hint"})).hint == "hint");
  WantList want(9);
  want.set(8);
  Bytes bits = want.encode();
  REQUIRE(WantList::parse(bits));
  CHECK(WantList::parse(bits)->has(8));
  CHECK(!WantList::parse(bits)->has(7));
  CHECK(!WantList::parse(ByteView(bits).first(bits.size() - 1)));
}

TEST_CASE("migration: a frame that is too long ends the connection before its memory is taken") {
  Links links;
  Bytes header = Writer().put(u32{kMaxFrameBytes + 1}).put(u16{1}).put(u16{0}).take();
  CHECK(!links.from->send(Kind::Chunk, Bytes(kMaxFrameBytes + 1)));
  auto ends = socket_pair();
  REQUIRE(ends);
  REQUIRE(write_all(ends->second.get(), header));
  FrameLink link = Links::link(std::move(ends->first));
  Result<Frame> frame = link.receive();
  REQUIRE(!frame);
  CHECK(frame.error().what.find("protocol") != std::string::npos);
}

TEST_CASE("migration: a sender learns why the other side has gone") {
  ::signal(SIGPIPE, SIG_IGN);  // as ckpt-migrate blocks it
  Links links;
  REQUIRE(links.to->send(Kind::Failed, encode(Error{"the disk is full", ""})));
  links.to.reset();
  Result<> sent = links.from->send(Kind::Ahead, Bytes(kMiB));
  REQUIRE(!sent);
  CHECK(sent.error().what.find("the disk is full") != std::string::npos);
}

TEST_CASE("migration: chunks of an earlier round are not sent again") {
  Folder here, there;
  Links links;
  ChunkShelf shelf;
  std::vector<std::vector<u64>> rounds{{1, 2, 3}, {9, 2, 3}, {1, 2, 4}};
  std::vector<u64> own{3, 1, 2}, had{0, 0, 1};  // the first buffer is again as in round 0
  for (u32 i = 0; i < rounds.size(); i++) {
    std::string name = fmt::format("{}.img", i), parent = fmt::format("{}.img", i - 1);
    write_image(here.file(name), i ? here.file(parent) : "", rounds[i]);
    Result<Stored> stored = transfer(links, i, here.file(name), there.file(name), shelf);
    REQUIRE(stored);
    CHECK(stored->chunks == own[i]);
    CHECK(stored->had_chunks == had[i]);
    CHECK(is_sound(there.file(name)));
    add(shelf, there.file(name));
  }
}

// Sends a part of the image's own chunks as a dump would that still writes it.
void send_ahead(Links &links, AheadOut &out, u32 round, const std::string &image, size_t count) {
  auto reader = storage::ImageReader::open(image);
  REQUIRE(reader);
  for (u32 n : own_chunks((*reader)->index())) {
    const storage::ChunkEntry &c = (*reader)->index().chunks[n];
    if (count-- == 0) break;
    REQUIRE(out.send(*links.from, round, image + "/chunks.ckpt", c.offset, c.stored_size));
  }
  REQUIRE(links.from->send(Kind::Finished));
}

// What the receiver makes of it; `damage`: of the first piece.
AheadIn take_ahead(Links &links, const std::string &path, bool damage) {
  std::optional<AheadIn> in;
  for (;;) {
    Result<Frame> frame = links.to->receive();
    REQUIRE(frame);
    if (frame->kind == Kind::Finished) return std::move(*in);
    if (frame->kind == Kind::Begin) {
      in.reset();
      in.emplace(*AheadIn::begin(path));
      continue;
    }
    if (std::exchange(damage, false)) frame->body.back() ^= std::byte{1};
    REQUIRE(in->take(*parse_piece(frame->body)));
  }
}

TEST_CASE("migration: what came ahead is not sent again, unless it was damaged") {
  for (bool damage : {false, true}) {
    Folder here, there;
    Links links;
    ChunkShelf shelf;
    AheadOut out;
    write_image(here.file("0.img"), "", {1, 2, 3});
    std::thread early([&] { send_ahead(links, out, 0, here.file("0.img"), 2); });
    std::optional<AheadIn> in = take_ahead(links, there.file("0.img"), damage);
    early.join();
    CHECK(in->bytes() == 2 * kMiB);
    u64 before = links.from->sent_bytes();
    REQUIRE(
        transfer(links, 0, here.file("0.img"), there.file("0.img"), shelf, nullptr, std::move(in)));
    CHECK((links.from->sent_bytes() - before) / kMiB == (damage ? 2 : 1));
    CHECK(is_sound(there.file("0.img")));
  }
}

TEST_CASE("migration: what an earlier round has sent is not sent ahead") {
  Folder here, there;
  Links links;
  AheadOut out;
  write_image(here.file("0.img"), "", {1, 2});
  out.arrived((*storage::ImageReader::open(here.file("0.img")))->index());
  write_image(here.file("1.img"), "", {2, 3});
  std::thread early([&] { send_ahead(links, out, 1, here.file("1.img"), 2); });
  CHECK(take_ahead(links, there.file("1.img"), false).bytes() == kMiB);
  early.join();
}

TEST_CASE("migration: a dump that begins again replaces what came ahead") {
  Folder here, there;
  Links links;
  ChunkShelf shelf;
  AheadOut out;
  write_image(here.file("old.img"), "", {7, 8, 9});
  write_image(here.file("0.img"), "", {1});
  std::thread early([&] {
    send_ahead(links, out, 0, here.file("old.img"), 3);
    send_ahead(links, out, 0, here.file("0.img"), 1);
  });
  (void)take_ahead(links, there.file("0.img"), false);
  std::optional<AheadIn> in = take_ahead(links, there.file("0.img"), false);
  early.join();
  REQUIRE(
      transfer(links, 0, here.file("0.img"), there.file("0.img"), shelf, nullptr, std::move(in)));
  CHECK(is_sound(there.file("0.img")));
}

TEST_CASE("migration: an encrypted image arrives, and needs its key") {
  Folder here, there;
  Links links;
  ChunkShelf shelf;
  storage::Key key = *storage::Key::from_bytes(Bytes(storage::Key::kBytes, std::byte{7}));
  write_image(here.file("0.img"), "", {1, 2}, &key);
  REQUIRE(transfer(links, 0, here.file("0.img"), there.file("0.img"), shelf, &key));
  CHECK(is_sound(there.file("0.img"), &key));
  CHECK(!is_sound(there.file("0.img")));
}

TEST_CASE("migration: a damaged chunk leaves no image") {
  Folder here, there;
  Links links;
  ChunkShelf shelf;
  write_image(here.file("0.img"), "", {1});
  std::string index = here.file("0.img/index.ckpt");
  auto image = storage::ImageReader::open(here.file("0.img"));
  REQUIRE(image);
  std::thread sender([&] {
    Bytes bytes(std::filesystem::file_size(index));
    UniqueFd file(::open(index.c_str(), O_RDONLY));
    (void)read_exactly(file.get(), bytes.data(), bytes.size());
    (void)links.from->send(Kind::Index, bytes);
    (void)links.from->receive(Kind::Want);
    Bytes chunk((*image)->index().chunks[0].stored_size);
    (void)links.from->send(Kind::Chunk, Writer().put(u32{0}).bytes(), chunk);
  });
  ImageOffer offer{0, std::filesystem::file_size(index)};
  Result<Stored> stored = receive_image(*links.to, offer, there.file("0.img"), shelf, nullptr);
  sender.join();
  REQUIRE(!stored);
  CHECK(stored.error().what.find("checksum") != std::string::npos);
  CHECK(std::filesystem::is_empty(there.path));
}

TEST_CASE("migration: go and take-back never both get the program") {
  for (int i = 0; i < 50; i++) {
    Folder folder;
    bool taken = false;
    std::thread other([&] { taken = take(folder.path).has_value(); });
    Result<TakingState> state = refuse(folder.path);
    other.join();
    REQUIRE(state);
    CHECK(taken == (state->taking != Taking::Refused));
  }
}

TEST_CASE("migration: a start that failed is known from one that goes on") {
  Folder folder;
  CHECK(taking_state(folder.file("none"))->taking == Taking::Unknown);
  CHECK(taking_state(folder.path)->taking == Taking::Open);
  Result<UniqueFd> lock = take(folder.path);
  REQUIRE(lock);
  CHECK(taking_state(folder.path)->taking == Taking::Starting);
  lock->reset();
  CHECK(taking_state(folder.path)->taking == Taking::Failed);
  REQUIRE(note_running(folder.path, ::getpid()));
  CHECK(taking_state(folder.path)->taking == Taking::Running);
  REQUIRE(note_devices(folder.path));
  CHECK(taking_state(folder.path)->pid == ::getpid());
  CHECK(refuse(folder.path)->taking == Taking::Running);
}

TEST_CASE("migration: an image belongs to the other machine until it is taken back") {
  Folder folder;
  CHECK(!owner_elsewhere(folder.file("0.img")));
  REQUIRE(give_away(folder.path, {{"host", "there"}}));
  CHECK(!give_away(folder.path, {{"host", "elsewhere"}}));
  CHECK(owner_elsewhere(folder.file("0.img/")) == "there");
  REQUIRE(settle(folder.path, Settled::TakenBack));
  CHECK(!owner_elsewhere(folder.file("0.img")));
  CHECK(!settle(folder.path, Settled::Taken));
}

TEST_CASE("migration: rounds end when they no longer shorten the stop") {
  RoundCost first{
      .dump_seconds = 1, .rest_seconds = 9, .send_seconds = 10, .sent_bytes = 1000 * kMiB};
  RoundCost second{.dump_seconds = 0.1,
                   .rest_seconds = 0.9,
                   .send_seconds = 1,
                   .sent_bytes = 100 * kMiB,
                   .period_seconds = 10};
  RoundCost same = second;  // as many bytes, in a tenth of the time: it will not become less
  same.period_seconds = 1;
  Rounds rounds(8, std::nullopt);
  CHECK(rounds.another());
  rounds.add(first);
  CHECK(rounds.another());
  rounds.add(second);
  CHECK(rounds.another());
  CHECK(rounds.predicted_downtime() == doctest::Approx(0.1).epsilon(0.01));
  rounds.add(second);
  CHECK(rounds.another());  // the same bytes, but they took ten times as long to change
  rounds.add(same);
  CHECK(!rounds.another());
  CHECK(!rounds.too_long());
  Rounds saturated(8, std::nullopt);
  RoundCost shorter = second;  // as many bytes, in half the time
  shorter.period_seconds = 5;
  for (const RoundCost &r : {first, second, shorter}) saturated.add(r);
  CHECK(!saturated.another());
  shorter.sent_bytes /= 2;
  Rounds converges(8, std::nullopt);
  for (const RoundCost &r : {first, second, shorter}) converges.add(r);
  CHECK(converges.another());
  Rounds bounded(8, 0.5);
  for (const RoundCost &r : {first, second, same}) bounded.add(r);
  CHECK(!bounded.another());
  REQUIRE(bounded.too_long());
  CHECK(bounded.too_long()->find("changes 100.0 MiB/s, and the link carries 100.0 MiB/s") !=
        std::string::npos);
  Rounds good(8, 2);
  for (const RoundCost &r : {first, second}) good.add(r);
  CHECK(!good.another());
  CHECK(!good.too_long());
  CHECK(!Rounds(0, 1).another());
}
