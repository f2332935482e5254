// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/container.h"

namespace ckpt::ocl {
namespace {

constexpr std::string_view kMagic = "CKPT-OCL";
constexpr u32 kWithoutFiles = 1;  // of earlier versions of ckpt
constexpr u32 kVersion = 2;

void put(Writer &w, const Container::Unit &u) {
  w.str(u.source).str(u.options).put(static_cast<u32>(u.headers.size()));
  for (const Container::Unit::Header &h : u.headers) w.str(h.name).str(h.source);
}

Container::Unit get_unit(Reader &r) {
  Container::Unit u;
  u.source = r.str();
  u.options = r.str();
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) {
    Container::Unit::Header &h = u.headers.emplace_back();
    h.name = r.str();
    h.source = r.str();
  }
  return u;
}

}  // namespace

Bytes Container::pack() const {
  Writer w;
  w.raw(kMagic.data(), kMagic.size());
  w.put(kVersion).str(device).str(options).str(source).put(static_cast<u32>(units.size()));
  for (const Unit &u : units) put(w, u);
  w.blob(native);
  put(w, files);
  for (const Unit &u : units) put(w, u.files);
  return w.take();
}

std::optional<Container> Container::unpack(ByteView bytes) {
  Reader r(bytes);
  if (text(r.raw(kMagic.size())) != kMagic) return {};
  u32 version = r.get<u32>();
  if (version != kVersion && version != kWithoutFiles) return {};
  Container c;
  c.device = r.str();
  c.options = r.str();
  c.source = r.str();
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) c.units.push_back(get_unit(r));
  ByteView native = r.blob();
  c.native.assign(native.begin(), native.end());
  if (version == kVersion) {
    c.files = get_headers(r);
    for (Unit &u : c.units) u.files = get_headers(r);
  }
  if (!r.done()) return {};
  return c;
}

}  // namespace ckpt::ocl
