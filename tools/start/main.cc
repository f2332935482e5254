// SPDX-License-Identifier: Apache-2.0
//
// ckpt-start: starts copies of a program from a template.
#include "tools/start/start.h"

#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/restore/stem.h"

namespace ckpt::tools {
namespace {

constexpr int kMostCopies = 4096;

void add_options(CommandLine &line, StartOptions &o) {
  RestoreOptions &r = o.restore;
  line.option("IMAGE", r.image, "the folder of a template (ckpt-dump --template)").required();
  line.option("-n,--copies=N", o.copies, "how many copies to start").range(1, kMostCopies);
  line.repeated("--listen=OLD=NEW", o.listen,
                "another address for the program's: ports (8080=9001-9004 gives each copy one), "
                "addresses with ports, paths or abstract names of UNIX sockets (%n: the copy's "
                "number); may be given more than once");
  line.repeated("--set=NAME=VALUE", o.settings,
                "a setting that the program can read (ckpt_setting); may be given more than once");
  line.option("--hostname=NAME", o.host_name,
              "the host name that a copy sees; %n: the copy's number")
      .default_is("the machine's");
  line.option("--output=FILE", o.output,
              "the file for a copy's standard output and error; %n: the copy's number");
  line.option("--device=LIST", r.device,
              "devices for each copy: a comma-separated list of index, cuda:N, ocl:N, ocl:NAME or "
              "UUID")
      .default_is("every device");
  line.flag("--share-files", o.share_files, "accept that several copies write to the same files");
  line.flag("--detach", o.detach, "return when all copies run");
  line.flag("--json", o.json, "report as one JSON object on standard output");
  line.option("--key-file=FILE", r.key_file, "the file with the key of an encrypted image");
  line.flag("--shared-key", r.shared_key, "accept a key file that other users can read");
  line.flag("--trust-image", r.trust_image,
            "start copies of an image that another user owns or can change: they run with your "
            "rights");
  line.flag("--portable", r.portable, "report to the program only what every device offers");
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  if (argc == 3 && std::string_view(argv[1]) == "--stem") return stem_main(argv[2]);
  StartOptions o;
  o.output = "copy-%n.out";
  CommandLine line(
      "ckpt-start",
      "Starts copies of a program from a template, at the same time, each with PIDs, shared memory "
      "and output of its own.\n"
      "Exit code 0: all copies have ended with 0; 1: a copy could not be started or has failed; of "
      "one copy, its own; 125: the arguments are wrong.");
  add_options(line, o);
  line.version_also(criu_found);
  return run_tool_with_json(line, argc, argv, kStartFailed, o.json, [&] { return start(o); });
}
