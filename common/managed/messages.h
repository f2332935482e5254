// SPDX-License-Identifier: Apache-2.0
//
// The messages of messages.api as C++ types and as bytes: the body of a frame
// (common/ipc/unix_socket.h), with the message's number as its type. Both sides use this file
// because neither may include the other: the program's side is in manager-client/, the Manager's in
// manager/.
#pragma once

#include <string>
#include <variant>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::managed {

inline constexpr u32 kVersion = 4;
// The environment variable that names the socket of ckptd.
inline constexpr const char *kSocketVariable = "CKPTD_SOCKET";
inline constexpr size_t kMaxBodyBytes = 16u << 10;    // of a message to the Manager
inline constexpr size_t kMaxStatusBytes = 16u << 20;  // of one to a program or tool
inline constexpr size_t kMaxNameBytes = 256;
// Of the reason why a program cannot leave or resume, which may contain a compiler's output.
inline constexpr size_t kMaxReasonBytes = 1000;

// The APIs that a program uses, or that a device serves: sums of these.
enum Api : u32 { kCuda = 1, kOpenCl = 2 };
inline constexpr u32 kAllApis = kCuda | kOpenCl;
// In Uses. An earlier Manager takes no notice of it.
inline constexpr u32 kKnowsDepths = 1u << 31;

// The state of a program, as it reports it.
enum class Standing : u8 {
  Unassigned,  // it has no GPU
  Assigned,    // it has one, and no context there
  Running,     // it has a context
  Evicted,     // its contents are on the host
  Suspended,   // the same, but by a tool: the Manager must not resume it
};

#define FIELD(type, name) type name{};
namespace to_manager {
#define TO_MANAGER(Name, number, fields)                  \
  struct Name {                                           \
    static constexpr u16 kNumber = number;                \
    fields bool operator==(const Name &) const = default; \
  };
#define TO_PROGRAM(Name, number, fields)
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
}  // namespace to_manager
namespace to_program {
#define TO_MANAGER(Name, number, fields)
#define TO_PROGRAM(Name, number, fields)                  \
  struct Name {                                           \
    static constexpr u16 kNumber = number;                \
    fields bool operator==(const Name &) const = default; \
  };
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
}  // namespace to_program
#undef FIELD

// std::monostate: no message.
using ToManager = std::variant<std::monostate
#define TO_MANAGER(Name, number, fields) , to_manager::Name
#define TO_PROGRAM(Name, number, fields)
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
                               >;
using ToProgram = std::variant<std::monostate
#define TO_MANAGER(Name, number, fields)
#define TO_PROGRAM(Name, number, fields) , to_program::Name
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
                               >;

u16 number_of(const ToManager &message);
u16 number_of(const ToProgram &message);
// "CudaMalloc"
const char *name_of(const ToManager &message);
const char *name_of(const ToProgram &message);

Writer encode(const ToManager &message);
Writer encode(const ToProgram &message);
// Accepts any bytes. An error names the message and what is wrong with it.
Result<ToManager> decode_to_manager(u16 number, ByteView body);
Result<ToProgram> decode_to_program(u16 number, ByteView body);

}  // namespace ckpt::managed
