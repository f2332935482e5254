// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/refusals.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tools/dump/bound_sockets.h"
#include "tools/dump/causes_for_user.h"
#include "tools/dump/connections.h"
#include "tools/dump/describe_program.h"
#include "tools/dump/dump_template.h"
#include "tools/dump/fabric.h"
#include "tools/dump/preflight.h"
#include "tools/dump/thread_state.h"
#include "tools/dump/unsupported.h"
#include "tools/dump/watched.h"

namespace ckpt::tools {
namespace {

Result<> refuse_if(const Reasons &reasons) {
  if (reasons.empty()) return {};
  return fail_with_hint(fmt::format("the program cannot be checkpointed now:{}", as_list(reasons)),
                        "the program was not touched and keeps running");
}

// Numbers may have changed, such as that of connections that wait.
bool is_among(const Closable &c, const Closables &all) {
  auto without_digits = [](std::string text) {
    std::erase_if(text, [](char ch) { return ch >= '0' && ch <= '9'; });
    return text;
  };
  return std::ranges::any_of(all, [&](const Closable &other) {
    return c.pid == other.pid && without_digits(c.why) == without_digits(other.why);
  });
}

}  // namespace

Reasons Refusals::from_outside() {
  Reasons reasons;
  rights_ = rights_to_dump(target_, reasons);
  if (std::string why = why_as_root(rights_, ownership_of(target_));
      options_.refuse_as_root && !why.empty())
    reasons.push_back(std::move(why));
  if (!options_.leave_running) check_root_can_restore(reasons);
  if (Result<Criu> criu = find_criu()) {
    criu_ = *criu;
    check_container(target_, criu_, reasons);
  } else {
    reasons.push_back(criu.error().text());
  }
  if (!options_.in_pipe()) check_destination(target_, options_.image, options_.overwrite, reasons);
  check_processes(target_, reasons);
  check_unsupported(target_, reasons);  // waits for children that share memory (vfork)
  check_drivers(target_, reasons);
  check_thread_state(target_, reasons);
  check_scheduling(target_, reasons);
  check_timers(target_, reasons);
  check_filters_of_user(target_, rights_, reasons);
  check_mappings_in_user_namespace(target_, rights_, reasons);
  return reasons;
}

void Refusals::ask(Agents &agents, Reasons &reasons, Remarks &remarks) {
  agents.preflight(reasons);
  remarks = agents.remarks();
  may_close_ = agents.with_callbacks();
}

Result<> Refusals::check(Agents &agents, Remarks &remarks) {
  Reasons reasons;
  check_main_threads(target_, reasons);
  CKPT_CHECK(refuse_if(reasons));
  reasons = from_outside();
  Closables closables = find_closables();
  // The agent of a stopped process would not answer. check_processes() has reported it already.
  if (reasons.empty()) {
    Result<> connected = agents.connect(target_);
    agents_missed_ = !connected;
    CKPT_CHECK(connected);
    ask(agents, reasons, remarks);
    if (!reasons.empty()) may_close_.clear();
    remark_landlock(target_, remarks);
  }
  for (Closable &c : closables)
    if (!may_close_.contains(c.pid)) reasons.push_back(std::move(c.why));
  CKPT_CHECK(refuse_as_template(reasons));
  must_close_ = !closables.empty();
  return refuse_if(reasons);
}

// What no copy can have. Callbacks of the program may close it.
Result<> Refusals::refuse_as_template(Reasons &reasons) const {
  if (!options_.as_template) return {};
  if (options_.tcp_close && rights_.by_helper())
    reasons.push_back(
        "--tcp-close needs CRIU with the rights of root, which ckpt-helper does not "
        "give: run ckpt-dump as root, or close the connections");
  if (!may_close_.empty()) return {};
  FileHashes unused;
  manifest::Manifest running = describe_running(target_, criu_, unused);
  running.fifos = describe_fifos(target_, read_descriptors(target_));
  return check_running_template(running, options_.tcp_close, reasons);
}

// A program that runs may close one file and open another one while its descriptors are compared
// with what the kernel says of all sockets and files. What is there again is refused.
Closables Refusals::find_closables() const {
  constexpr int kLooks = 3;
  Closables all = look_for_closables();
  for (int i = 1; i < kLooks && !all.empty(); i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Closables now = look_for_closables();
    std::erase_if(all, [&](const Closable &c) { return !is_among(c, now); });
  }
  return all;
}

Closables Refusals::look_for_closables() const {
  Closables all;
  check_descriptors(target_, all);
  auto scope = options_.barriers    ? Connections::Scope::Job
               : options_.tcp_close ? Connections::Scope::Closed
                                    : Connections::Scope::Program;
  Connections::check(target_, scope, all);
  check_unix_sockets(target_, all);
  check_socket_kinds(target_, all);
  check_watched(target_, all);
  check_watches_of_user(target_, rights_, all);
  BoundSockets::of(target_).check(all);
  check_nvml(target_, all);
  check_fabrics(target_, all);
  name_libraries(target_, all);
  return all;
}

Result<> Refusals::check_recorded(const Ownership &recorded, Remarks &remarks) const {
  CKPT_CHECK(check_recorded_rights(rights_, recorded));
  std::string why = why_as_root(rights_, recorded);
  if (!why.empty() && options_.refuse_as_root) return refuse_if({why});
  if (!why.empty()) remarks.push_back(std::move(why));
  return {};
}

Result<> Refusals::check_closed() const {
  if (!must_close_) return {};
  Reasons reasons;
  for (Closable &c : find_closables()) reasons.push_back(std::move(c.why));
  if (reasons.empty()) return {};
  return fail_with_hint(
      fmt::format("the callbacks of the program have left open:{}", as_list(reasons)),
      "close it in the `before` callback (ckpt_on_checkpoint); the program keeps running");
}

}  // namespace ckpt::tools
