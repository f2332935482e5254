// SPDX-License-Identifier: Apache-2.0
//
// The variables of device code at addresses that the program's side chooses (fixed_text.cc has the
// essay), and its handles of texture and surface objects (handle_use.cc). This needs PTX: cubins
// are left out, so that the driver compiles the rewritten text.
//
//   CKPT_TRY(auto fixed, FixedVariables::find(image));
//   u64 base = memory of fixed.bytes();
//   CKPT_TRY(FixedCode code, fixed.at(base, handles));
#pragma once

#include <map>
#include <string>

#include "fatbin/image.h"
#include "remote/cuda/placing/handle_use.h"
#include "remote/cuda/placing/module_text.h"

namespace ckpt::remote::cuda {

struct FixedCode {
  std::vector<Bytes> parts;                    // in place of those of the program
  std::vector<std::pair<u64, Bytes>> initial;  // offset and bytes; all else is 0
};

class FixedVariables {
 public:
  struct Place {
    u64 offset, bytes;
    bool managed = false;
  };
  // Where the variables lie. Managed ones may lie apart from the others: they exist once for all
  // devices.
  struct Bases {
    u64 plain = 0, managed = 0;
  };
  // Managed variables begin at a multiple of this, behind all others.
  static constexpr u64 kPartBytes = 2u << 20;

  // The parts of `image` are its containers, or one text of PTX; it must outlive the object. An
  // error says why its variables stay where the driver places them.
  static Result<FixedVariables> find(const fatbin::Image &image);

  u64 bytes() const { return bytes_; }                  // 0: no variable is placed
  u64 managed_begin() const { return managed_begin_; }  // bytes(): there is none
  // A function of which a kernel takes the address; "" if there is none. Another driver gives it
  // another address.
  const std::string &taken_function() const { return taken_function_; }
  // By name. The driver places the variables that are missing here.
  const std::map<std::string, Place, std::less<>> &places() const { return places_; }
  // A managed variable that the driver places; "" if there is none. The host cannot reach it.
  std::string unplaced_managed() const;
  u64 constant_bytes() const;  // of those in places() that were constants
  // Whether it has instructions for textures or surfaces, in any PTX.
  bool uses_textures() const;
  // Whether each cubin has PTX of the same architecture, from which nvcc has made it. If not, a
  // cubin may do what no PTX says.
  bool covers_cubins() const;
  // No variable is placed.
  void leave_all();
  u64 address(const Place &place, Bases bases) const;
  // Code without cubins, but for those of units that stay as they are.
  Result<FixedCode> at(Bases bases, HandleRange handles) const;
  Result<FixedCode> at(u64 base, HandleRange handles) const {
    return at(Bases{base, base + managed_begin_}, handles);
  }

 private:
  // One text of PTX.
  struct Version {
    const fatbin::Entry *entry;
    fatbin::Payload payload;
    ModuleText module;
    std::string_view text() const { return payload.text(); }
  };
  // A container, or the text of PTX.
  struct Unit {
    ByteView bytes;
    std::vector<Version> versions;
    std::vector<fatbin::Entry> cubins;  // and whatever else is no PTX
  };
  struct Definition {
    const Unit *unit;
    const ptx::Variable *variable;
  };

  Result<> read(const fatbin::Image &image);
  Result<> read_container(const fatbin::Image &image, const fatbin::Container &c, Unit &unit);
  Result<> collect();
  void leave_what_has_other_addresses();
  void choose_offsets();
  void append(bool managed);
  bool is_placed(const ptx::Variable &v) const;
  bool is_changed(const Unit &unit) const;
  bool has_ptx_for(const fatbin::Entry &cubin, const Unit &unit) const;
  Result<Bytes> rewritten(const Unit &unit, Bases bases, HandleRange handles) const;
  Result<std::string> rewritten(const Version &version, Bases bases, HandleRange handles) const;
  Result<> add_initial(const Version &version, Bases bases, std::map<u64, Bytes> &all) const;

  std::vector<Unit> units_;
  bool in_containers_ = false;
  bool linked_ = false;  // the first unit is the linked code, and the driver links the others again
  std::map<std::string, Definition, std::less<>> defined_;
  std::map<std::string, Place, std::less<>> places_;
  bool constants_ = true;  // all constants are placed
  u64 bytes_ = 0, managed_begin_ = 0;
  std::string taken_function_;
};

}  // namespace ckpt::remote::cuda
