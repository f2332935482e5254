// SPDX-License-Identifier: Apache-2.0
//
// clGetDeviceInfo: the driver's answers without the features that a checkpoint does not preserve. A
// limit that the program has read is recorded (Device::limits_read), and a restore compares it with
// the new device.
//
// The OpenCL version that a program sees never changes. OpenCL 3.0 is OpenCL 1.2 with queries for
// optional features, so a 1.2 device can take the place of a 3.0 device without optional features.
// Where its driver does not know a query, this file answers with the minimum that the specification
// allows.
#include "libckpt-ocl/client/entry/device_info.h"

#include "ckpt_config.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/link/gate.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/device_limits.h"

namespace ckpt::ocl {
namespace {

using Names = std::span<const std::string_view>;

// Extensions of the language alone, which survive a restore onto any device that has them, too; and
// the image types that image.cc supports.
constexpr std::string_view kExtensions[] = {"cl_khr_fp64",
                                            "cl_khr_fp16",
                                            "cl_khr_byte_addressable_store",
                                            "cl_khr_global_int32_base_atomics",
                                            "cl_khr_global_int32_extended_atomics",
                                            "cl_khr_local_int32_base_atomics",
                                            "cl_khr_local_int32_extended_atomics",
                                            "cl_khr_int64_base_atomics",
                                            "cl_khr_int64_extended_atomics",
                                            "cl_khr_select_fprounding_mode",
                                            "cles_khr_int64",
                                            "cl_khr_expect_assume",
                                            "cl_khr_extended_bit_ops",
                                            "cl_khr_3d_image_writes",
                                            "cl_khr_depth_images",
                                            "cl_khr_image2d_from_buffer"};

// The same, but only where clGetKernelSubGroupInfo is a core function.
constexpr std::string_view kExtensionsOf3_0[] = {"cl_khr_subgroups",
                                                 "cl_khr_subgroup_extended_types",
                                                 "cl_khr_subgroup_non_uniform_vote",
                                                 "cl_khr_subgroup_ballot",
                                                 "cl_khr_subgroup_non_uniform_arithmetic",
                                                 "cl_khr_subgroup_shuffle",
                                                 "cl_khr_subgroup_shuffle_relative",
                                                 "cl_khr_subgroup_clustered_reduce",
                                                 "cl_khr_subgroup_rotate"};

// Features of OpenCL C 3.0 that concern only the compiler. Missing are pipes, device-side queues,
// atomics across devices (they need those of shared virtual memory), and program-scope variables
// (their contents cannot be read).
constexpr std::string_view kFeatures[] = {"__opencl_c_3d_image_writes",
                                          "__opencl_c_images",
                                          "__opencl_c_read_write_images",
                                          "__opencl_c_atomic_order_acq_rel",
                                          "__opencl_c_atomic_order_seq_cst",
                                          "__opencl_c_atomic_scope_device",
                                          "__opencl_c_fp16",
                                          "__opencl_c_fp64",
                                          "__opencl_c_int64",
                                          "__opencl_c_generic_address_space",
                                          "__opencl_c_subgroups",
                                          "__opencl_c_work_group_collective_functions",
                                          "__opencl_c_integer_dot_product_input_4x8bit",
                                          "__opencl_c_integer_dot_product_input_4x8bit_packed"};

bool among(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_preserved(const Device &d, std::string_view extension) {
  return among(kExtensions, extension) || (d.shows_3_0() && among(kExtensionsOf3_0, extension));
}

std::string filter_extensions(const Device &d, std::string_view all) {
  std::string out;
  while (!all.empty()) {
    size_t end = std::min(all.find(' '), all.size());
    std::string_view one = all.substr(0, end);
    if (is_preserved(d, one)) out += (out.empty() ? "" : " ") + std::string(one);
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return out;
}

std::string_view as_text(const Bytes &b) {
  std::string_view s = text(b);
  return s.substr(0, s.find('\0'));
}

void note_limit_read(Device &part, cl_device_info param, const Bytes &value) {
  const Limit *limit = find_limit(param);
  if (!limit) return;
  Device &d = *part.root();
  LimitValue v = limit_value(value);
  std::lock_guard lock(d.mutex);
  auto [limits_read, first] = d.limits_read.emplace(param, v);
  if (!first) merge_limit(*limit, true, limits_read->second, v);
}

// Answers that do not depend on the driver.
std::optional<cl_int> fixed_info(Device &d, cl_device_info param, const Answer &out) {
  Device *parent = d.partition ? d.partition->parent.get() : nullptr;
  switch (param) {
    case CL_DEVICE_TYPE: return out.scalar(d.type);
    case CL_DEVICE_PLATFORM: return out.scalar(handle<cl_platform_id>(d.platform));
    case CL_DEVICE_PARENT_DEVICE: return out.scalar(handle<cl_device_id>(parent));
    case CL_DEVICE_REFERENCE_COUNT: return out.scalar(parent ? cl_uint{d.app_count} : cl_uint{1});
    case CL_DEVICE_AVAILABLE: return out.scalar(cl_bool{d.present});
    case CL_DEVICE_EXECUTION_CAPABILITIES:
      return out.scalar(cl_device_exec_capabilities{CL_EXEC_KERNEL});
    case CL_DEVICE_PARTITION_TYPE:
      if (parent) return out.list(d.partition->properties);
      return out.scalar(cl_device_partition_property{0});
    case CL_DEVICE_BUILT_IN_KERNELS: return out.text("");
    case CL_DEVICE_OPENCL_C_VERSION: return out.text("OpenCL C 1.2 ckpt");
    default: return {};
  }
}

// Queries of OpenCL 2.x and 3.0 with a fixed answer: the feature is absent, or the answer is about
// this library.
std::optional<cl_int> unsupported_option(const Device &d, cl_device_info param, const Answer &out) {
  switch (param) {
    case CL_DEVICE_NUMERIC_VERSION: return out.scalar(d.shown);
    // The form that conformance tests read, with a date on which there were none.
    case CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED: return out.text("v0000-01-01-00");
    case CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION: return out.bytes(nullptr, 0);
    case CL_DEVICE_SVM_CAPABILITIES:
      if (link().compiles_elsewhere()) return out.scalar(cl_bitfield{0});
      return {};
    case CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES:
    case CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES: return out.scalar(cl_bitfield{0});
    case CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE:
    case CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE: return out.scalar(size_t{0});
    case CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE:
    case CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE:
    case CL_DEVICE_MAX_ON_DEVICE_QUEUES:
    case CL_DEVICE_MAX_ON_DEVICE_EVENTS:
    case CL_DEVICE_PIPE_SUPPORT:
    case CL_DEVICE_MAX_PIPE_ARGS:
    case CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS:
    case CL_DEVICE_PIPE_MAX_PACKET_SIZE:
    case CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT: return out.scalar(cl_uint{0});
    default: return {};
  }
}

template <class T>
Bytes bytes_of(T v) {
  ByteView b = view(&v, sizeof v);
  return {b.begin(), b.end()};
}

// The minimum that the specification requires of a feature, for a 1.2 device with a driver that
// does not know the query.
std::optional<Bytes> minimum_of_option(cl_device_info param) {
  switch (param) {
    case CL_DEVICE_IL_VERSION: return Bytes(1);
    case CL_DEVICE_ILS_WITH_VERSION:
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
    case CL_DEVICE_OPENCL_C_FEATURES: return Bytes();
    case CL_DEVICE_OPENCL_C_ALL_VERSIONS:
      return bytes_of(std::array{cl_name_version{CL_MAKE_VERSION(1, 0, 0), "OpenCL C"},
                                 cl_name_version{CL_MAKE_VERSION(1, 1, 0), "OpenCL C"},
                                 cl_name_version{CL_MAKE_VERSION(1, 2, 0), "OpenCL C"}});
    case CL_DEVICE_SVM_CAPABILITIES: return bytes_of(cl_device_svm_capabilities{0});
    case CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES:
      return bytes_of(cl_device_atomic_capabilities{CL_DEVICE_ATOMIC_ORDER_RELAXED |
                                                    CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP});
    case CL_DEVICE_ATOMIC_FENCE_CAPABILITIES:
      return bytes_of(cl_device_atomic_capabilities{CL_DEVICE_ATOMIC_ORDER_RELAXED |
                                                    CL_DEVICE_ATOMIC_ORDER_ACQ_REL |
                                                    CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP});
    case CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return bytes_of(size_t{1});
    case CL_DEVICE_IMAGE_PITCH_ALIGNMENT:
    case CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT:
    case CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS:
    case CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT:
    case CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT:
    case CL_DEVICE_MAX_NUM_SUB_GROUPS:
    case CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS:
    case CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT:
    case CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT:
    case CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT: return bytes_of(cl_uint{0});
    default: return {};
  }
}

// The entries of a list of named versions for which `keep` returns true.
template <class Keep>
Bytes filter_versions(const Bytes &all, Keep keep) {
  Bytes out;
  cl_name_version v;
  for (size_t at = 0; at + sizeof v <= all.size(); at += sizeof v) {
    std::memcpy(&v, all.data() + at, sizeof v);
    v.name[CL_NAME_VERSION_MAX_NAME_SIZE - 1] = '\0';
    if (keep(v)) out.insert(out.end(), all.begin() + at, all.begin() + at + sizeof v);
  }
  return out;
}

// The driver's answer without what a checkpoint does not preserve.
Bytes filtered_answer(const Device &d, cl_device_info param, Bytes answer) {
  switch (param) {
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
      return filter_versions(answer, [&](auto &v) { return is_preserved(d, v.name); });
    case CL_DEVICE_OPENCL_C_FEATURES:
      return filter_versions(answer, [](auto &v) { return among(kFeatures, v.name); });
    // OpenCL C 2.0 has pipes and device-side queues.
    case CL_DEVICE_OPENCL_C_ALL_VERSIONS:
      return filter_versions(answer, [](auto &v) { return CL_VERSION_MAJOR(v.version) != 2; });
    case CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES:
    case CL_DEVICE_ATOMIC_FENCE_CAPABILITIES: {
      cl_device_atomic_capabilities c = 0;
      std::memcpy(&c, answer.data(), std::min(sizeof c, answer.size()));
      return bytes_of(
          cl_device_atomic_capabilities{c & ~cl_bitfield{CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES}});
    }
    // A device of a restore without out-of-order queues gets in-order queues in their place.
    case CL_DEVICE_QUEUE_PROPERTIES: {
      cl_command_queue_properties p = 0;
      std::memcpy(&p, answer.data(), std::min(sizeof p, answer.size()));
      return bytes_of(cl_command_queue_properties{
          p & (CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)});
    }
    default: return answer;
  }
}

// Queries of extensions (0x4000 and above) go to the driver, also those that later became core
// queries. Of the others, only those of the version that the program sees are known.
bool is_known_query(const Device &d, cl_device_info param) {
  if (param <= CL_DEVICE_PRINTF_BUFFER_SIZE || param >= 0x4000) return true;
  if (param == CL_DEVICE_IMAGE_PITCH_ALIGNMENT || param == CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT)
    return true;
  return d.shows_3_0() && minimum_of_option(param).has_value();
}

std::optional<cl_int> text_info(const Device &d, cl_device_info param, const Bytes &value,
                                const Answer &out) {
  switch (param) {
    case CL_DEVICE_VERSION: return out.text(shown_text(d.shown, value));
    // Programs key their caches of binaries on this string. Under ckpt-run the caches hold
    // containers (container.h), which must not be mixed with the driver's own binaries.
    case CL_DRIVER_VERSION:
      return out.text(fmt::format("{} ckpt {}", as_text(value), CKPT_VERSION));
    case CL_DEVICE_EXTENSIONS: return out.text(filter_extensions(d, as_text(value)));
    default: return {};
  }
}

}  // namespace

cl_version version_to_show(const Bytes &driver) {
  unsigned major = 1, minor = 0;
  std::string v(as_text(driver));
  if (std::sscanf(v.c_str(), "OpenCL %u.%u", &major, &minor) != 2) return CL_MAKE_VERSION(1, 0, 0);
  if (major >= 3) return CL_MAKE_VERSION(3, 0, 0);
  return CL_MAKE_VERSION(1, major == 2 ? 2 : std::min(minor, 2u), 0);
}

std::string shown_text(cl_version shown, const Bytes &driver) {
  std::string_view text = as_text(driver);
  size_t begin = text.find(' ', std::min(text.size(), std::string_view("OpenCL ").size()));
  std::string_view specific = begin == text.npos ? "" : text.substr(begin);
  return fmt::format("OpenCL {}.{}{} ckpt", CL_VERSION_MAJOR(shown), CL_VERSION_MINOR(shown),
                     specific);
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info param, size_t room, void *value,
                       size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *d = object<Device>(device);
  if (!d) return CL_INVALID_DEVICE;
  if (auto fixed = fixed_info(*d, param, out)) return *fixed;
  if (d->shows_3_0())
    if (auto absent = unsupported_option(*d, param, out)) return *absent;
  if (!is_known_query(*d, param)) return CL_INVALID_VALUE;
  if (!d->present) return CL_INVALID_DEVICE;
  Bytes answer;
  cl_int status = remote_info(InfoOf::Device, *d, 0, param, answer);
  if (status == CL_INVALID_VALUE && d->shows_3_0())
    if (auto least = minimum_of_option(param)) return out.bytes(*least);
  if (status != CL_SUCCESS) return status;
  if (auto shown = text_info(*d, param, answer, out)) return *shown;
  if (value) note_limit_read(*d, param, answer);
  return out.bytes(filtered_answer(*d, param, std::move(answer)));
}

}  // namespace ckpt::ocl::entry
