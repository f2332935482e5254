// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: what ckpt-restore reads from an image beside the streams: the manifest, the needs of
// participants, and CRIU's files, which it changes.
#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "storage/format/manifest.h"
#include "tools/agent_link/requirements.h"
#include "tools/criu/criu_file.h"
#include "tools/manifest/file_checks.h"
#include "tools/manifest/image_manifest.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;

void read_manifest(std::string_view text) {
  Result<nlohmann::json> json = storage::parse_manifest(text);
  if (!json) return;
  Result<ImageManifest> manifest = ImageManifest::parse(*json);
  if (!manifest) return;
  std::vector<pid_t> pids = manifest->pids();
  if (pids.empty() || pids.front() <= 0) std::abort();
  (void)manifest->stopped();
  Reasons reasons;
  check_files(*manifest, GrownFiles::Append, reasons);
  check_mapped_files(*manifest, reasons);
}

void edit_nothing(ProtoMessage &) {}
void edit_everything(ProtoMessage &m) {
  for (u32 field = 1; field < 16; field++) {
    m.set_number(field, m.number(field) + 1);
    m.edit_each(field, [](ProtoMessage &inner) { inner.set_number(1, ~u64{0}); });
  }
}

// Without a change a file means the same, and what we write we can read.
void edit_file(ByteView bytes) {
  Bytes once = edit_criu_file(Bytes(bytes.begin(), bytes.end()), edit_nothing);
  if (edit_criu_file(once, edit_nothing) != once) std::abort();
  (void)edit_criu_file(once, edit_everything);
}

void read_message(ByteView bytes) {
  std::optional<ProtoMessage> m = ProtoMessage::parse(bytes);
  if (!m) return;
  std::optional<ProtoMessage> again = ProtoMessage::parse(m->encode());
  if (!again || again->encode() != m->encode()) std::abort();
  for (u32 field = 0; field < 16; field++)
    if (again->number(field) != m->number(field) ||
        !std::ranges::equal(again->bytes(field), m->bytes(field)))
      std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ByteView bytes = view(data, size);
  if (size == 0) return 0;
  if (data[0] == '{') read_manifest(text(bytes));
  if (data[0] == '[') (void)parse_requirements(text(bytes), {"ocl", "cuda"});
  edit_file(bytes);
  read_message(bytes);
  return 0;
}
