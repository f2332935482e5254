// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/check/check.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "common/base/json_fields.h"
#include "common/base/units.h"
#include "libckpt-ocl/device_limits.h"
#include "libckpt-ocl/proxy/check/check_images.h"
#include "libckpt-ocl/proxy/device/host_addresses.h"
#include "libckpt-ocl/proxy/device/mapping.h"
#include "libckpt-ocl/proxy/device/quirks.h"
#include "libckpt-ocl/proxy/device/slice_test.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/sources.h"
#include "libckpt-ocl/svm_addresses.h"

namespace ckpt::ocl {
namespace {

using nlohmann::json;

// A number, or a list of them.
LimitValue numbers(const json &j, const char *name) {
  LimitValue out;
  if (!j.is_object() || !j.contains(name)) return out;
  const json &v = j[name];
  if (v.is_number_unsigned()) out.push_back(v.get<u64>());
  if (v.is_array())
    for (const json &x : v) out.push_back(x.is_number_unsigned() ? x.get<u64>() : 0);
  return out;
}

// "64 × 2 × 1"
std::string product(const LimitValue &factors) {
  std::string out;
  for (u64 f : factors) out += (out.empty() ? "" : " × ") + std::to_string(f);
  return out;
}

// Why a block of shared virtual memory, [address, bytes], cannot be in a process like this one.
std::string why_not_at(const json &block) {
  bool pair = block.is_array() && block.size() == 2 && block[0].is_number_unsigned() &&
              block[1].is_number_unsigned();
  u64 address = pair ? block[0].get<u64>() : 0, bytes = pair ? block[1].get<u64>() : 0;
  if (!is_for_svm(address, bytes))
    return "the image names addresses that ckpt does not use for it; it may be damaged";
  if (!reserve_at(address, bytes))
    return fmt::format(
        "the driver's process has something else at {:#x}, or too little address "
        "space (ulimit -v)",
        address);
  ::munmap(reinterpret_cast<void *>(address), bytes);
  return {};
}

// A reason is one line. The lines of a compiler that name errors, or all if none does.
std::string errors_on_one_line(std::string log) {
  std::string errors;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find("error") != std::string::npos) errors += (errors.empty() ? "" : " | ") + line;
  std::ranges::replace(log, '\n', ' ');
  return errors.empty() ? log : errors;
}

// The source without its comments, in which names do not count.
std::string code_of(const std::string &source) {
  std::string out;
  for (size_t i = 0; i < source.size();) {
    if (source.compare(i, 2, "//") == 0) {
      i = std::min(source.find('\n', i), source.size());
    } else if (source.compare(i, 2, "/*") == 0) {
      size_t end = source.find("*/", i + 2);
      i = end == std::string::npos ? source.size() : end + 2;
    } else {
      out += source[i++];
    }
  }
  return out;
}

class Check {
 public:
  Check(const RealDevice &device, const json &file_sets, std::vector<std::string> &reasons)
      : device_(device), file_sets_(file_sets), reasons_(reasons) {}

  void limits(const json &values, bool strict, std::vector<std::string> &warnings) {
    for (const Limit &l : kLimits) {
      LimitValue read = numbers(values, l.name);
      if (read.empty()) continue;
      LimitValue here = device_limit(device_.id, l);
      if (satisfies(l, read, here)) continue;
      std::string difference = fmt::format("the program has read {} = {}; \"{}\" has {}", l.name,
                                           product(read), device_.name, product(here));
      if (strict)
        add_reason("{}, and --strict-limits was given", difference);
      else
        warnings.push_back(difference +
                           ". All that it has used so far fits; if it relies on the limit later, "
                           "that call fails (--strict-limits refuses such a device)");
    }
  }

  void buffers(const json &device) {
    u64 largest = json_value<u64>(device, "largest_buffer", 0);
    u64 total = json_value<u64>(device, "buffer_bytes", 0);
    u64 aligned = json_value<u64>(device, "sub_buffer_alignment", 0);
    u64 alignment = device_number(device_.id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;  // in bits
    if (aligned && aligned < alignment)
      add_reason(
          "the program's sub-buffers begin at multiples of {} bytes; \"{}\" requires multiples of "
          "{}",
          aligned, device_.name, alignment);
    u64 most = device_number(device_.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    u64 memory = device_number(device_.id, CL_DEVICE_GLOBAL_MEM_SIZE);
    if (largest > most)
      add_reason("the program's largest buffer or image has {}; \"{}\" supports at most {}",
                 human_bytes(largest), device_.name, human_bytes(most));
    if (total > memory)
      add_reason("the program's buffers and images have {}; \"{}\" has {} of memory",
                 human_bytes(total), device_.name, human_bytes(memory));
  }

  // The program keeps pointers into it, so it must be at the same addresses in the driver's process
  // too, and kernels must see it there. A process of this kind is about to be started.
  void shared_virtual_memory(const json &device) {
    const json &blocks = json_list(device, "svm");
    if (blocks.empty()) return;
    if (svm_capabilities(device_.id) == 0)
      return add_reason(
          "the program uses shared virtual memory; \"{}\" does not work at the program's addresses",
          device_.name);
    for (const json &block : blocks)
      if (std::string why = why_not_at(block); !why.empty())
        return add_reason("the program's shared virtual memory cannot be mapped: {}", why);
  }

  // A launch of which a part has run can only continue in slices.
  void slices(const json &device) {
    if (!json_value(device, "slices", false)) return;
    if (std::string why = why_no_slices(device_.id); !why.empty())
      add_reason("a kernel is running in slices, which \"{}\" cannot continue: {}", device_.name,
                 why);
  }

  void program(const json &p) {
    ProgramToBuild w{json_value<u64>(p, "number", 0), json_string(p, "source"), files(p), units(p),
                     json_string(p, "options")};
    if (!json_value(p, "built", false)) return;
    if (std::string il = json_string(p, "il"); !il.empty()) return language(w.number, il);
    if (json_value(p, "native_only", false))
      return add_reason(
          "program {} was created from another driver's binary, and its source is unknown",
          w.number);
    build(w, p);
  }

 private:
  struct ProgramToBuild {
    u64 number;
    std::string source;
    Headers files;
    std::vector<Container::Unit> units;
    std::string options;
  };

  // The files that a program or unit includes.
  Headers files(const json &p) const {
    Headers h;
    u64 place = json_value<u64>(p, "files", ~u64{0});
    if (!file_sets_.is_array() || place >= file_sets_.size()) return h;
    const json &set = file_sets_[place];
    h.folder = json_string(set, "folder");
    h.folders = json_strings(json_member(set, "folders"));
    for (const json &f : json_list(set, "files"))
      h.files.push_back({json_string(f, "path"), json_string(f, "text")});
    for (const json &a : json_list(set, "absolute"))
      if (a.is_array() && a.size() == 2 && a[0].is_string() && a[1].is_string())
        h.absolute.emplace_back(a[0].get<std::string>(), a[1].get<std::string>());
    return h;
  }

  std::vector<Container::Unit> units(const json &p) const {
    std::vector<Container::Unit> out;
    for (const json &u : json_list(p, "units")) {
      Container::Unit &unit = out.emplace_back();
      unit.source = json_string(u, "source");
      unit.options = json_string(u, "options");
      unit.files = files(u);
      for (const json &h : json_list(u, "headers"))
        unit.headers.push_back({json_string(h, "name"), json_string(h, "source")});
    }
    return out;
  }

  template <class... A>
  void add_reason(fmt::format_string<A...> f, A &&...a) {
    reasons_.push_back(fmt::format(f, std::forward<A>(a)...));
  }

  // The device must name the version of the intermediate language.
  void language(u64 number, const std::string &il) {
    std::string here = " " + device_text(device_.id, CL_DEVICE_IL_VERSION) + " ";
    if (here.find(" " + il + " ") == std::string::npos)
      add_reason("program {} is in {}, which \"{}\" does not support{}", number, il, device_.name,
                 here.size() > 2 ? "; it supports" + here : "");
  }

  // Why the source probably does not compile: the extensions that it enables, and double precision,
  // which needs one. Only the compiler knows which branches it takes, so this is an explanation of
  // its error and no error itself.
  std::string likely_cause(const ProgramToBuild &w) const {
    std::string code = code_of(w.source),
                here = " " + device_text(device_.id, CL_DEVICE_EXTENSIONS) + " ";
    for (const Container::Unit &u : w.units) code += code_of(u.source);
    static const std::regex doubles(R"(\bdouble\d*\b)"),
        pragma(R"(#\s*pragma\s+OPENCL\s+EXTENSION\s+(\w+)\s*:\s*(enable|require))");
    bool fp64 = device_number(device_.id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0 ||
                here.find(" cl_khr_fp64 ") != std::string::npos;
    if (!fp64 && std::regex_search(code, doubles))
      return fmt::format(" (it uses double precision (fp64), which \"{}\" does not support)",
                         device_.name);
    for (std::sregex_iterator it(code.begin(), code.end(), pragma), end; it != end; ++it)
      if (std::string name = (*it)[1]; here.find(" " + name + " ") == std::string::npos)
        return fmt::format(" (it enables {}, which \"{}\" does not support)", name, device_.name);
    return {};
  }

  void build(const ProgramToBuild &w, const json &p) {
    cl_int status;
    std::string log;
    cl_context context = ::clCreateContext(nullptr, 1, &device_.id, nullptr, nullptr, &status);
    if (!context) return add_reason("\"{}\" cannot be used: OpenCL error {}", device_.name, status);
    cl_program program =
        w.units.empty()
            ? built_from_source(context, {device_.id}, w.source, w.options, w.files, status)
            : from_units(context, {device_.id}, w.units, w.options, status, &log);
    if (status != CL_SUCCESS)
      add_reason("program {} does not compile for \"{}\"{}: {}", w.number, device_.name,
                 likely_cause(w),
                 errors_on_one_line(log.empty() ? build_log(program, device_.id) : log));
    for (const json &k : json_list(p, "kernels"))
      if (status == CL_SUCCESS) launches(program, k);
    release_handle(Kind::Program, program);
    release_handle(Kind::Context, context);
  }

  void launches(cl_program program, const json &k) {
    std::string name = json_string(k, "name");
    cl_kernel kernel = ::clCreateKernel(program, name.c_str(), nullptr);
    if (!kernel) return add_reason("kernel {} cannot be created on \"{}\"", name, device_.name);
    work_group(kernel, name, k);
    local_memory(kernel, name, k);
    release_handle(Kind::Kernel, kernel);
  }

  void work_group(cl_kernel kernel, const std::string &name, const json &k) {
    const Limit &sizes = *find_limit(CL_DEVICE_MAX_WORK_ITEM_SIZES);
    LimitValue size = numbers(k, "local_size"), here = device_limit(device_.id, sizes);
    if (!satisfies(sizes, size, here))
      add_reason("kernel {} runs in work-groups of {}; \"{}\" supports at most {}", name,
                 product(size), device_.name, product(here));
    size_t most = device_number(device_.id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    if (!understates_work_groups(device_.id))
      ::clGetKernelWorkGroupInfo(kernel, device_.id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                 nullptr);
    u64 launched = json_value<u64>(k, "work_items", 0);
    if (launched > most)
      add_reason("kernel {} runs in work-groups of {}; \"{}\" supports at most {}", name, launched,
                 device_.name, most);
  }

  // The kernel's own local memory, as this device's compiler lays it out, and that of its
  // arguments.
  void local_memory(cl_kernel kernel, const std::string &name, const json &k) {
    cl_ulong declared = 0;
    ::clGetKernelWorkGroupInfo(kernel, device_.id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof declared,
                               &declared, nullptr);
    u64 required = declared + json_value<u64>(k, "local_bytes", 0);
    u64 here = device_number(device_.id, CL_DEVICE_LOCAL_MEM_SIZE);
    if (required > here)
      add_reason("kernel {} uses {} bytes of local memory; \"{}\" has {}", name, required,
                 device_.name, here);
  }

  const RealDevice &device_;
  const json &file_sets_;
  std::vector<std::string> &reasons_;
};

std::vector<ProgramDevice> program_devices(const json &requirements) {
  std::vector<ProgramDevice> out;
  for (const json &d : json_list(requirements, "devices"))
    out.push_back({json_value<u64>(d, "number", 0), json_value(d, "used", false),
                   json_string(d, "platform"), json_string(d, "name"),
                   json_value<u32>(d, "nth", 0)});
  return out;
}

bool is_for(const json &program, u64 device) {
  for (const json &d : json_list(program, "devices"))
    if (d.is_number_unsigned() && d.get<u64>() == device) return true;
  return false;
}

bool same_driver(const ProgramDevice &w, const RealDevice &d,
                 const std::vector<RealPlatform> &all) {
  for (const RealPlatform &p : all)
    for (const RealDevice &x : p.devices)
      if (&x == &d) return p.name == w.platform && d.name == w.name;
  return false;
}

}  // namespace

CheckAnswer check_requirements(const json &requirements, const CheckOptions &options) {
  const std::string &keys = options.devices;
  CheckAnswer answer;
  std::vector<std::string> &reasons = answer.reasons;
  std::vector<RealPlatform> all = real_platforms(keys);
  std::vector<ProgramDevice> devices = program_devices(requirements);
  auto real = map_program_devices(devices, all, !keys.empty());
  if (!real) return {{real.error().text()}, {}};
  const json &file_sets = json_list(requirements, "file_sets");
  bool same_too = json_value(requirements, "same_driver_too", false);
  for (size_t i = 0; i < devices.size(); i++) {
    const RealDevice *d = (*real)[i];
    if (!d || !devices[i].used) continue;
    const json &device = json_list(requirements, "devices")[i];
    Check check(*d, file_sets, reasons);
    check.shared_virtual_memory(device);
    // The same device has served the program before.
    if (!same_too && same_driver(devices[i], *d, all)) continue;
    if (options.read_limits != ReadLimits::Ignore)
      check.limits(json_member(device, "limits"), options.read_limits == ReadLimits::Refuse,
                   answer.warnings);
    check.buffers(device);
    check.slices(device);
    check_images(*d, json_list(device, "images"), reasons);
    for (const json &p : json_list(requirements, "programs"))
      if (is_for(p, devices[i].number)) check.program(p);
  }
  return answer;
}

}  // namespace ckpt::ocl
