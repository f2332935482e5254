// SPDX-License-Identifier: Apache-2.0
//
// ckpt-fatbin: which device code a file contains, and whether it uses the device heap. The file is
// untrusted: nothing in it is run, and no device is needed.
#include <unistd.h>

#include <cstdio>

#include "common/base/print.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/fatbin/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {
namespace {

// Exit codes.
constexpr int kHeapUsed = 1;  // or assumed to be used
constexpr int kFailed = 2;

struct Options {
  std::string file, entry, folder;
  bool json = false, entries = false, all = false, quiet = false;
  u64 limit_mib = fatbin::kMaxPayloadBytes >> 20;

  u64 max_bytes() const { return limit_mib << 20; }
};

void print_json(const nlohmann::json &j) { print_text(json_text(j, 2) + "\n"); }

Result<int> list_entries(const fatbin::Image &image, const Options &o) {
  if (o.json)
    print_json(show_json(o.file, image, nullptr));
  else
    print_text(entries_text(image));
  return 0;
}

Result<int> extract_all_ptx(const fatbin::Image &image, const Options &o) {
  CKPT_TRY(auto names, extract_ptx(image, o.folder, o.max_bytes()));
  for (const std::string &name : names) print("{}\n", name);
  return 0;
}

Result<int> show(const fatbin::Image &image, const Options &o) {
  Progress progress("examined", o.quiet);
  fatbin::SummaryOptions options{.max_payload_bytes = o.max_bytes()};
  options.progress = [&](u64 done, u64 total) { progress.update(done, total); };
  CKPT_TRY(fatbin::Summary summary, fatbin::summarize(image, options));
  progress.finish();
  if (o.json)
    print_json(show_json(o.file, image, &summary));
  else
    print_text(show_text(o.file, image, summary, o.all));
  return summary.heap.use == fatbin::HeapUse::No ? 0 : kHeapUsed;
}

Result<int> run_command(const Options &o) {
  CKPT_TRY(fatbin::Image image, fatbin::Image::open(o.file));
  if (o.entries) return list_entries(image, o);
  if (!o.folder.empty()) return extract_all_ptx(image, o);
  if (o.entry.empty()) return show(image, o);
  CKPT_CHECK(extract_entry(image, o.entry, o.max_bytes(), STDOUT_FILENO));
  return 0;
}

// A message may quote names from the file, which is untrusted.
Result<int> run(const Options &o) {
  Result<int> code = run_command(o);
  if (code) return code;
  return fail_with_hint(printable(code.error().what), printable(code.error().hint));
}

void add_options(CommandLine &line, Options &o) {
  line.option("FILE", o.file,
              "an executable, a shared library, an object, a .fatbin, a .cubin or a .ptx file")
      .required();
  line.flag("--json", o.json, "print everything as one JSON object");
  line.flag("--all", o.all, "list every kernel and variable, with whole names");
  line.option("--limit=MIB", o.limit_mib,
              "refuse entries that are longer when decompressed, in MiB")
      .range(1, 1 << 20);
  line.flag("-q,--quiet", o.quiet, "show no progress");
  Option entries =
      line.flag("--entries", o.entries, "only list the entries, without decompressing them");
  Option one =
      line.option("--extract=ENTRY", o.entry, "write this entry (such as 0.1) to standard output");
  Option ptx = line.option("--extract-ptx=FOLDER", o.folder,
                           "write each PTX entry to a file in this folder");
  one.excludes(entries).excludes(ptx);
  ptx.excludes(entries);
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  CommandLine line(
      "ckpt-fatbin",
      "Shows the CUDA device code that a file contains.\n"
      "Exit code 0: no kernel uses the device heap; 1: one does or may; 2: the file could not "
      "be examined; 125: the arguments are wrong.");
  Options o;
  add_options(line, o);
  return run_tool_with_json(line, argc, argv, kFailed, o.json, [&] { return run(o); });
}
