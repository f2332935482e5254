// SPDX-License-Identifier: Apache-2.0
//
// What a dump refuses: before it touches the program, and what the program's callbacks have left
// open (ckpt_on_checkpoint).
#include "tools/dump/dump.h"
#include "tools/dump/fabric.h"
#include "tools/dump/host_side.h"
#include "tools/dump/preflight.h"
#include "tools/dump/unsupported.h"

namespace ckpt::tools {
namespace {

Result<> refuse_if(const Reasons &reasons) {
  if (reasons.empty()) return {};
  return fail_with_hint(fmt::format("the program cannot be checkpointed now:{}", as_list(reasons)),
                        "the program was not touched and keeps running");
}

}  // namespace

Result<> Dump::preflight() {
  Reasons reasons;
  check_main_threads(target_, reasons);
  CKPT_CHECK(refuse_if(reasons));
  rights_ = rights_to_dump(target_, reasons);
  if (!options_.leave_running) check_root_can_restore(reasons);
  if (Result<Criu> criu = find_criu()) {
    criu_ = *criu;
    check_container(target_, criu_, reasons);
  } else {
    reasons.push_back(criu.error().text());
  }
  if (!in_pipe()) check_destination(target_, options_.image, options_.overwrite, reasons);
  check_processes(target_, reasons);
  check_drivers(target_, reasons);
  check_unsupported(target_, reasons);
  Closables closables = find_closables();
  // The agent of a stopped process would not answer. check_processes() has reported it already.
  if (reasons.empty()) {
    Result<> connected = agents_.connect(target_);
    agents_missed_ = !connected;
    CKPT_CHECK(connected);
    agents_.preflight(reasons);
    report_.remarks = agents_.remarks();
    if (reasons.empty()) may_close_ = agents_.with_callbacks();
  }
  for (Closable &c : closables)
    if (!may_close_.contains(c.pid)) reasons.push_back(std::move(c.why));
  must_close_ = !closables.empty();
  return refuse_if(reasons);
}

Closables Dump::find_closables() const {
  Closables all;
  check_descriptors(target_, all);
  auto scope = options_.barriers ? Connections::Scope::Job : Connections::Scope::Program;
  Connections::check(target_, scope, all);
  check_unix_sockets(target_, all);
  check_socket_kinds(target_, all);
  check_fabrics(target_, all);
  name_libraries(target_, all);
  return all;
}

// The callbacks have run.
Result<> Dump::check_closed() const {
  if (!must_close_) return {};
  Reasons reasons;
  for (Closable &c : find_closables()) reasons.push_back(std::move(c.why));
  if (reasons.empty()) return {};
  return fail_with_hint(
      fmt::format("the callbacks of the program have left open:{}", as_list(reasons)),
      "close it in the `before` callback (ckpt_on_checkpoint); the program keeps running");
}

}  // namespace ckpt::tools
