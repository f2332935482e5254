// SPDX-License-Identifier: Apache-2.0
//
// A migration, on the machine that the program leaves. move.cc is its table of contents.
//
// At most one of the two machines runs the program, whatever is killed and whenever the link dies:
//
//   until give()         a failure lets the program go on here, and the copy there is ended
//   from give() to go()  no process of the program is left here, and the copy there is stopped
//   from go() on         it goes on there as soon as that is decided there (decision_files.h)
//
// If the connection ends after give(), the program may run there, or nowhere. `ckpt-migrate
// --finish` and `--take-back` find out (settle_move.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/format/key.h"
#include "storage/read/image_reader.h"
#include "tools/dump/cancel.h"
#include "tools/migrate/ahead_out.h"
#include "tools/migrate/image_out.h"
#include "tools/migrate/move_record.h"
#include "tools/migrate/peer.h"
#include "tools/migrate/rounds.h"
#include "tools/migrate/source_dump.h"

namespace ckpt::tools {

struct MoveReport {
  std::string number, host;
  pid_t pid = 0, pid_there = 0;
  std::string program;
  nlohmann::json rounds = nlohmann::json::array();
  double predicted_downtime = 0, downtime = 0;  // seconds
  double stopped_at = 0;                        // since the beginning
  // Of the downtime: until the image was complete here, had arrived, was loaded, until no process
  // was left here, and until the program had its devices there.
  nlohmann::json stop = nlohmann::json::object();
  double seconds = 0;
  u64 sent_bytes = 0;
};

class Move {
 public:
  Move(MoveOptions options, pid_t pid, Cancel &cancel);
  Result<MoveReport> run();
  // After a failure: the program was given away, and perhaps neither machine runs it.
  bool in_doubt() const { return given_ && !back_; }
  std::string number() const { return record_ ? record_->number() : ""; }

 private:
  Result<> move();
  Result<> prepare();
  Result<> check_room();
  Result<> ask_there();
  Result<> copy_ahead();
  Result<> copy_round();
  Result<> check_there();
  Result<> stop();
  Result<> load();
  Result<> give();
  Result<> go();
  void finish();
  Result<> send_ahead(const std::string &file, u64 offset, u32 bytes);
  Result<SentImage> send();
  void begin_round();
  void note_round(double pause, const SentImage &sent, bool last);
  void note_step(const char *name);
  Result<> may_go_on() const;
  Result<> alive();
  Result<> within_downtime() const;
  std::string parent() const;

  const MoveOptions options_;
  const pid_t pid_;
  Cancel &cancel_;
  SourceDumps dumps_;
  Rounds rounds_;
  std::optional<storage::Key> key_;
  std::optional<MoveRecord> record_;
  std::unique_ptr<Peer> peer_;
  AheadOut ahead_;
  std::optional<ToolRun> stopped_;  // the dump that keeps the program stopped
  nlohmann::json facts_;            // what ckpt-dump --check has said
  u32 round_ = 0;                   // of the next image
  u64 raw_bytes_ = 0;
  u64 start_ticks_ = 0;  // of the program's first process
  double check_seconds_ = 0;
  bool stopping_ = false, given_ = false, back_ = false;
  Clock::time_point begun_ = Clock::now(), round_begun_ = begun_, paused_at_ = begun_;
  double period_ = 0;          // between the last two rounds' beginnings
  u64 sent_before_ = 0;        // bytes, when the round began
  double sending_before_ = 0;  // seconds
  double steps_ = 0;           // of the downtime, that have a name
  MoveReport report_;
};

}  // namespace ckpt::tools
