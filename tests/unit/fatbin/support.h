// SPDX-License-Identifier: Apache-2.0
//
// Builds fat binaries in which any field can be wrong.
#pragma once

#include <lz4.h>
#include <zstd.h>

#include <doctest/doctest.h>

#include <string>

#include "fatbin/image.h"

namespace ckpt::fatbin::test {

template <class T>
T must(Result<T> r) {
  if (!r) FAIL(r.error().text());
  return std::move(*r);
}

inline bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline Bytes bytes_of(std::string_view text) { return Bytes(view(text).begin(), view(text).end()); }

inline Bytes zstd(ByteView raw) {
  Bytes out(ZSTD_compressBound(raw.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 3));
  return out;
}

inline Bytes lz4(ByteView raw) {
  Bytes out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw.size()))));
  out.resize(static_cast<size_t>(LZ4_compress_default(
      reinterpret_cast<const char *>(raw.data()), reinterpret_cast<char *>(out.data()),
      static_cast<int>(raw.size()), static_cast<int>(out.size()))));
  return out;
}

// One entry. The sizes in the record follow from the payload; a test may overwrite them.
struct EntryMaker {
  EntryRecord record{.kind = 1, .version = 0x101, .header_bytes = 64, .arch = 75, .flags = 0x11};
  Bytes more;  // the rest of the header, behind the record
  Bytes payload;

  static EntryMaker raw(Kind kind, ByteView payload, u32 arch = 75) {
    EntryMaker e;
    e.record.kind = static_cast<u16>(kind);
    e.record.arch = arch;
    e.payload.assign(payload.begin(), payload.end());
    e.pad();
    return e;
  }
  static EntryMaker raw(Kind kind, std::string_view text, u32 arch = 75) {
    return raw(kind, view(text), arch);
  }
  static EntryMaker compressed(Kind kind, ByteView raw, u64 flag, u32 arch = 75) {
    EntryMaker e = EntryMaker::raw(kind, flag == kFlagZstd ? zstd(raw) : lz4(raw), arch);
    e.record.compressed_bytes = static_cast<u32>(e.payload.size());
    e.record.raw_bytes = raw.size();
    e.record.flags |= flag;
    return e;
  }
  EntryMaker &options(std::string_view text) {
    record.options_at = static_cast<u32>(record.header_bytes);
    Writer w;
    w.put(record.header_bytes + 8).put(static_cast<u32>(text.size())).raw(text.data(), text.size());
    more.insert(more.end(), w.bytes().begin(), w.bytes().end());
    more.resize((more.size() + 7) / 8 * 8);
    record.header_bytes = static_cast<u32>(sizeof record + more.size());
    return *this;
  }
  void pad() { record.padded_bytes = (payload.size() + 7) / 8 * 8; }

  Bytes make() const {
    Bytes out(view(&record, sizeof record).begin(), view(&record, sizeof record).end());
    out.insert(out.end(), more.begin(), more.end());
    out.insert(out.end(), payload.begin(), payload.end());
    out.resize((out.size() + 7) / 8 * 8);
    return out;
  }
};

inline Bytes container(const std::vector<EntryMaker> &entries) {
  Bytes body;
  for (const EntryMaker &e : entries) {
    Bytes one = e.make();
    body.insert(body.end(), one.begin(), one.end());
  }
  Writer w;
  w.put(kContainerMagic).put(kContainerVersion).put(u16{16}).put(u64{body.size()});
  w.raw(body.data(), body.size());
  return w.take();
}

inline const std::string kSmallPtx =
    ".version 9.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n ret;\n}\n";

inline const std::string kHeapPtx =
    ".version 9.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    ".visible .entry h(.param .u64 p)\n{\n ret;\n}\n";

}  // namespace ckpt::fatbin::test
