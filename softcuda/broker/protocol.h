// SPDX-License-Identifier: Apache-2.0
//
// The messages between processes and the broker; common/ipc/unix_socket.h frames them. A process
// keeps its connection open while it has memory on a device. When it disconnects, its memory is
// free again. There is one broker for each user and configuration of devices.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::softcuda::broker {

enum class Request : u16 {
  Hello = 1,  // -> Devices
  Take,       // u32 device, u64 bytes -> Answer
  Give,       // u32 device, u64 bytes; no answer
  Info,       // u32 device -> Info: u64 total, u64 free
  Processes,  // u32 device -> Processes: u32 count, (i32 pid, u64 bytes)…
  Serve,      // this connection executes orders: Order: u32 ticket, blob;
              // its answer is Reply: u32 ticket, u8 last, blob
  Ask,        // i32 pid, blob order -> Reply: u8 known, blob answer
  Reserve,    // u32 device, Job's five i64 -> Time: i64 end (ns)
  Others,     // -> Answer: u8; whether another process is connected
  Identify,   // -> Identity: u64, the number of this connection
  Connected,  // u64 identity -> Answer: u8; whether that connection is still open
  Share,      // blob description, one descriptor -> Shared: u8 done, 16 bytes
  Withdraw,   // 16 bytes; no answer. A process that disconnects withdraws all that it shares
  Open,       // 16 bytes -> Opened: u8 found, u64 owner, blob description; one descriptor if found
  Hold,  // u64 file, u32 device, u64 bytes, u8 1: these were counted as the process's so far, 0: it
         // has imported them; no answer
  Drop,  // u64 file; no answer
  Busy,  // u32 device -> Busy: i64 ns since the broker's start, i64 ns of kernels, i64 ns of the
         // bus, u8 a kernel runs, u8 the bus is used
  Times,  // u32 device -> Times: i64 ns since the broker's start, u32 count, (i32 pid, i64 ns of
          // its kernels)…
};

enum class Response : u16 {
  Devices = 100,
  Answer,
  Info,
  Processes,
  Order,
  Reply,
  Time,
  Identity,
  Shared,
  Opened,
  Busy,
  Times,
};

struct DeviceInfo {
  std::string name;
  std::array<u8, 16> uuid{};
  u64 total_bytes = 0;
};

// The PCI bus that a device of the broker reports.
inline u32 pci_bus(u32 index) { return index + 1; }

inline constexpr size_t kMaxMessage = 1u << 20;
inline constexpr u32 kMaxDevices = 16;

// "4x4800M": four devices of 4800 MiB.
struct Configuration {
  u32 devices = 1;
  u64 bytes = 4096ull << 20;
  std::string text() const;
};
// Parses the value of CKPT_SOFTCUDA; empty means the default.
Result<Configuration> parse_configuration(std::string_view text);

// The socket of this configuration's broker. Creates its folder.
Result<std::string> socket_path(const Configuration &c);

}  // namespace ckpt::softcuda::broker
