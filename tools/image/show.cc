// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/json_fields.h"
#include "common/base/units.h"
#include "storage/format/uuid.h"
#include "tools/image/commands.h"
#include "tools/image/stream_cost.h"
#include "tools/image/text.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr size_t kMaxLines = 12;    // of a list; the rest is summed up as "... and N more"
constexpr size_t kMaxDetail = 100;  // characters of a nested value

class Page {
 public:
  void line(const char *name, const std::string &value) {
    if (!value.empty()) out_ += fmt::format("{:<13}{}\n", name, value);
  }
  // One line for each item, the first of them beside the name.
  template <class F>
  void list(const char *name, const json &items, F describe) {
    for (size_t i = 0; i < items.size() && i < kMaxLines; ++i)
      out_ += fmt::format("{:<13}{}\n", i == 0 ? name : "", describe(items[i]));
    if (items.size() > kMaxLines)
      out_ += fmt::format("{:<13}... and {} more\n", "", items.size() - kMaxLines);
  }
  void text(const std::string &text) { out_ += text; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string &p : parts)
    if (!p.empty()) out += (out.empty() ? "" : " ") + p;
  return out;
}

std::string prefixed(const char *prefix, const std::string &value) {
  return value.empty() ? "" : prefix + value;
}

std::string command_line(const json &manifest) {
  std::string out;
  for (const json &word : json_list(manifest, "argv")) {
    if (out.size() > 500) return out + " ...";
    out += (out.empty() ? "" : " ") + value_text(word, 200);
  }
  return out;
}

std::string describe_process(const json &p) {
  bool agent = p.is_object() && p.contains("agent") && p["agent"] == true;
  return joined(
      {"pid " + field(p, "pid", 20), field(p, "command", kMaxDetail), agent ? "(with agent)" : ""});
}

// Whether kernels of a CUDA program allocate from the device heap, in which case the Manager gives
// the program a GPU of its own. Empty without CUDA.
std::string device_heap(const json &m) {
  std::string all;
  for (const json &p : json_list(m, "participants")) {
    const json &heap = json_member(json_member(p, "needs"), "device_heap");
    if (!heap.is_object()) continue;
    bool used = json_value(heap, "used", false);
    if (used) return "yes: " + field(heap, "why");
    all = "no";
  }
  return all;
}

std::string describe_participant(const json &p) {
  return joined({prefixed("agent ", field(p, "agent", 20)) + ":", field(p, "api", 20),
                 field(p, "needs", kMaxDetail)});
}

std::string describe_file(const json &f) {
  if (!f.is_object()) return value_text(f, kMaxDetail);
  return joined({field(f, "path", 200), prefixed("size ", field(f, "size", 20))});
}

// Of ckpt-dump --with-files.
std::string carried_files(const json &m) {
  u64 bytes = 0;
  const json &files = json_list(m, "carried_files");
  for (const json &f : files) bytes += json_value(f, "size", u64{0});
  return files.empty() ? "" : fmt::format("{} files, {}", files.size(), human_bytes(bytes));
}

std::string describe_phase(const json &p) {
  if (!p.is_object()) return value_text(p, kMaxDetail);
  const json &value = json_member(p, "seconds");
  std::string seconds =
      value.is_number() ? fmt::format("{:8.3f} s", value.get<double>()) : field(p, "seconds", 20);
  return joined({fmt::format("{:<12}", field(p, "name", 40)), seconds});
}

void put_manifest(Page &page, const json &m) {
  json host = m.contains("host") ? m["host"] : json();
  page.line("created", joined({field(m, "created"), prefixed("by ckpt ", field(m, "ckpt_version")),
                               prefixed("with CRIU ", field(m, "criu_version"))}));
  page.line("host", host.is_object() ? joined({field(host, "name"), field(host, "system"),
                                               field(host, "kernel"), field(host, "machine")})
                                     : value_text(host.is_null() ? json("") : host, kMaxDetail));
  page.line("processor", field(json_member(m, "processor"), "model"));
  page.line("program", field(m, "program"));
  page.line("arguments", command_line(m));
  page.line("folder", field(m, "cwd"));
  page.list("processes", json_list(m, "processes"), describe_process);
  page.list("participants", json_list(m, "participants"), describe_participant);
  if (std::string heap = device_heap(m); !heap.empty()) page.line("device heap", heap);
  page.list("files", json_list(m, "files"), describe_file);
  page.line("carried", carried_files(m));
  page.list("", json_list(m, "carried_files"), describe_file);
  page.list("phases", json_list(m, "phases"), describe_phase);
}

std::string cost_line(const std::string &name, const StreamCost &c) {
  return fmt::format("  {:<24} {:>8} {:>12} {:>12} {:>7}\n", name, c.streams,
                     human_bytes(c.raw_bytes), human_bytes(c.stored_bytes),
                     ratio_text(c.raw_bytes, c.stored_bytes));
}

std::string groups_table(const storage::ImageReader &image) {
  std::string out = fmt::format("  {:<24} {:>8} {:>12} {:>12} {:>7}\n", "contents", "streams",
                                "bytes", "stored", "ratio");
  StreamCost all;
  for (const auto &[name, cost] : cost_of_groups(image)) {
    out += cost_line(name, cost);
    all += cost;
  }
  return out + cost_line("all", all);
}

std::string streams_table(const storage::ImageReader &image) {
  std::vector<StreamCost> costs = cost_of_streams(image);
  std::string out = fmt::format("  {:>12} {:>12} {:>7} {:>8}  {}\n", "bytes", "stored", "ratio",
                                "chunks", "stream");
  for (size_t i = 0; i < costs.size(); ++i)
    out += fmt::format("  {:>12} {:>12} {:>7} {:>8}  {}\n", human_bytes(costs[i].raw_bytes),
                       human_bytes(costs[i].stored_bytes),
                       ratio_text(costs[i].raw_bytes, costs[i].stored_bytes), costs[i].chunks,
                       image.streams()[i].name);
  return out;
}

std::string chunk_line(const storage::ImageReader &image) {
  storage::ImageStats s = image.stats();
  u64 stored = s.unique_chunks + s.parent_chunks;
  u64 shared = s.chunks - s.zero_chunks - std::min(s.chunks - s.zero_chunks, stored);
  return fmt::format("{} of at most {}: {} compressed, {} raw, {} deltas, {} zero, {} shared",
                     s.chunks, human_bytes(image.index().chunk_size), s.zstd_chunks, s.raw_chunks,
                     s.delta_chunks, s.zero_chunks, shared);
}

std::string parents_line(const storage::ImageReader &image) {
  storage::ImageStats s = image.stats();
  std::string names;
  for (const storage::ParentEntry &p : image.index().parents)
    names += (names.empty() ? "" : ", ") + printable(p.name);
  return fmt::format("generation {}; uses {} chunks ({}) of {}", image.index().generation,
                     s.parent_chunks, human_bytes(s.parent_bytes),
                     names.empty() ? "no other image" : names);
}

json stream_json(const storage::StreamEntry &s, const StreamCost &c) {
  return {{"name", s.name},
          {"bytes", s.size},
          {"stored_bytes", c.stored_bytes},
          {"chunks", c.chunks},
          {"zero_chunks", c.zero_chunks}};
}

}  // namespace

std::string show_text(const storage::ImageReader &image, bool streams) {
  Page page;
  page.line("image", printable(image.path()));
  const storage::Index &index = image.index();
  page.line("format", fmt::format("version {}, {}{}", index.version, storage::uuid_text(index.uuid),
                                  index.key_check ? ", encrypted" : ""));
  if (index.generation > 0 || !index.parents.empty()) page.line("increment", parents_line(image));
  put_manifest(page, image.manifest());
  page.line("chunks", chunk_line(image));
  page.text(groups_table(image));
  if (streams) page.text(streams_table(image));
  return page.take();
}

json show_json(const storage::ImageReader &image) {
  storage::ImageStats s = image.stats();
  json streams = json::array();
  std::vector<StreamCost> costs = cost_of_streams(image);
  for (size_t i = 0; i < costs.size(); ++i)
    streams.push_back(stream_json(image.streams()[i], costs[i]));
  json parents = json::array();
  for (const storage::ParentEntry &p : image.index().parents)
    parents.push_back({{"name", p.name}, {"uuid", storage::uuid_text(p.uuid)}});
  return {{"format_version", image.index().version},
          {"encrypted", image.index().key_check != 0},
          {"generation", image.index().generation},
          {"parents", parents},
          {"uuid", storage::uuid_text(image.index().uuid)},
          {"chunk_bytes", image.index().chunk_size},
          {"bytes", s.raw_bytes},
          {"stored_bytes", s.stored_bytes},
          {"chunks",
           {{"all", s.chunks},
            {"unique", s.unique_chunks},
            {"zero", s.zero_chunks},
            {"raw", s.raw_chunks},
            {"zstd", s.zstd_chunks},
            {"delta", s.delta_chunks},
            {"parents", s.parent_chunks}}},
          {"parent_bytes", s.parent_bytes},
          {"streams", streams},
          {"manifest", image.manifest()}};
}

}  // namespace ckpt::tools
