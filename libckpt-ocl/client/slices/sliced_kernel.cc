// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/slices/sliced_kernel.h"

#include "common/base/fnv.h"
#include "common/base/log.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/entry/il.h"
#include "libckpt-ocl/client/entry/program.h"
#include "libckpt-ocl/client/link/link.h"
#include "slicing/spirv.h"
#include "slicing/whole_kernels.h"

namespace ckpt::ocl {
namespace {

// The sources of a program, with those of the files that they include.
struct Texts {
  std::string source, options;
  std::vector<Container::Unit> units;
  Headers files;
  bool misses_files = false;

  template <class F>
  void each(F f) const {
    f(source);
    for (const Headers::File &file : files.files) f(file.text);
    for (const Container::Unit &u : units) {
      f(u.source);
      for (const Container::Unit::Header &h : u.headers) f(h.source);
      for (const Headers::File &file : u.files.files) f(file.text);
    }
  }

  // Whether one of them, or a name that is defined by an option, could be a wait for other blocks.
  bool may_wait() const {
    bool may = misses_files || slicing::may_wait(options);
    for (const Container::Unit &u : units) may = may || slicing::may_wait(u.options);
    each([&may](const std::string &text) { may = may || slicing::may_wait(text); });
    return may;
  }
};

Texts texts_of(Program &p) {
  std::lock_guard lock(p.mutex);
  Texts t{p.source, p.options, link_units_of(p), {}, !p.missed_files.empty()};
  if (p.files) t.files = *p.files;
  return t;
}

Bytes sliced_container(const Texts &t, u32 form) {
  Container c;
  c.options = t.options;
  c.files = t.files;
  c.units = t.units;
  if (!t.source.empty()) c.source = slicing::sliced_source(t.source, form);
  for (Container::Unit &u : c.units) u.source = slicing::sliced_source(u.source, form);
  return c.pack();
}

// The application's reference is given up: the result keeps the object.
template <class T, class H, class Release>
Ref<T> kept(H made, Release release) {
  Ref<T> ref(object<T>(made));
  if (made != nullptr) release(made);
  return ref;
}

std::vector<cl_device_id> devices_of(const Program &p) {
  std::vector<cl_device_id> devices;
  for (Device *d : p.devices) devices.push_back(handle<cl_device_id>(d));
  return devices;
}

bool build(Program &made, const Program &p, const char *options) {
  std::vector<cl_device_id> devices = devices_of(p);
  return entry::clBuildProgram(handle<cl_program>(&made), static_cast<cl_uint>(devices.size()),
                               devices.data(), options, nullptr, nullptr) == CL_SUCCESS;
}

// A program from the container for the devices of `p`, built; null if it does not compile.
Ref<Program> built(const Program &p, const Bytes &container) {
  std::vector<cl_device_id> devices = devices_of(p);
  auto n = static_cast<cl_uint>(devices.size());
  std::vector<size_t> sizes(n, container.size());
  std::vector<const unsigned char *> binaries(
      n, reinterpret_cast<const unsigned char *>(container.data()));
  cl_program made =
      entry::clCreateProgramWithBinary(handle<cl_context>(p.context.get()), n, devices.data(),
                                       sizes.data(), binaries.data(), nullptr, nullptr);
  auto program = kept<Program>(made, entry::clReleaseProgram);
  return program && build(*program, p, "") ? program : Ref<Program>();
}

std::vector<Bytes> specialization(Program &p) {
  std::lock_guard lock(p.mutex);
  return constants_of_build(p);
}

// The same for a module in SPIR-V.
Ref<Program> built_from_il(Program &p, const Texts &texts, u32 form) {
  Bytes module = slicing::sliced_spirv(p.il, form).module;
  if (module.empty()) return {};
  auto program = kept<Program>(entry::clCreateProgramWithIL(handle<cl_context>(p.context.get()),
                                                            module.data(), module.size(), nullptr),
                               entry::clReleaseProgram);
  if (!program) return {};
  for (Bytes &value : specialization(p))
    if (give_constant(*program, std::move(value)) != CL_SUCCESS) return {};
  return build(*program, p, texts.options.c_str()) ? program : Ref<Program>();
}

// Each program has variables of its own, so two kernels of different programs would not share them.
bool has_variables(const Program &p) {
  return std::ranges::any_of(p.devices, [&](Device *d) {
    return d->shows_3_0() && program_scope_bytes(p.number, d->number) > 0;
  });
}

void survey_il(Program &p, SlicedProgram &made) {
  slicing::SlicedSpirv module = slicing::sliced_spirv(p.il, 0);
  made.whole = module.whole;
  made.may_wait = module.may_wait;
  made.hash = fnv1a(text(p.il), made.hash);
  // Behind the number of the program, which another run may not have.
  for (const Bytes &value : specialization(p))
    made.hash = fnv1a(text(value).substr(std::min(value.size(), sizeof p.number)), made.hash);
}

std::shared_ptr<SlicedProgram> make_sliced(Program &p) {
  auto made = std::make_shared<SlicedProgram>();
  Texts texts = texts_of(p);
  if (texts.source.empty() && texts.units.empty() && p.il.empty())
    made->whole = "its program's source is unknown";
  made->hash = fnv1a(texts.options);
  if (!p.il.empty()) survey_il(p, *made);
  made->may_wait = made->may_wait || texts.may_wait();
  texts.each([&](const std::string &text) { made->hash = fnv1a(text, made->hash); });
  if (made->whole.empty() && has_variables(p))
    made->whole = "its program has variables at program scope";
  return made;
}

std::shared_ptr<SlicedKernel> make_sliced(const Kernel &k, const SlicedProgram &program) {
  auto made = std::make_shared<SlicedKernel>();
  made->whole = program.whole;
  made->may_wait = program.may_wait;
  made->hash = fnv1a(k.name, program.hash);
  return made;
}

SlicedProgram &sliced_program(Program &p) {
  if (!p.sliced) p.sliced = make_sliced(p);
  return *p.sliced;
}

Program *program_in_form(Program &p, u32 form) {
  SlicedProgram::Form &f = sliced_program(p).forms[form];
  if (!std::exchange(f.made, true)) {
    Texts texts = texts_of(p);
    f.program =
        p.il.empty() ? built(p, sliced_container(texts, form)) : built_from_il(p, texts, form);
  }
  return f.program.get();
}

void make_form(const Kernel &k, SlicedForm &out, u32 form) {
  Program *program = program_in_form(*k.program, form);
  if (program == nullptr) {
    out.whole = "its program does not compile for slices";
    return;
  }
  out.kernel =
      kept<Kernel>(entry::clCreateKernel(handle<cl_program>(program), k.name.c_str(), nullptr),
                   entry::clReleaseKernel);
  if (!out.kernel || out.kernel->args.size() != k.args.size())
    out.whole = "it cannot be made a second time";
}

std::mutex &making() {
  static auto *const kMaking = new std::mutex;
  return *kMaking;
}

}  // namespace

std::shared_ptr<SlicedKernel> sliced_kernel(Kernel &k) {
  std::lock_guard lock(making());
  if (k.sliced) return k.sliced;
  SlicedProgram &p = sliced_program(*k.program);
  std::shared_ptr<SlicedKernel> &sliced = p.kernels[k.name];
  if (!sliced) sliced = make_sliced(k, p);
  return k.sliced = sliced;
}

SlicedForm &sliced_form(const Kernel &k, SlicedKernel &sliced, u32 form) {
  std::lock_guard lock(making());
  SlicedForm &f = sliced.forms[form];
  if (!std::exchange(f.made, true)) make_form(k, f, form);
  return f;
}

std::string reason_against_slices(Device &d) {
  {
    std::lock_guard lock(d.mutex);
    if (d.against_slices) return *d.against_slices;
  }
  Bytes reply;
  std::string why = "the device could not be asked";
  if (link().round_trip(Op::TestSlices, 0, Writer().put(d.number).bytes(), &reply) == CL_SUCCESS)
    why = Reader(reply).str();
  std::lock_guard lock(d.mutex);
  d.against_slices = why;
  return why;
}

Result<> prepare_slices_again() {
  for (Device *d : registry().all<Device>()) {
    if (!std::exchange(d->against_slices, {})) continue;
    std::string why = reason_against_slices(*d);
    if (!why.empty() && d->launches_in_slices.load() > 0)
      return fail("a kernel is running in slices, which \"{}\" cannot continue: {}", d->real.name,
                  why);
  }
  return {};
}

void name_whole(const Kernel &k, SlicedKernel &sliced, std::string_view why) {
  if (!sliced.named.exchange(true))
    log::warn("kernel {} runs whole, not in slices: {}", k.name, why);
}

}  // namespace ckpt::ocl
