// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/recreation.h"

#include <map>

#include "common/base/clock.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

Bytes payload_with_headers(const LedgerEntry &entry) {
  Writer w;
  w.raw(entry.payload.data(), entry.payload.size());
  put(w, *entry.headers);
  return w.take();
}

const char *name_of(Kind kind) {
  switch (kind) {
    case Kind::Context: return "context";
    case Kind::Queue: return "command queue";
    case Kind::Mem: return "buffer or image";
    case Kind::Program: return "program";
    case Kind::Kernel: return "kernel";
    case Kind::Sampler: return "sampler";
    case Kind::Device:
    case Kind::Partition: return "sub-device";
    case Kind::None:
    case Kind::Platform:
    case Kind::Event: break;
  }
  return "object";
}

// What the compiler says of a program that cannot be built, for each of its devices.
std::string build_logs(const Program &p) {
  constexpr size_t kMaxBytes = 2000;
  std::string all;
  for (Device *d : p.devices) {
    Bytes answer;
    if (remote_info(InfoOf::ProgramBuild, p.number, d->number, CL_PROGRAM_BUILD_LOG, answer) !=
        CL_SUCCESS)
      continue;
    std::string_view log = text(answer);
    log = log.substr(0, std::min(log.find('\0'), kMaxBytes));
    if (!log.empty()) all += fmt::format("; the compiler for \"{}\" says: {}", d->real.name, log);
  }
  return all;
}

Failure cannot_recreate(const Object &o, cl_int status) {
  bool program = o.kind == Kind::Program;
  return fail("cannot make {} {} again on the new device: OpenCL error {}{}", name_of(o.kind),
              o.number, status, program ? build_logs(static_cast<const Program &>(o)) : "");
}

}  // namespace

Result<> recreate_objects(std::chrono::milliseconds &compiled) {
  Clock::duration building{};
  std::map<u64, std::pair<Object *, const LedgerEntry *>> entries;
  for (Object *o : registry().all(Kind::None))
    for (const LedgerEntry &e : o->ledger_entries) entries[e.when] = {o, &e};
  const std::unordered_set<const Mem *> mapped = mapped_roots();
  for (auto &[when, what] : entries) {
    auto [o, entry] = what;
    Clock::time_point begun = Clock::now();
    Bytes with_headers = entry->headers ? payload_with_headers(*entry) : Bytes();
    cl_int status =
        link().round_trip(entry->op, o->number, entry->headers ? with_headers : entry->payload);
    if (status != CL_SUCCESS) return cannot_recreate(*o, status);
    if (o->kind == Kind::Mem) CKPT_CHECK(share_memory_again(static_cast<Mem &>(*o), mapped));
    if (o->kind == Kind::Program) building += Clock::now() - begun;
  }
  compiled = std::chrono::duration_cast<std::chrono::milliseconds>(building);
  return {};
}

}  // namespace ckpt::ocl
