// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile machine at the other end of a migration. The first byte says what it sends:
// a body, which is parsed as each message; an image, to the receiver, also with a piece that came
// ahead; or the answers, to the sender. The index of an image is tried as it is and with a
// corrected header and checksum. Whatever arrives, both sides return, and what is stored can be
// read.
#include <fcntl.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "storage/write/image_writer.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/seal_index.h"
#include "tools/migrate/image_in.h"
#include "tools/migrate/image_out.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;

// A link on which frames have come, and nothing more will: what this side sends is not read.
std::optional<FrameLink> link_with(ByteView frames) {
  UniqueFd in = memory_file(frames), out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return FrameLink(std::move(in), std::move(out), [] { return Result<>(); });
}

void put_frame(Writer &w, Kind kind, ByteView body) {
  w.put(static_cast<u32>(body.size())).put(kind).put(u16{0}).raw(body.data(), body.size());
}

// What parses must be what its own encoding says.
void parse(ByteView body) {
  if (auto m = parse_hello(body); m && !parse_hello(encode(*m))) std::abort();
  if (auto m = parse_welcome(body); m && !parse_welcome(encode(*m))) std::abort();
  if (auto m = parse_prepare(body); m && !parse_prepare(encode(*m))) std::abort();
  if (auto m = parse_image(body); m && !parse_image(encode(*m))) std::abort();
  (void)parse_begin_ahead(body);
  (void)parse_piece(body);
  if (auto m = parse_stored(body); m && !parse_stored(encode(*m))) std::abort();
  if (auto m = parse_running(body); m && !parse_running(encode(*m))) std::abort();
  if (auto m = parse_state(body); m && !parse_state(encode(*m))) std::abort();
  if (auto m = WantList::parse(body); m && !WantList::parse(m->encode())) std::abort();
  (void)parse_failure(body);
}

// What begins with {u8 size, that many bytes}, as far as it is a piece of the image at `path`.
std::optional<AheadIn> piece_of(Reader &in, const std::string &path) {
  Result<AheadIn> ahead = AheadIn::begin(path);
  if (!ahead) std::abort();
  std::optional<Piece> piece = parse_piece(in.raw(std::min<size_t>(in.get<u8>(), in.left())));
  if (piece) (void)ahead->take(*piece);
  return std::move(*ahead);
}

// {u16 size of the index, the index, frames}
void receive(ByteView input, bool corrected, bool with_piece) {
  Reader in(input);
  std::string path = scratch_folder() + "/received";
  std::optional<AheadIn> ahead;
  if (with_piece) ahead = piece_of(in, path);
  ByteView index = in.raw(std::min<size_t>(in.get<u16>(), in.left()));
  Bytes sealed(index.begin(), index.end());
  if (corrected) seal_index(sealed);
  Writer frames;
  if (!sealed.empty()) put_frame(frames, Kind::Index, sealed);
  ByteView rest = in.raw(in.left());
  frames.raw(rest.data(), rest.size());
  std::optional<FrameLink> link = link_with(frames.bytes());
  ChunkShelf shelf;
  if (receive_image(*link, {0, sealed.size()}, path, shelf, nullptr, std::move(ahead)))
    (void)storage::ImageReader::open(path);
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

const storage::ImageReader &image() {
  static const std::unique_ptr<storage::ImageReader> made = [] {
    std::string path = scratch_folder() + "/sent";
    auto writer = storage::ImageWriter::create(path, {.threads = 1});
    if (!writer) std::abort();
    auto stream = (*writer)->stream("device/0/0");
    if (!stream || !(*writer)->append(*stream, Bytes(10000, std::byte{1}))) std::abort();
    if (!(*writer)->finish({{"program", "fuzz"}})) std::abort();
    auto reader = storage::ImageReader::open(path);
    if (!reader) std::abort();
    return std::move(*reader);
  }();
  return *made;
}

void send(ByteView frames) {
  std::optional<FrameLink> link = link_with(frames);
  (void)send_image(*link, 0, image(), [](u64, u64) {});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  if (size == 0) return 0;
  ByteView rest = view(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0: parse(rest); break;
    case 1: receive(rest, false, false); break;
    case 2: receive(rest, true, false); break;
    case 3: send(rest); break;
    case 4: receive(rest, true, true); break;
  }
  return 0;
}
