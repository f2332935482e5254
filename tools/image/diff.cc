// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image diff. The hashes of two images cannot be compared, because each chain has a seed of
// its own, so streams are compared byte by byte.
#include <algorithm>
#include <atomic>
#include <set>

#include "common/base/units.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

struct StreamDifference {
  std::string name;
  bool in_a = false, in_b = false;
  u64 size_a = 0, size_b = 0;
  u64 bytes = 0;   // that differ, within the shorter of the two sizes
  u64 chunks = 0;  // of the first image that contain a different byte
  bool same() const { return in_a && in_b && size_a == size_b && bytes == 0; }
};

u64 count_different(ByteView a, ByteView b) {
  if (std::ranges::equal(a, b)) return 0;
  u64 n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += a[i] != b[i];
  return n;
}

Result<> compare_bytes(const storage::ImageReader &a, const storage::StreamEntry &in_a,
                       const storage::ImageReader &b, const storage::StreamEntry &in_b,
                       StreamDifference &out) {
  std::atomic<u64> bytes = 0, chunks = 0;
  auto compare = [&](u64 offset, ByteView from_a) -> Result<> {
    if (offset >= in_b.size) return {};
    Bytes from_b(std::min<u64>(from_a.size(), in_b.size - offset));
    CKPT_CHECK(b.read(in_b, offset, from_b));
    u64 n = count_different(from_a.first(from_b.size()), from_b);
    bytes += n;
    chunks += n > 0;
    return {};
  };
  CKPT_CHECK(a.for_each_chunk(in_a, storage::ImageReader::Order::Any, compare));
  out.bytes = bytes;
  out.chunks = chunks;
  return {};
}

Result<StreamDifference> compare(const std::string &name, const storage::ImageReader &a,
                                 const storage::ImageReader &b) {
  const storage::StreamEntry *in_a = a.find(name), *in_b = b.find(name);
  StreamDifference out{.name = name, .in_a = in_a != nullptr, .in_b = in_b != nullptr};
  out.size_a = in_a ? in_a->size : 0;
  out.size_b = in_b ? in_b->size : 0;
  if (in_a && in_b) CKPT_CHECK(compare_bytes(a, *in_a, b, *in_b, out));
  return out;
}

std::string describe(const StreamDifference &d) {
  if (!d.in_b)
    return fmt::format("only in the first    {:>12}  {}\n", human_bytes(d.size_a), d.name);
  if (!d.in_a)
    return fmt::format("only in the second   {:>12}  {}\n", human_bytes(d.size_b), d.name);
  std::string sizes =
      d.size_a == d.size_b
          ? ""
          : fmt::format(" ({} before, {} now)", human_bytes(d.size_a), human_bytes(d.size_b));
  return fmt::format("differs in           {:>12}  {}: {} chunks{}\n", human_bytes(d.bytes), d.name,
                     d.chunks, sizes);
}

json to_json(const StreamDifference &d) {
  return {{"name", d.name},
          {"in_first", d.in_a},
          {"in_second", d.in_b},
          {"bytes_first", d.size_a},
          {"bytes_second", d.size_b},
          {"different_bytes", d.bytes},
          {"different_chunks", d.chunks}};
}

// The top-level fields of the manifests that differ.
json different_fields(const json &a, const json &b) {
  std::set<std::string> names;
  for (const json *m : {&a, &b})
    for (const auto &[name, value] : m->items()) names.insert(name);
  json out = json::array();
  for (const std::string &name : names)
    if (!a.contains(name) || !b.contains(name) || a[name] != b[name])
      out.push_back(
          {{"field", name}, {"first", a.value(name, json())}, {"second", b.value(name, json())}});
  return out;
}

std::string describe_field(const json &f) {
  return fmt::format("manifest             {}: {} | {}\n", field(f, "field", 60),
                     field(f, "first", 80), field(f, "second", 80));
}

}  // namespace

Result<Difference> diff(const storage::ImageReader &a, const storage::ImageReader &b) {
  std::set<std::string> names;
  for (const storage::ImageReader *image : {&a, &b})
    for (const storage::StreamEntry &s : image->streams()) names.insert(s.name);
  Difference out;
  json fields = different_fields(a.manifest(), b.manifest()), streams = json::array();
  for (const json &f : fields) out.text += describe_field(f);
  u64 bytes = 0;
  for (const std::string &name : names) {
    CKPT_TRY(StreamDifference d, compare(name, a, b));
    if (d.same()) continue;
    bytes += d.bytes;
    out.text += describe(d);
    streams.push_back(to_json(d));
  }
  out.same = fields.empty() && streams.empty();
  out.text += fmt::format("{} of {} streams differ, by {}; {} fields of the manifest differ\n",
                          streams.size(), names.size(), human_bytes(bytes), fields.size());
  out.json = {{"same", out.same}, {"streams", streams}, {"manifest", fields}};
  return out;
}

}  // namespace ckpt::tools
