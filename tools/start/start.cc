// SPDX-License-Identifier: Apache-2.0
#include "tools/start/start.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/print.h"
#include "common/base/printable.h"
#include "tools/json_text.h"
#include "tools/phases.h"
#include "tools/restore/memory_files.h"
#include "tools/restore/supplied_files.h"
#include "tools/start/copies.h"
#include "tools/start/copy_process.h"
#include "tools/start/shared.h"

namespace ckpt::tools {
namespace {

// "mount namespaces" need CAP_SYS_ADMIN, and ckpt-helper makes none of this kind.
Result<> check_user() {
  if (::geteuid() == 0) return {};
  return fail_with_hint(
      "only root can start copies: each has mount and IPC namespaces of its own, which ckpt-helper "
      "does not make",
      "run ckpt-start as root, or start one program with ckpt-restore");
}

Result<> check_plan(const RestorePlan &plan, const StartOptions &o) {
  if (!plan.manifest.for_copies)
    return fail_with_hint(
        fmt::format("{} is not a template: nothing has made sure that copies of its program can "
                    "run at the same time",
                    o.restore.image),
        "make one (ckpt-dump --template), or start one program with ckpt-restore");
  if (plan.rights.way == CriuRights::Way::Root) return {};
  return fail_with_hint(
      fmt::format(
          "the program belongs to uid {}, and copies can be started of root's programs only",
          plan.rights.user.uid),
      "start one program with ckpt-restore");
}

Result<std::map<std::string, std::string>> parse_settings(const std::vector<std::string> &texts) {
  std::map<std::string, std::string> settings;
  for (const std::string &text : texts) {
    auto setting = parse_setting(text);
    if (!setting)
      return fail_with_hint(fmt::format("--set {} is not a setting", text),
                            "write NAME=VALUE: a name of letters, digits and underscores, and a "
                            "value in one line");
    settings[setting->first] = setting->second;
  }
  return settings;
}

Result<> check_output(const StartOptions &o) {
  if (o.copies == 1 || o.output.find("%n") != o.output.npos) return {};
  return fail_with_hint(fmt::format("all copies would write to {}", o.output),
                        "name a file for each copy: --output with %n for the copy's number");
}

// Small files that are missing are made again here, once for all copies.
Result<> make_kept_files(RestorePlan &plan) {
  ImageManifest kept = plan.manifest;
  kept.memory_files.clear();
  RestoredMemoryFiles files;
  CKPT_CHECK(files.write(kept, *plan.image));
  files.program_runs();
  plan.manifest.kept_files.clear();
  plan.manifest.kept_fifos.clear();
  return {};
}

Copy copy_for(u32 number, const StartOptions &o, const ImageManifest &m, const CopyFacts &facts,
              const Addresses &addresses) {
  Copy copy{.facts = facts, .output = {}, .addresses = addresses};
  copy.facts.number = number;
  copy.facts.copies = o.copies;
  copy.facts.generation = (m.copy ? m.copy->generation : 0) + 1;
  copy.output = std::filesystem::absolute(with_number(o.output, number)).lexically_normal();
  return copy;
}

// At once: the copies run on, perhaps for long.
void print_running(const StartOptions &o, u32 number, const nlohmann::json &facts) {
  if (o.json) return;
  print("copy {}   PID {}, {:.3f} s, output in {}\n", number, facts.value("pid", 0),
        facts.value("seconds", 0.0), printable(with_number(o.output, number)));
  std::fflush(stdout);
}

void print_end(const StartOptions &o, u32 number, int status) {
  if (o.json) return;
  if (WIFSIGNALED(status))
    print("copy {}   ended by signal {}\n", number, WTERMSIG(status));
  else
    print("copy {}   ended with exit code {}\n", number, WEXITSTATUS(status));
  std::fflush(stdout);
}

// Returns the exit code.
int watch(Copies &copies, const StartOptions &o) {
  copies.wait_until_running(
      [&o](u32 number, const nlohmann::json &facts) { print_running(o, number, facts); });
  if (!o.detach)
    copies.wait_for_ends([&o](u32 number, int status) { print_end(o, number, status); });
  if (o.json) print("{}\n", json_text({{"image", o.restore.image}, {"copies", copies.report()}}));
  return o.detach ? (copies.all_running() ? 0 : kStartFailed) : copies.exit_code();
}

}  // namespace

Result<int> start(StartOptions o) {
  CKPT_CHECK(check_user());
  CKPT_CHECK(check_output(o));
  CopyFacts facts;
  CKPT_TRY(facts.settings, parse_settings(o.settings));
  CKPT_TRY(Addresses addresses, Addresses::parse(o.listen));
  // Everything is checked before anything is started, and once for all copies.
  Phases phases;
  phases.begin("check");
  o.restore.for_copies = true;
  o.restore.copies = o.copies;
  CKPT_TRY(RestorePlan plan, make_plan(o.restore));
  CKPT_CHECK(check_plan(plan, o));
  CriuFiles criu = CriuFiles::of(*plan.image);
  Reasons reasons;
  check_shared({plan.manifest, criu, addresses, o.copies, o.share_files}, reasons);
  if (!reasons.empty())
    return fail_with_hint(fmt::format("the copies cannot be started:{}", as_list(reasons)),
                          "nothing was started");
  warn_of_supplied_files(plan.manifest);
  CKPT_CHECK(make_kept_files(plan));
  // Each copy's keeper is a child of this process.
  phases.begin("start");
  Copies copies;
  pid_t starter = ::getpid();
  std::optional<int> of_child =
      copies.start(o.copies, o.detach, [&](u32 number, const Copies::Report &report) {
        Copy copy = copy_for(number, o, plan.manifest, facts, addresses);
        return run_copy(starter, std::move(copy), o, plan, report);
      });
  if (of_child) return *of_child;
  phases.begin("wait");
  return watch(copies, o);
}

}  // namespace ckpt::tools
