// SPDX-License-Identifier: Apache-2.0
//
// The limits of a device on which a program may rely after it has read them: for example, it may
// have chosen its work-group size by CL_DEVICE_MAX_WORK_GROUP_SIZE, and does not read that again
// after a restore. The check before a restore therefore compares them with the new device.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/bytes.h"
#include "ring/table.h"

namespace ckpt::ocl {

struct Limit {
  enum class Rule {
    AtLeast,  // the new device's value must not be smaller, in any dimension
    AtMost,   // the new device's value must not be larger: an alignment
    ByUse     // does not count; the check compares what the program uses instead
  };
  cl_device_info param;
  const char *name;
  Rule rule;
};

inline constexpr std::array<Limit, 24> kLimits{{
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "CL_DEVICE_MAX_WORK_GROUP_SIZE", Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_WORK_ITEM_SIZES, "CL_DEVICE_MAX_WORK_ITEM_SIZES", Limit::Rule::AtLeast},
    {CL_DEVICE_LOCAL_MEM_SIZE, "CL_DEVICE_LOCAL_MEM_SIZE", Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE",
     Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "CL_DEVICE_MAX_PARAMETER_SIZE", Limit::Rule::AtLeast},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "CL_DEVICE_MEM_BASE_ADDR_ALIGN", Limit::Rule::AtMost},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "CL_DEVICE_MAX_MEM_ALLOC_SIZE", Limit::Rule::ByUse},
    {CL_DEVICE_GLOBAL_MEM_SIZE, "CL_DEVICE_GLOBAL_MEM_SIZE", Limit::Rule::ByUse},
    {CL_DEVICE_IMAGE_SUPPORT, "CL_DEVICE_IMAGE_SUPPORT", Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_READ_IMAGE_ARGS, "CL_DEVICE_MAX_READ_IMAGE_ARGS", Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_WRITE_IMAGE_ARGS, "CL_DEVICE_MAX_WRITE_IMAGE_ARGS", Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, "CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS",
     Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_SAMPLERS, "CL_DEVICE_MAX_SAMPLERS", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, "CL_DEVICE_IMAGE2D_MAX_WIDTH", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, "CL_DEVICE_IMAGE2D_MAX_HEIGHT", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE3D_MAX_WIDTH, "CL_DEVICE_IMAGE3D_MAX_WIDTH", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE3D_MAX_HEIGHT, "CL_DEVICE_IMAGE3D_MAX_HEIGHT", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE3D_MAX_DEPTH, "CL_DEVICE_IMAGE3D_MAX_DEPTH", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, "CL_DEVICE_IMAGE_MAX_BUFFER_SIZE", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, "CL_DEVICE_IMAGE_MAX_ARRAY_SIZE", Limit::Rule::AtLeast},
    {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, "CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT",
     Limit::Rule::AtLeast},
    {CL_DEVICE_MAX_NUM_SUB_GROUPS, "CL_DEVICE_MAX_NUM_SUB_GROUPS", Limit::Rule::AtLeast},
    {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, "CL_DEVICE_IMAGE_PITCH_ALIGNMENT", Limit::Rule::AtMost},
    {CL_DEVICE_SVM_CAPABILITIES, "CL_DEVICE_SVM_CAPABILITIES", Limit::Rule::AtLeast},
}};

inline const Limit *find_limit(cl_device_info param) {
  for (const Limit &l : kLimits)
    if (l.param == param) return &l;
  return nullptr;
}

// One number, or one number for each dimension.
using LimitValue = std::vector<u64>;

inline LimitValue limit_value(ByteView answer) {
  LimitValue out;
  for (size_t at = 0; at < answer.size(); at += sizeof(u64)) {
    u64 v = 0;
    std::memcpy(&v, answer.data() + at, std::min(sizeof v, answer.size() - at));
    out.push_back(v);
  }
  return out;
}

// Merges `other` into `value`: with `strictest` keeps the value that is harder to satisfy, else the
// one that is easier. Dimensions that only one of them has stay as they are.
inline void merge_limit(const Limit &l, bool strictest, LimitValue &value,
                        const LimitValue &other) {
  bool larger = (l.rule == Limit::Rule::AtMost) != strictest;
  for (size_t i = 0; i < std::min(value.size(), other.size()); i++)
    value[i] = larger ? std::max(value[i], other[i]) : std::min(value[i], other[i]);
}

inline bool satisfies(const Limit &l, const LimitValue &required, const LimitValue &here) {
  for (size_t i = 0; i < required.size(); i++) {
    u64 v = i < here.size() ? here[i] : 0;
    if (l.rule == Limit::Rule::AtLeast && required[i] > v) return false;
    if (l.rule == Limit::Rule::AtMost && required[i] < v) return false;
  }
  return true;
}

}  // namespace ckpt::ocl
