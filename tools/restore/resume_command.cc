// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resume_command.h"

#include "common/base/print.h"
#include "common/base/printable.h"
#include "tools/json_text.h"
#include "tools/restore/dry_run.h"

namespace ckpt::tools {
namespace {

constexpr int kRefused = 1, kUnknown = 2;

}  // namespace

void add_dry_run_options(CommandLine &line, DryRunCommand &c, const Option &resumed) {
  Option dry_run = line.flag("--dry-run", c.given,
                             "change nothing; say whether it is possible, and with --resume what "
                             "it costs and for how long the program must still run for it to pay");
  line.option("--watch=SECONDS", c.watch,
              "with --dry-run: for how long a program that runs is watched")
      .range(0.1, 3600.0)
      .needs(resumed)
      .needs(dry_run);
  line.option("--step=SECONDS", c.step,
              "with --dry-run: how long a step of the program takes now, to count in steps, too")
      .range(1e-9, 1e9)
      .needs(resumed)
      .needs(dry_run);
  line.flag("--json", c.json, "with --dry-run: print a JSON object").needs(dry_run);
}

void say_possible(const DryRunCommand &c, const std::string &image) {
  if (c.json)
    print("{}\n", json_text({{"image", image}, {"possible", true}}));
  else
    print("image    {}\ncheck    possible now; nothing was started\n", printable(image));
}

Result<int> run_resume(const ResumeOptions &options) {
  CKPT_TRY(ResumeReport r, resume_and_note(options));
  if (r.pause)
    print("program  {}, moved\npause    {:.3f} s\n", r.pid, *r.pause);
  else
    print("program  {}, running again\ntime     {:.3f} s\n", r.pid, r.seconds);
  return 0;
}

Result<int> run_dry_run(const DryRunCommand &c, const ResumeOptions &options) {
  CKPT_TRY(MoveDryRun r, look_at_move({options, c.watch, c.step}));
  print_text(c.json ? json_text(as_json(r)) + "\n" : text_of(r));
  if (!r.reasons.empty()) return fail_with_code(kRefused, refusal_of(r));
  return r.checked ? 0 : kUnknown;
}

}  // namespace ckpt::tools
