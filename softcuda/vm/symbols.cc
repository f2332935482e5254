// SPDX-License-Identifier: Apache-2.0
//
// Names in operands: special registers, variables, parameters, functions.
#include <array>

#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using isa::Special;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

struct SpecialName {
  std::string_view name;
  Special id;
};

constexpr std::array kSpecials{SpecialName{"%tid.x", Special::TidX},
                               SpecialName{"%tid.y", Special::TidY},
                               SpecialName{"%tid.z", Special::TidZ},
                               SpecialName{"%ntid.x", Special::NtidX},
                               SpecialName{"%ntid.y", Special::NtidY},
                               SpecialName{"%ntid.z", Special::NtidZ},
                               SpecialName{"%ctaid.x", Special::CtaidX},
                               SpecialName{"%ctaid.y", Special::CtaidY},
                               SpecialName{"%ctaid.z", Special::CtaidZ},
                               SpecialName{"%nctaid.x", Special::NctaidX},
                               SpecialName{"%nctaid.y", Special::NctaidY},
                               SpecialName{"%nctaid.z", Special::NctaidZ},
                               SpecialName{"%laneid", Special::LaneId},
                               SpecialName{"%warpid", Special::WarpId},
                               SpecialName{"%nwarpid", Special::NwarpId},
                               SpecialName{"%smid", Special::SmId},
                               SpecialName{"%nsmid", Special::NsmId},
                               SpecialName{"%gridid", Special::GridId},
                               SpecialName{"%clock", Special::Clock},
                               SpecialName{"%clock_hi", Special::ClockHi},
                               SpecialName{"%clock64", Special::Clock64},
                               SpecialName{"%globaltimer", Special::GlobalTimer},
                               SpecialName{"%globaltimer_lo", Special::GlobalTimerLo},
                               SpecialName{"%globaltimer_hi", Special::GlobalTimerHi},
                               SpecialName{"%lanemask_eq", Special::MaskEq},
                               SpecialName{"%lanemask_le", Special::MaskLe},
                               SpecialName{"%lanemask_lt", Special::MaskLt},
                               SpecialName{"%lanemask_ge", Special::MaskGe},
                               SpecialName{"%lanemask_gt", Special::MaskGt},
                               SpecialName{"%dynamic_smem_size", Special::DynamicShared},
                               SpecialName{"%total_smem_size", Special::TotalShared},
                               SpecialName{"%envreg1", Special::EnvReg1},
                               SpecialName{"%envreg2", Special::EnvReg2},
                               SpecialName{"%is_explicit_cluster", Special::ExplicitCluster},
                               SpecialName{"%cluster_ctarank", Special::ClusterRank},
                               SpecialName{"%cluster_nctarank", Special::ClusterSize},
                               SpecialName{"%cluster_ctaid.x", Special::ClusterCtaidX},
                               SpecialName{"%cluster_ctaid.y", Special::ClusterCtaidY},
                               SpecialName{"%cluster_ctaid.z", Special::ClusterCtaidZ},
                               SpecialName{"%cluster_nctaid.x", Special::ClusterNctaidX},
                               SpecialName{"%cluster_nctaid.y", Special::ClusterNctaidY},
                               SpecialName{"%cluster_nctaid.z", Special::ClusterNctaidZ},
                               SpecialName{"%clusterid.x", Special::ClusteridX},
                               SpecialName{"%clusterid.y", Special::ClusteridY},
                               SpecialName{"%clusterid.z", Special::ClusteridZ},
                               SpecialName{"%nclusterid.x", Special::NclusteridX},
                               SpecialName{"%nclusterid.y", Special::NclusteridY},
                               SpecialName{"%nclusterid.z", Special::NclusteridZ}};

const SpecialName *special_named(std::string_view name) {
  for (const SpecialName &s : kSpecials)
    if (s.name == name) return &s;
  return nullptr;
}

}  // namespace

Result<u32> Decoder::symbol(const Operand &o, Type type) {
  if (const SpecialName *s = special_named(o.text)) {
    Op op;
    op.line = current_->line;
    op.run = cell_bytes(type) == 8 ? helpers_.special_wide : helpers_.special;
    op.aux = static_cast<u16>(s->id);
    op.dst = new_row(kLanes * cell_bytes(type));
    emit(op);
    return op.dst;
  }
  if (o.text == "WARP_SZ") return constant(kLanes, cell_bytes(type));
  if (o.text.starts_with('%'))
    return error(
        *current_,
        fmt::format("the special register {} is not supported by the software device", o.text));
  const Symbol *global = nullptr;
  if (const ptx::Variable *v = find_variable(o.text, global))
    return variable(*v, global, o.bits, type);
  if (std::optional<u32> at = parameter_offset(o.text))
    return constant(*at + o.bits, cell_bytes(type));
  const Symbol *s = kernel_.image().find(symbol_.module, o.text);
  if (s == nullptr || s->function == nullptr)
    return error(*current_, fmt::format("{} is not declared", o.text));
  return constant(code_address(*s) + o.bits, cell_bytes(type));
}

const ptx::Variable *Decoder::find_variable(std::string_view name, const Symbol *&global) const {
  if (const ptx::Variable *v = body_.variable(name, current_->scope)) return v;
  if (!code_.entry) {
    for (const std::vector<ptx::Variable> *list : {&function_.params, &function_.results})
      for (const ptx::Variable &v : *list)
        if (v.name == name) return &v;
  }
  global = kernel_.image().find(symbol_.module, name);
  return global == nullptr ? nullptr : global->variable;
}

std::optional<u32> Decoder::parameter_offset(std::string_view name) const {
  if (!code_.entry) return {};
  for (size_t i = 0; i < function_.params.size(); ++i)
    if (function_.params[i].name == name) return code_.params[i].offset;
  return {};
}

// A row with the address of a variable, within the variable's state space.
Result<u32> Decoder::variable(const ptx::Variable &v, const Symbol *global, u64 addend, Type type) {
  size_t bytes = cell_bytes(type);
  if (v.space == Space::Shared) {
    bool dynamic = v.external;
    CKPT_TRY(u32 at, dynamic ? Result<u32>(0) : kernel_.shared_offset(v));
    if (!dynamic) return constant(at + addend, bytes);
    u32 fresh = new_row(kLanes * bytes);
    code_.constants.push_back({fresh, static_cast<u8>(bytes), 0});
    kernel_.patch_later(code_, code_.constants.size() - 1, addend);
    return fresh;
  }
  if (v.space == Space::Local || v.space == Space::Param) {
    Op op;
    op.line = current_->line;
    op.run = helpers_.frame_address;
    op.imm = static_cast<i64>(frame_slot(v) + addend);
    op.dst = new_row(kLanes * 8);
    emit(op);
    if (bytes == 8) return op.dst;
    Op narrow;
    narrow.run = helpers_.narrow;
    narrow.a = op.dst;
    narrow.dst = new_row(kLanes * 4);
    emit(narrow);
    return narrow.dst;
  }
  if (global == nullptr || v.external)
    return error(*current_, fmt::format("the variable {} is not defined", v.name));
  return constant(kernel_.image().address(*global) + addend, bytes);
}

}  // namespace ckpt::softcuda::vm
