// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/requirements.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "libckpt-ocl/client/entry/program.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/device_limits.h"

namespace ckpt::ocl {
namespace {

using nlohmann::json;

// A tool that only asks does not keep the program waiting for longer.
constexpr std::chrono::milliseconds kMostRest{200};

json limits_read(Device &d) {
  json out = json::object();
  for (auto &[param, value] : d.limits_read)
    if (const Limit *l = find_limit(param)) out[l->name] = value;
  return out;
}

// The distinct descriptions of images on the device; a program may have thousands of equal ones.
json images(const Device &d) {
  std::set<json> descriptions;
  for (Mem *m : registry().all<Mem>()) {
    if (!m->image || !m->context->uses(&d)) continue;
    const cl_image_desc &desc = m->image->desc;
    bool from_buffer = m->parent && desc.image_type == CL_MEM_OBJECT_IMAGE2D;
    json description = {{"type", desc.image_type},
                        {"order", m->image->format.image_channel_order},
                        {"channel", m->image->format.image_channel_data_type},
                        {"access", m->flags & kKernelAccess},
                        {"width", desc.image_width},
                        {"height", desc.image_height},
                        {"depth", desc.image_depth},
                        {"layers", desc.image_array_size},
                        {"row_pitch", from_buffer ? m->image->row_pitch : 0}};
    descriptions.insert(std::move(description));
  }
  return json(descriptions);
}

// Address and size of each block, which the driver's process must map as the program does.
json shared_virtual_memory(const Device &d) {
  json blocks = json::array();
  for (Mem *m : registry().all<Mem>())
    if (m->svm && m->shadow.data && m->context->uses(&d))
      blocks.push_back({reinterpret_cast<u64>(m->shadow.data), m->size});
  return blocks;
}

json device(Device &d) {
  u64 largest = 0, total = 0;
  bool used = false;
  for (Context *c : registry().all<Context>()) used = used || c->uses(&d);
  u64 origins = 0;  // combined with OR: the lowest bit is the common alignment
  for (Mem *m : registry().all<Mem>()) {
    if (!m->context->uses(&d)) continue;
    origins |= m->origin;
    if (m->parent) continue;
    largest = std::max<u64>(largest, m->size);
    total += m->size;
  }
  return {{"number", d.number},
          {"platform", d.real.platform},
          {"name", d.real.name},
          {"nth", d.real.nth},
          {"used", used},
          {"limits", limits_read(d)},
          {"largest_buffer", largest},
          {"buffer_bytes", total},
          {"sub_buffer_alignment", origins & -origins},
          {"slices", d.launches_in_slices.load() > 0},
          {"svm", shared_virtual_memory(d)},
          {"images", images(d)}};
}

// The different sets of files that programs include; most programs of a library share one.
class FileSets {
 public:
  // What a program's "files" says: a place in all().
  json place_of(const Headers &h) {
    if (h.empty()) return nullptr;
    auto it = std::ranges::find(sets_, h);
    if (it == sets_.end()) it = sets_.insert(it, h);
    return static_cast<size_t>(it - sets_.begin());
  }
  json all() const {
    json out = json::array();
    for (const Headers &h : sets_) {
      json files = json::array();
      for (const Headers::File &f : h.files) files.push_back({{"path", f.path}, {"text", f.text}});
      out.push_back({{"folder", h.folder},
                     {"folders", h.folders},
                     {"files", files},
                     {"absolute", h.absolute}});
    }
    return out;
  }

 private:
  std::vector<Headers> sets_;
};

json units_of(const Program &p, FileSets &sets) {
  json units = json::array();
  for (const Container::Unit &u : link_units_of(p)) {
    json headers = json::array();
    for (const Container::Unit::Header &h : u.headers)
      headers.push_back({{"name", h.name}, {"source", h.source}});
    units.push_back({{"source", u.source},
                     {"options", u.options},
                     {"headers", headers},
                     {"files", sets.place_of(u.files)}});
  }
  return units;
}

// "SPIR-V_1.2", in the form of CL_DEVICE_IL_VERSION, from the second word of a module (SPIR-V
// specification, 2.3). Empty: the program has a source.
std::string language(const Program &p) {
  constexpr u32 kSpirv = 0x07230203;
  u32 words[2] = {};
  if (p.il.empty()) return {};
  std::memcpy(words, p.il.data(), std::min(sizeof words, p.il.size()));
  if (words[0] != kSpirv) return "an unknown language";
  return fmt::format("SPIR-V_{}.{}", (words[1] >> 16) & 0xff, (words[1] >> 8) & 0xff);
}

// In one pass: a library may have thousands of programs and kernels.
std::unordered_map<const Program *, json> kernels_by_program() {
  std::unordered_map<const Program *, json> all;
  for (Kernel *k : registry().all<Kernel>())
    all[k->program.get()].push_back({{"name", k->name},
                                     {"work_items", k->max_work_items},
                                     {"local_size", k->max_local_size},
                                     {"local_bytes", k->max_local_bytes}});
  return all;
}

// Without its kernels.
json program(const Program &p, FileSets &sets) {
  json devices = json::array();
  for (Device *d : p.devices) devices.push_back(d->root()->number);
  json units = units_of(p, sets);
  return {{"number", p.number},   {"devices", devices},
          {"source", p.source},   {"options", p.options},
          {"built", p.was_built}, {"native_only", p.source.empty() && units.empty()},
          {"units", units},       {"files", sets.place_of(p.files ? *p.files : Headers())},
          {"il", language(p)}};
}

std::string text_of(const json &j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string requirements_as_json() {
  json devices = json::array(), programs = json::array();
  for (Device *d : registry().all<Device>())
    if (!d->partition) devices.push_back(device(*d));
  FileSets sets;
  std::unordered_map<const Program *, json> kernels = kernels_by_program();
  for (Program *p : registry().all<Program>()) {
    auto own = kernels.find(p);
    programs.push_back(program(*p, sets));
    programs.back()["kernels"] = own == kernels.end() ? json::array() : std::move(own->second);
  }
  return text_of({{"devices", devices}, {"programs", programs}, {"file_sets", sets.all()}});
}

Result<std::string> requirements_at_rest() {
  gate().close();
  link().wake_waiters();
  bool at_rest = gate().wait_empty(Clock::now() + kMostRest);
  std::string needs = at_rest ? requirements_as_json() : "";
  gate().open();
  if (at_rest) return needs;
  return fail_with_hint(
      "an OpenCL call did not return in time to say what the program needs of its devices",
      "it may be compiling a program; try again");
}

u64 bytes_of_memory() {
  u64 bytes = 0;
  registry().each<Mem>([&](const Mem &m) {
    if (!m.parent && !m.excluded) bytes += m.size;
  });
  return bytes;
}

void append_used_devices(std::vector<std::string> &names) {
  std::vector<Device *> devices = registry().all<Device>();  // these are never destroyed
  registry().each<Context>([&](Context &c) {
    for (Device *d : devices)
      if (c.uses(d) && std::ranges::find(names, d->real.name) == names.end())
        names.push_back(d->real.name);
  });
}

std::string doubtful_programs_as_json() {
  json devices = json::array(), programs = json::array();
  FileSets sets;
  registry().each<Program>([&](Program &p) {
    std::lock_guard lock(p.mutex);
    if (p.was_built && !p.missed_files.empty()) programs.push_back(program(p, sets));
  });
  if (programs.empty()) return {};
  registry().each<Device>([&](Device &d) {
    if (!d.partition)
      devices.push_back({{"number", d.number},
                         {"platform", d.real.platform},
                         {"name", d.real.name},
                         {"nth", d.real.nth},
                         {"used", d.present}});
  });
  return text_of({{"devices", devices},
                  {"programs", programs},
                  {"file_sets", sets.all()},
                  {"same_driver_too", true}});
}

}  // namespace ckpt::ocl
