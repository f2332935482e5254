// SPDX-License-Identifier: Apache-2.0
//
// Containers, entries and payloads: valid ones, and every way in which they can be damaged.
#include "tests/unit/fatbin/support.h"

namespace ckpt::fatbin::test {
namespace {

std::string error_of(const Bytes &file) {
  Result<Image> image = Image::from_bytes(file);
  return image ? "" : image.error().what;
}

std::string payload_error(const EntryMaker &entry, u64 max_bytes = kMaxPayloadBytes) {
  Bytes file = container({entry});
  Image image = must(Image::from_bytes(file));
  Result<Payload> p = image.payload(image.containers()[0].entries[0], max_bytes);
  return p ? "" : p.error().what;
}

TEST_CASE("entries are read with any compression") {
  Bytes ptx = bytes_of(kSmallPtx + '\0');
  Bytes file = container({EntryMaker::raw(Kind::Ptx, ptx, 75),
                          EntryMaker::compressed(Kind::Ptx, ptx, kFlagZstd, 80),
                          EntryMaker::compressed(Kind::Ptx, ptx, kFlagLz4, 90)});
  Image image = must(Image::from_bytes(file));
  CHECK(image.form() == Form::FatBinary);
  REQUIRE(image.containers().size() == 1);
  const std::vector<Entry> &entries = image.containers()[0].entries;
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].compression == Compression::None);
  CHECK(entries[1].compression == Compression::Zstd);
  CHECK(entries[2].compression == Compression::Lz4);
  CHECK(entries[2].arch == 90);
  for (const Entry &e : entries) CHECK(must(image.payload(e)).text() == kSmallPtx);
  CHECK(must(image.payload(entries[0])).bytes().data() > file.data());  // not copied
}

TEST_CASE("headers may have any length, options and targets") {
  EntryMaker a = EntryMaker::raw(Kind::Ptx, kSmallPtx, 90);
  a.options("--compile-only  ").record.flags |= kFlagArchSpecific;
  EntryMaker b = EntryMaker::raw(Kind::Elf, kSmallPtx, 100);
  b.more.resize(56);
  b.record.header_bytes = 120;
  b.record.flags |= kFlagFamilySpecific | kFlagDebug;
  Bytes file = container({a, b});
  Image image = must(Image::from_bytes(file));
  const std::vector<Entry> &entries = image.containers()[0].entries;
  CHECK(entries[0].target() == "compute_90a");
  CHECK(entries[0].options == "--compile-only");
  CHECK(entries[0].is_unit());
  CHECK(entries[1].target() == "sm_100f");
  CHECK(entries[1].debug());
  CHECK(!entries[1].is_unit());
  CHECK(must(image.payload(entries[1])).text() == kSmallPtx);
}

TEST_CASE("containers may have zeros between them") {
  Bytes file = container({EntryMaker::raw(Kind::Ptx, kSmallPtx)});
  Bytes one = file;
  file.resize(file.size() + (200u << 10));
  file.insert(file.end(), one.begin(), one.end());
  Bytes empty = container({});
  file.insert(file.end(), empty.begin(), empty.end());
  file.resize(file.size() + 24);
  Image image = must(Image::from_bytes(file));
  REQUIRE(image.containers().size() == 3);
  CHECK(image.containers()[1].at == one.size() + (200u << 10));
  CHECK(image.containers()[2].entries.empty());
  file.back() = std::byte{1};
  CHECK(contains(error_of(file), "is truncated"));
  file.resize(file.size() + 8);
  CHECK(contains(error_of(file), "no fat binary at offset"));
}

TEST_CASE("every truncation is an error") {
  Bytes file = container({EntryMaker::raw(Kind::Ptx, kSmallPtx).options("-O3"),
                          EntryMaker::compressed(Kind::Ptx, bytes_of(kSmallPtx), kFlagZstd)});
  REQUIRE(error_of(file).empty());
  for (size_t n = 0; n < file.size(); ++n) {
    Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(n));
    CHECK_MESSAGE(!error_of(cut).empty(), n);
  }
}

TEST_CASE("wrong sizes in the headers are found") {
  auto error_after = [](auto change) {
    EntryMaker e = EntryMaker::raw(Kind::Ptx, kSmallPtx);
    change(e.record);
    return error_of(container({e}));
  };
  CHECK(error_after([](EntryRecord &) {}).empty());
  CHECK(contains(error_after([](EntryRecord &r) { r.header_bytes = 63; }), "header"));
  CHECK(contains(error_after([](EntryRecord &r) { r.header_bytes = ~0u; }), "header"));
  CHECK(contains(error_after([](EntryRecord &r) { r.header_bytes = 0; }), "header"));
  CHECK(contains(error_after([](EntryRecord &r) { r.padded_bytes = ~u64{0}; }), "payload"));
  CHECK(contains(error_after([](EntryRecord &r) { r.padded_bytes += 8; }), "payload"));
  CHECK(contains(error_after([](EntryRecord &r) { r.compressed_bytes = ~0u; }), "payload"));
  CHECK(contains(error_after([](EntryRecord &r) {
                   r.name_at = 60;
                   r.name_bytes = 9;
                 }),
                 "text"));
  CHECK(contains(error_after([](EntryRecord &r) {
                   r.name_at = 8;
                   r.name_bytes = ~0u;
                 }),
                 "text"));
  CHECK(contains(error_after([](EntryRecord &r) { r.options_at = 64; }), "options"));
  CHECK(contains(error_after([](EntryRecord &r) { r.options_at = ~0u; }), "options"));

  Bytes file = container({});
  file[4] = std::byte{2};
  Result<Image> newer = Image::from_bytes(file);
  REQUIRE(!newer);
  CHECK(contains(newer.error().what, "version 2"));
  CHECK(contains(newer.error().hint, "newer"));
}

TEST_CASE("a damaged or unknown payload is refused when it is read") {
  Bytes ptx = bytes_of(kSmallPtx);
  for (u64 flag : {kFlagZstd, kFlagLz4}) {
    EntryMaker e = EntryMaker::compressed(Kind::Ptx, ptx, flag);
    CHECK(payload_error(e).empty());
    EntryMaker longer = e, shorter = e, broken = e;
    longer.record.raw_bytes += 1;
    CHECK(contains(payload_error(longer), "bytes instead of the"));
    shorter.record.raw_bytes -= 1;
    CHECK(contains(payload_error(shorter), "cannot decompress"));
    std::fill(broken.payload.begin(), broken.payload.end(), std::byte{0xff});
    CHECK(contains(payload_error(broken), "cannot decompress"));
  }
  EntryMaker unknown = EntryMaker::compressed(Kind::Ptx, ptx, kFlagZstd);
  unknown.record.flags = 0x11;
  CHECK(contains(payload_error(unknown), "no known compression"));
  CHECK(contains(payload_error(EntryMaker::raw(Kind::LtoIr, kSmallPtx)), "not public"));
}

TEST_CASE("a decompression bomb is refused before it is decompressed") {
  Bytes zeros(64u << 20);
  EntryMaker bomb = EntryMaker::compressed(Kind::Ptx, zeros, kFlagZstd);
  REQUIRE(bomb.payload.size() < 64u << 10);
  CHECK(contains(payload_error(bomb, (64u << 20) - 1), "more than the limit"));
  CHECK(payload_error(bomb, 64u << 20).empty());
  // The header understates the size: the output is limited to that size, and decompression fails.
  bomb.record.raw_bytes = 1000;
  CHECK(contains(payload_error(bomb, 64u << 10), "cannot decompress"));
  // The header claims more than there is memory.
  bomb.record.raw_bytes = ~u64{0};
  CHECK(contains(payload_error(bomb), "more than the limit"));
}

TEST_CASE("files without device code are refused with the reason") {
  CHECK(contains(error_of({}), "not an ELF file, a fat binary or PTX"));
  CHECK(contains(error_of(bytes_of("#!/bin/sh\necho .targe")),
                 "not an ELF file, a fat binary or PTX"));
  CHECK(contains(error_of(bytes_of("\x7f"
                                   "ELF")),
                 "truncated"));
  CHECK(contains(Image::open("/nonexistent/x").error().what, "cannot open /nonexistent/x"));
  CHECK(contains(Image::open("/tmp").error().what, "not a regular file"));
  CHECK(contains(Image::open("/dev/zero").error().what, "not a regular file"));
}

TEST_CASE("the text of all headers is limited") {
  EntryMaker e = EntryMaker::raw(Kind::Ptx, kSmallPtx);
  e.options(std::string(16u << 20, 'x'));
  CHECK(error_of(container({e, e, e})).empty());
  CHECK(contains(error_of(container({e, e, e, e, e})), "the texts of all headers exceed"));
}

TEST_CASE("the number of entries is limited") {
  Bytes body(16 * (kMaxEntries + 1));
  Bytes empty = container({});
  for (size_t i = 0; i <= kMaxEntries; ++i)
    std::memcpy(body.data() + i * empty.size(), empty.data(), empty.size());
  CHECK(contains(error_of(body), "more than 1048576"));
}

}  // namespace
}  // namespace ckpt::fatbin::test
