// SPDX-License-Identifier: Apache-2.0
//
// ckpt-migrate --receive: the machine that a program goes to. It speaks to the other one by its
// standard input and output. If the connection ends before `go`, the copy is ended; afterwards
// ckpt-restore goes on by itself.
#pragma once

#include <optional>

#include "storage/format/key.h"
#include "tools/dump/cancel.h"
#include "tools/migrate/ahead_in.h"
#include "tools/migrate/chunk_shelf.h"
#include "tools/migrate/frame_link.h"
#include "tools/migrate/messages.h"
#include "tools/migrate/move_record.h"
#include "tools/migrate/tool_run.h"

namespace ckpt::tools {

class Receiver {
 public:
  Receiver(FrameLink link, Cancel &cancel) : link_(std::move(link)), cancel_(cancel) {}
  // Serves one migration. An error was also told to the other side.
  Result<> run();

 private:
  Result<> serve();
  void clean();
  Result<> greet();
  Result<> answer(const Frame &frame);
  Result<> prepare(ByteView body);
  Result<> begin_ahead(ByteView body);
  Result<> take_ahead(ByteView body);
  Result<> receive(ByteView body);
  Result<> start_restore(bool stand_by);
  Result<> check();
  Result<> load();
  Result<> go();
  Result<> finish();
  Result<> take_back();
  Result<> tell_state();
  Result<> check_room(u64 bytes) const;
  Result<> check_needs(const std::string &needs);
  std::vector<std::string> restore_options() const;
  Result<> beat();

  FrameLink link_;
  Cancel &cancel_;
  Hello hello_;
  Prepare wishes_;
  std::optional<storage::Key> key_;
  std::optional<MoveRecord> record_;
  ChunkShelf shelf_;
  std::optional<AheadIn> ahead_;  // of the image of round ahead_of_
  u32 ahead_of_ = 0;
  std::optional<ToolRun> restore_;  // prepares itself, and then keeps the copy stopped
  bool loading_ = false;
  bool ready_ = false;       // the other side may have been told so
  bool told_to_go_ = false;  // the restore decides by itself
  bool over_ = false;
};

}  // namespace ckpt::tools
