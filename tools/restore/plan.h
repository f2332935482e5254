// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "storage/read/image_reader.h"
#include "tools/criu/criu.h"
#include "tools/criu/rights.h"
#include "tools/device/device.h"
#include "tools/lazy/owed_memory.h"
#include "tools/manifest/file_checks.h"
#include "tools/manifest/image_manifest.h"
#include "tools/net/connection_lock.h"
#include "tools/restore/checks.h"
#include "tools/restore/fifos.h"
#include "tools/session/periodic.h"

namespace ckpt::tools {

class JobRestore;
class LazyRestore;
class StandBy;
class TakeOver;
struct Copy;
class HistoryFile;

struct RestoreOptions {
  std::string image;  // kPipeImage: from standard input
  std::string key_file;
  bool shared_key = false;   // other users can read the key file
  bool trust_image = false;  // other users can have made the image
  bool as_root = false;      // with root's rights, although the program is not root's alone
  std::string device;
  bool portable = false;
  ReadLimits limits = ReadLimits::Warn;
  bool continue_without_devices = false;
  bool detach = false;
  std::string output_file;
  GrownFiles grown_files;
  bool ignore_processor = false;
  std::string json_report;
  PeriodicOptions periodic;
  JobRestore *job = nullptr;             // its other programs are restored at the same time
  TakeOver *take_over = nullptr;         // from another machine, on which the program was until now
  StandBy *stand_by = nullptr;           // images of it arrive while it still runs there
  bool lazy = false;                     // the program goes on before its memory is loaded
  bool verify_first = false;             // with lazy: all stored bytes are checked before
  LazyRestore *served = nullptr;         // with lazy, if memory is owed
  const HistoryFile *history = nullptr;  // null: that of this user
  bool check_only = false;               // nothing will be started
  bool for_copies = false;               // the image is a template, from which copies are started
  unsigned copies = 1;                   // how many
  const Copy *copy = nullptr;            // which of these this is
};

// An image, and everything that its restore needs.
struct RestorePlan {
  // With --continue-without-devices: why this machine cannot give the program its devices.
  std::string no_devices_because;
  std::unique_ptr<storage::ImageReader> image;
  ImageManifest manifest;
  DeviceChoice devices;
  DeviceMaps maps;
  Criu criu;
  CriuRights rights;
  OwedMemory owed;            // with RestoreOptions::lazy
  bool late_devices = false;  // with it: contents of devices may be owed, too
  std::unique_ptr<Fifos> fifos = std::make_unique<Fifos>();
};

// The image alone, unless its index is damaged.
Result<std::unique_ptr<storage::ImageReader>> open_image(const RestoreOptions &o);

// Opens the image and checks everything that a restore needs, before anything is started. The error
// names everything that prevents the restore. With Way::ForUser, become_owner() checks the devices.
// `for_copies`: what each copy has of its own is left out of the manifest, and what it may get
// another one of (addresses) is not checked. `before`: that of an earlier image of the program. Its
// devices and its CRIU are taken, and the stored bytes are not read again: they were compared with
// their checksums when they arrived, and each chunk is compared with its address when it is used.
Result<RestorePlan> make_plan(const RestoreOptions &o, const RestorePlan *before = nullptr);

// Objects that only root can create.
struct OwnersHelp {
  UniqueFd helper;                 // the connection with the helper of this process
  ConnectionLock connection_lock;  // no packet may arrive before both ends of a connection exist
};

// Way::ForUser: switches this process from root to the program's user, and looks for the devices as
// that user, because drivers may offer different devices to that user than to root.
Result<OwnersHelp> become_owner(RestorePlan &plan, const RestoreOptions &o);

}  // namespace ckpt::tools
