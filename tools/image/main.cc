// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image: looks into images. Trusts nothing that stands in them.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/log.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt {
namespace {

constexpr int kDifferent = 1;
constexpr int kFailed = 1;  // or damaged
constexpr int kUsage = 2;
constexpr int kDiffFailed = 2;  // as diff(1)

struct Options {
  std::string image, other, stream;
  bool json = false, streams = false, quiet = false;
};

void print_json(const nlohmann::json &j) {
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<int> run_show(const Options &o) {
  CKPT_TRY(auto image, ImageReader::open(o.image));
  if (!o.stream.empty()) {
    CKPT_CHECK(extract(*image, o.stream, STDOUT_FILENO));
  } else if (o.json) {
    print_json(show_json(*image));
  } else {
    fmt::print("{}", show_text(*image, o.streams));
  }
  return 0;
}

Result<int> run_verify(const Options &o) {
  auto image = ImageReader::open(o.image);
  if (!image && o.json)
    print_json({{"image", o.image}, {"ok", false}, {"damages", {image.error().what}}});
  if (!image) return Failure(std::move(image).error());
  return verify(**image, o.quiet, o.json);
}

Result<int> run_diff(const Options &o) {
  CKPT_TRY(auto a, ImageReader::open(o.image));
  CKPT_TRY(auto b, ImageReader::open(o.other));
  CKPT_TRY(Difference d, diff(*a, *b));
  if (o.json)
    print_json(d.json);
  else
    fmt::print("{}", d.text);
  return d.same ? 0 : kDifferent;
}

int report(Result<int> r, int failed = kFailed) {
  if (r) return *r;
  // Messages name files and streams of the image: hostile text, too.
  log::error(Error{for_terminal(r.error().what), for_terminal(r.error().hint)});
  return failed;
}

}  // namespace
}  // namespace ckpt

int main(int argc, char **argv) {
  using namespace ckpt;
  log::set_name("ckpt-image");
  Options o;
  CLI::App app{"Looks into images that ckpt-dump wrote."};
  app.set_version_flag("--version", CKPT_VERSION);
  app.require_subcommand(1);

  CLI::App *show = app.add_subcommand("show", "what an image holds");
  show->add_option("image", o.image, "the image's folder")->required();
  show->add_flag("--json", o.json, "everything, as one JSON object");
  show->add_flag("--streams", o.streams, "every stream too");
  show->add_option("--extract", o.stream, "write this stream's bytes to standard output");

  CLI::App *verify =
      app.add_subcommand("verify", "read and check every byte; 0: whole, 1: damaged");
  verify->add_option("image", o.image, "the image's folder")->required();
  verify->add_flag("--json", o.json, "report as one JSON object");
  verify->add_flag("-q,--quiet", o.quiet, "no progress");

  CLI::App *diff = app.add_subcommand("diff", "what differs; 0: nothing, 1: something");
  diff->add_option("first", o.image, "an image's folder")->required();
  diff->add_option("second", o.other, "another's")->required();
  diff->add_flag("--json", o.json, "report as one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  if (show->parsed()) return report(run_show(o));
  if (verify->parsed()) return report(run_verify(o));
  return report(run_diff(o), kDiffFailed);
}
