// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/placing/fixed_variables.h"

#include <algorithm>

#include "common/base/rounded_up.h"
#include "fatbin/names.h"
#include "ptx/initializer.h"
#include "remote/cuda/placing/fixed_text.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kLeastAlignment = 16;  // for loads of vectors

// Strings and the like, which kernels only read, stay with the driver: its printf may look there.
bool may_be_placed(const ptx::Variable &v) {
  return !ptx::is_reference(v.type) && !fatbin::is_compiler_generated(v.name) &&
         v.name != fatbin::kDeviceRuntimeMarker;
}

bool is_constant(const ptx::Variable &v) { return v.space == ptx::Space::Const; }

bool same(const ptx::Variable &a, const ptx::Variable &b) {
  return a.bytes == b.bytes && a.align == b.align && a.space == b.space && a.managed == b.managed &&
         ptx::is_reference(a.type) == ptx::is_reference(b.type);
}

Failure no_ptx() {
  return fail("it has no PTX (nvcc adds it with -gencode arch=compute_NN,code=compute_NN)");
}

}  // namespace

Result<FixedVariables> FixedVariables::find(const fatbin::Image &image) {
  FixedVariables f;
  CKPT_CHECK(f.read(image));
  CKPT_CHECK(f.collect());
  f.leave_what_has_other_addresses();
  f.choose_offsets();
  return f;
}

Result<> FixedVariables::read(const fatbin::Image &image) {
  using fatbin::Form;
  in_containers_ = image.form() == Form::Wrapper || image.form() == Form::FatBinary;
  if (!in_containers_ && image.form() != Form::Ptx) return no_ptx();
  const std::vector<fatbin::Container> &all = image.containers();
  // The result of the device linker has no PTX; its units do.
  linked_ = image.form() == Form::Wrapper && all.size() > 1 && !has_ptx(all.front());
  for (const fatbin::Container &c : all) {
    Unit unit;
    unit.bytes = view(reinterpret_cast<const void *>(c.at), c.bytes);
    CKPT_CHECK(read_container(image, c, unit));
    units_.push_back(std::move(unit));
    if (image.form() == Form::Wrapper && !linked_) break;
  }
  return {};
}

Result<> FixedVariables::read_container(const fatbin::Image &image, const fatbin::Container &c,
                                        Unit &unit) {
  for (const fatbin::Entry &e : c.entries) {
    if (e.kind != fatbin::Kind::Ptx) unit.cubins.push_back(e);
    if (e.kind != fatbin::Kind::Ptx) continue;
    Version version{&e, {}, {}};
    CKPT_TRY(version.payload, image.payload(e));
    CKPT_TRY(version.module, read_module(version.text()));
    unit.versions.push_back(std::move(version));
  }
  bool result_of_linker = linked_ && units_.empty();
  if (unit.versions.empty() && !result_of_linker) return no_ptx();
  return {};
}

// All versions of a unit must agree on a variable. One name gets one place.
Result<> FixedVariables::collect() {
  for (const Unit &unit : units_)
    for (const Version &version : unit.versions) {
      if (taken_function_.empty()) taken_function_ = version.module.taken_function;
      for (const ptx::Variable *v : version.module.variables()) {
        if (v->external) continue;
        auto [known, is_new] = defined_.try_emplace(std::string(v->name), Definition{&unit, v});
        if (is_new) continue;
        if (!same(*known->second.variable, *v))
          return fail("the variable {} differs between versions of the code", v->name);
        if (known->second.unit != &unit && (v->hidden || known->second.variable->hidden))
          return fail("two translation units have a variable {}", v->name);
      }
    }
  for (const auto &[name, d] : defined_)
    if (may_be_placed(*d.variable)) places_[name] = {0, d.variable->bytes, d.variable->managed};
  return {};
}

// A variable that holds the address of a function, or of a variable that is not placed, is left to
// the driver, too; and so are all constants if one of them is, since kernels read all in one way.
void FixedVariables::leave_what_has_other_addresses() {
  auto depends_on_others = [&](const ptx::Variable &v) {
    return std::ranges::any_of(ptx::names_in(v),
                               [&](std::string_view name) { return !places_.contains(name); });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Unit &unit : units_)
      for (const Version &version : unit.versions)
        for (const ptx::Variable *v : version.module.variables()) {
          bool leave = depends_on_others(*v) || (is_constant(*v) && !constants_);
          if (is_constant(*v) && !v->external && !ptx::is_reference(v->type) &&
              (leave || !may_be_placed(*v)))
            changed |= std::exchange(constants_, false);
          if (!leave) continue;
          auto placed = places_.find(v->name);
          if (placed == places_.end()) continue;
          places_.erase(placed);
          changed = true;
        }
  }
}

void FixedVariables::choose_offsets() {
  append(false);
  bool any = std::ranges::any_of(places_, [](const auto &p) { return p.second.managed; });
  managed_begin_ = bytes_ = any ? rounded_up(bytes_, kPartBytes) : bytes_;
  append(true);
}

void FixedVariables::append(bool managed) {
  for (auto &[name, place] : places_) {
    if (place.managed != managed) continue;
    place.offset = rounded_up(
        bytes_, std::max<u64>(defined_.find(name)->second.variable->align, kLeastAlignment));
    bytes_ = place.offset + place.bytes;
  }
}

std::string FixedVariables::unplaced_managed() const {
  for (const auto &[name, d] : defined_)
    if (d.variable->managed && !places_.contains(name)) return name;
  return {};
}

u64 FixedVariables::constant_bytes() const {
  u64 sum = 0;
  for (const auto &[name, place] : places_)
    if (is_constant(*defined_.find(name)->second.variable)) sum += place.bytes;
  return sum;
}

bool FixedVariables::is_placed(const ptx::Variable &v) const { return places_.contains(v.name); }

bool FixedVariables::uses_textures() const {
  return std::ranges::any_of(units_, [](const Unit &u) {
    return std::ranges::any_of(u.versions, [](const Version &v) { return v.module.textures; });
  });
}

bool FixedVariables::has_ptx_for(const fatbin::Entry &cubin, const Unit &unit) const {
  constexpr u64 kSpecific = fatbin::kFlagArchSpecific | fatbin::kFlagFamilySpecific;
  return std::ranges::any_of(unit.versions, [&](const Version &v) {
    return v.entry->arch == cubin.arch && ((v.entry->flags ^ cubin.flags) & kSpecific) == 0;
  });
}

// The result of the linker is made of all units.
bool FixedVariables::covers_cubins() const {
  return std::ranges::all_of(units_, [this](const Unit &unit) {
    return std::ranges::all_of(unit.cubins, [&](const fatbin::Entry &cubin) {
      if (!unit.versions.empty()) return has_ptx_for(cubin, unit);
      return std::ranges::all_of(
          units_, [&](const Unit &other) { return &other == &unit || has_ptx_for(cubin, other); });
    });
  });
}

void FixedVariables::leave_all() {
  places_.clear();
  constants_ = false;
  bytes_ = managed_begin_ = 0;
}

// The result of the linker is left out.
bool FixedVariables::is_changed(const Unit &unit) const {
  auto changes = [this](const Version &version) {
    auto placed = [this](const ptx::Variable *v) { return is_placed(*v); };
    return version.module.textures || std::ranges::any_of(version.module.variables(), placed);
  };
  auto uncovered = [&](const fatbin::Entry &cubin) { return !has_ptx_for(cubin, unit); };
  return std::ranges::any_of(unit.versions, changes) || std::ranges::any_of(unit.cubins, uncovered);
}

u64 FixedVariables::address(const Place &place, Bases bases) const {
  return place.managed ? bases.managed + (place.offset - managed_begin_)
                       : bases.plain + place.offset;
}

Result<FixedCode> FixedVariables::at(Bases bases, HandleRange handles) const {
  FixedCode code;
  std::map<u64, Bytes> initial;
  for (const Unit &unit : units_) {
    for (const Version &version : unit.versions) CKPT_CHECK(add_initial(version, bases, initial));
    Bytes part(unit.bytes.begin(), unit.bytes.end());
    if (is_changed(unit)) {
      CKPT_TRY(part, rewritten(unit, bases, handles));
    }
    code.parts.push_back(std::move(part));
  }
  code.initial.assign(std::make_move_iterator(initial.begin()),
                      std::make_move_iterator(initial.end()));
  return code;
}

Result<> FixedVariables::add_initial(const Version &version, Bases bases,
                                     std::map<u64, Bytes> &all) const {
  ptx::AddressOf address_of = [&](std::string_view name) -> std::optional<u64> {
    auto placed = places_.find(name);
    if (placed == places_.end()) return {};
    return address(placed->second, bases);
  };
  for (const ptx::Variable *v : version.module.variables()) {
    if (v->external || !is_placed(*v)) continue;
    CKPT_TRY(Bytes value, ptx::initial_value(*v, address_of));
    auto [known, is_new] = all.try_emplace(places_.find(v->name)->second.offset, value);
    if (!is_new && known->second != value)
      return fail("the initial value of {} differs between versions of the code", v->name);
  }
  return {};
}

Result<std::string> FixedVariables::rewritten(const Version &version, Bases bases,
                                              HandleRange handles) const {
  std::unordered_map<std::string_view, u64> addresses;
  for (const ptx::Variable *v : version.module.variables())
    if (is_placed(*v)) addresses[v->name] = address(places_.find(v->name)->second, bases);
  return with_addresses(version.text(), version.module, addresses, constants_, handles);
}

// A container with the PTX alone, not compressed; or the text.
Result<Bytes> FixedVariables::rewritten(const Unit &unit, Bases bases, HandleRange handles) const {
  Bytes entries;
  for (const Version &version : unit.versions) {
    CKPT_TRY(std::string text, rewritten(version, bases, handles));
    if (!in_containers_) return Bytes(view(text).begin(), view(text).end());
    const fatbin::Entry &e = *version.entry;
    ByteView header = view(reinterpret_cast<const void *>(e.header_at), e.at - e.header_at);
    fatbin::EntryRecord record;
    std::memcpy(&record, header.data(), sizeof record);
    record.padded_bytes = rounded_up(text.size() + 1, 8);
    record.compressed_bytes = 0;
    record.raw_bytes = 0;
    record.flags &= ~(fatbin::kFlagLz4 | fatbin::kFlagZstd);
    text.resize(record.padded_bytes);
    size_t at = entries.size();
    entries.insert(entries.end(), header.begin(), header.end());
    std::memcpy(entries.data() + at, &record, sizeof record);
    entries.insert(entries.end(), view(text).begin(), view(text).end());
  }
  fatbin::ContainerRecord record{fatbin::kContainerMagic, fatbin::kContainerVersion,
                                 sizeof(fatbin::ContainerRecord), entries.size()};
  Bytes container(view(&record, sizeof record).begin(), view(&record, sizeof record).end());
  container.insert(container.end(), entries.begin(), entries.end());
  return container;
}

}  // namespace ckpt::remote::cuda
