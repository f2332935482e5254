// SPDX-License-Identifier: Apache-2.0
//
// ckpt-fatbin: what device code a file holds, and whether it uses the device's heap. Trusts nothing
// that stands in the file, runs nothing of it and needs no device.
#include <unistd.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "tools/fatbin/commands.h"
#include "tools/image/text.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {
namespace {

constexpr int kHeapUsed = 1;  // or assumed
constexpr int kFailed = 2;    // or wrong arguments

struct Options {
  std::string file, entry, folder;
  bool json = false, entries = false, all = false, quiet = false;
  u64 limit_mib = fatbin::kMostPayloadBytes >> 20;

  u64 most() const { return limit_mib << 20; }
};

void print_json(const nlohmann::json &j) {
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<int> list_entries(const fatbin::Image &image, const Options &o) {
  if (o.json)
    print_json(show_json(o.file, image, nullptr));
  else
    fmt::print("{}", entries_text(image));
  return 0;
}

Result<int> extract_all_ptx(const fatbin::Image &image, const Options &o) {
  CKPT_TRY(auto names, extract_ptx(image, o.folder, o.most()));
  for (const std::string &name : names) fmt::print("{}\n", name);
  return 0;
}

Result<int> show(const fatbin::Image &image, const Options &o) {
  Progress progress("examined", o.quiet);
  fatbin::SummaryOptions how{.most_payload_bytes = o.most()};
  how.progress = [&](u64 done, u64 total) { progress.update(done, total); };
  CKPT_TRY(fatbin::Summary summary, fatbin::summarize(image, how));
  progress.finish();
  if (o.json)
    print_json(show_json(o.file, image, &summary));
  else
    fmt::print("{}", show_text(o.file, image, summary, o.all));
  return summary.heap.use == fatbin::HeapUse::No ? 0 : kHeapUsed;
}

Result<int> run(const Options &o) {
  CKPT_TRY(fatbin::Image image, fatbin::Image::open(o.file));
  if (o.entries) return list_entries(image, o);
  if (!o.folder.empty()) return extract_all_ptx(image, o);
  if (o.entry.empty()) return show(image, o);
  CKPT_CHECK(extract_entry(image, o.entry, o.most(), STDOUT_FILENO));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckpt-fatbin");
  Options o;
  CLI::App app{
      "What code for CUDA devices a file holds.\n"
      "Exit code 0: no kernel uses the device's heap, 1: one does or may, 2: failed."};
  app.set_version_flag("--version", CKPT_VERSION);
  app.add_option("file", o.file,
                 "an executable, a shared library, an object, a .fatbin, a .cubin or a .ptx file")
      ->required();
  app.add_flag("--json", o.json, "everything, as one JSON object");
  app.add_flag("--all", o.all, "every kernel and variable, in full");
  app.add_option("--limit", o.limit_mib, "refuse entries of more MiB once decompressed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_flag("-q,--quiet", o.quiet, "no progress");
  auto *entries =
      app.add_flag("--entries", o.entries, "only list the entries; decompresses nothing");
  auto *one =
      app.add_option("--extract", o.entry, "write this entry, such as 0.1, to standard output");
  auto *ptx = app.add_option("--extract-ptx", o.folder, "write every PTX into this folder");
  one->excludes(entries)->excludes(ptx);
  ptx->excludes(entries);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kFailed;
  }
  Result<int> code = run(o);
  if (code) return *code;
  // Messages name what stands in the file: hostile text, too.
  log::error(Error{for_terminal(code.error().what), for_terminal(code.error().hint)});
  return kFailed;
}
