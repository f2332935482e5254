// SPDX-License-Identifier: Apache-2.0
//
// The types of objects. Each holds what the application has specified or may query, so that most
// queries need no round trip, and what a restore needs.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/ipc/shared_memory.h"
#include "libckpt-ocl/client/command/window.h"
#include "libckpt-ocl/client/object/object.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/device_limits.h"
#include "ring/wire.h"

namespace ckpt::ocl {

struct Platform : Object {
  static constexpr Kind kKind = Kind::Platform;
  Platform() : Object(kKind) {}
  std::string name;
  cl_version shown = 0;
  std::vector<struct Device *> devices;
};

// A division of a device into sub-devices. It has one ledger entry, which recreates all of its
// sub-devices that are still alive.
struct Partition : Object {
  static constexpr Kind kKind = Kind::Partition;
  Partition() : Object(kKind) {}
  Kept<kKind, struct Device, Bond::Older> parent;
  std::vector<cl_device_partition_property> properties;
  std::mutex mutex;          // guards `numbers` and the ledger entry that contains them
  std::vector<u64> numbers;  // of the sub-devices; 0: released
};

struct Device : Object {
  static constexpr Kind kKind = Kind::Device;
  Device() : Object(kKind) {}
  Platform *platform = nullptr;
  std::string name;  // as the program first saw it
  cl_device_type type = 0;
  // The real device that stands for this one; a restore may change it.
  struct Real {
    std::string platform, name;
    u32 nth = 0;  // among the platform's devices of that name
    std::string uuid;
  } real;
  bool present = true;   // false: since a restore no real device stands for this one
  cl_version shown = 0;  // the OpenCL version that the program sees; never changes
  Kept<kKind, Partition, Bond::Older> partition;  // set for sub-devices

  bool shows_3_0() const { return shown >= CL_MAKE_VERSION(3, 0, 0); }
  Device *root() { return partition ? partition->parent->root() : this; }
  bool is_part_of(const Device *d) const {
    return this == d || (partition && partition->parent->is_part_of(d));
  }

  // The limits that the program has read and may rely on: the strictest value of all answers.
  std::mutex mutex;
  std::map<cl_device_info, LimitValue> limits_read;
  // Time stamps never run backwards, not even across a restore (time_stamps.cc). Of a root device.
  u64 stamp_offset = 0;  // added to the driver's time stamps
  u64 last_stamp = 0;
  u64 stamp_floor = 0;                        // last_stamp at the latest restore
  std::optional<std::string> against_slices;  // reason_against_slices; no value: not asked yet
  std::atomic<u32> launches_in_slices{0};     // of which a part was sent

  WorkTimes work_times;  // of the real device
};

struct Context : Object {
  static constexpr Kind kKind = Kind::Context;
  Context() : Object(kKind) {}
  std::vector<Device *> devices;
  std::vector<Kept<kKind, Device>> kept;  // keeps `devices` alive: some may be sub-devices
  std::vector<cl_context_properties> properties;
  struct Callback {
    void(CL_CALLBACK *fn)(cl_context, void *);
    void *user;
  };
  std::mutex mutex;
  std::vector<Callback> callbacks;  // of clSetContextDestructorCallback
  // A real device keeps copies of host memory, so that no buffer can share it (shared_memory.h).
  std::atomic<bool> copies{false};
  // Whether the context contains the device or a sub-device of it.
  bool uses(const Device *d) const {
    return std::any_of(devices.begin(), devices.end(), [&](Device *x) { return x->is_part_of(d); });
  }
  bool has(const Device *d) const {
    return std::find(devices.begin(), devices.end(), d) != devices.end();
  }
};

// The end of a command, for what must not keep its event, which sets it: of a marker, for the
// window of its queue (window.h), and of a non-blocking read.
struct Pulse {
  std::atomic<bool> done{false};
  u32 busy = 0;  // Completion::busy
  bool finished() const { return done.load(std::memory_order_acquire); }
};

struct Queue : Object {
  static constexpr Kind kKind = Kind::Queue;
  Queue() : Object(kKind) {}
  Kept<kKind, Context> context;
  Device *device = nullptr;
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> property_list;  // as given to …WithProperties
  bool in_order() const { return !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE); }

  std::mutex order;        // held while a command is sent, so that `last` is the last one sent
  std::mutex mutex;        // guards the following
  u64 last = 0;            // the newest command with an event; Link::pending() has it
  bool untracked = false;  // commands without an event were sent after `last` (request_marker)
  // Commands of this queue that are deferred (deferred.h), and the barriers among them.
  std::atomic<u32> deferred{0}, deferred_barriers{0};
  std::atomic<bool> held_back{false};  // one of them only waits for room in the window
  std::atomic<bool> in_pieces{false};  // a thread sends one in pieces (SentInPieces in deferred.h)
  // What was sent to the proxy, and is under way.
  BasicWindow<std::shared_ptr<const Pulse>> window;
  // Queues for the rest of a launch (sliced_launch.cc).
  std::vector<Kept<kKind, Queue, Bond::Own>> beside;
};

// Host address space in which a mapped buffer or image appears; as large as the root buffer.
struct Shadow {
  std::byte *data = nullptr;
  size_t bytes = 0;
  ~Shadow() {
    if (data) ::munmap(data, bytes);
  }
};

// A region of an image, in elements, rows and slices. The layers of an array take the last place.
struct ImageBox {
  std::array<size_t, 3> origin, region;
};

// The properties of a memory object that is an image.
struct Image {
  cl_image_format format;
  cl_image_desc desc;  // mem_object is null; Mem::parent has it
  size_t element;      // bytes of an element
  std::array<size_t, 3> extent;
  // Layout in host memory (host_ptr or shadow): bytes from one row to the next, and from one slice
  // or layer to the next (0: there is only one).
  size_t row_pitch, slice_pitch;

  // The layers of a 1D array take the place of rows.
  bool layered_rows() const { return desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY; }
};

struct Sampler : Object {
  static constexpr Kind kKind = Kind::Sampler;
  Sampler() : Object(kKind) {}
  Kept<kKind, Context> context;
  cl_bool normalized = CL_TRUE;
  cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
  cl_filter_mode filter = CL_FILTER_NEAREST;
  std::vector<cl_sampler_properties> properties;  // as given to …WithProperties
};

struct Mem : Object {
  static constexpr Kind kKind = Kind::Mem;
  Mem() : Object(kKind) {}
  Kept<kKind, Context> context;
  cl_mem_flags flags = 0;
  size_t size = 0;
  std::byte *host_ptr = nullptr;
  // Of a sub-buffer, or of an image that was made from a buffer.
  Kept<kKind, Mem, Bond::Older> parent;
  size_t origin = 0;  // in the parent
  std::optional<Image> image;
  std::vector<cl_mem_properties> properties;  // as given to …WithProperties
  bool svm = false;                           // a block of shared virtual memory (svm/block.h)
  Kept<kKind, Mem, Bond::Older> block;        // of a buffer over a part of one
  bool excluded = false;                      // ckpt_exclude(): images do not hold the contents
  u64 managed_bytes = 0;  // bytes that were reserved with the Manager (manager_requests.h)

  struct Map {
    std::byte *at;
    size_t offset, size;
    cl_map_flags flags;
    std::optional<ImageBox> box = {};  // of an image, instead of offset and size
  };
  struct Callback {
    void(CL_CALLBACK *fn)(cl_mem, void *);
    void *user;
  };
  std::mutex mutex;
  std::vector<Map> maps;
  std::vector<Callback> callbacks;              // of clSetMemObjectDestructorCallback
  Shadow shadow;                                // of a root without host_ptr, after the first map
  std::shared_ptr<struct SharedMemory> shared;  // of a root; null: the device has its own memory

  // Of a root: a command may have written to it since the last save.
  std::atomic<bool> written{true};
  // Of a root: the proxy still has to copy its contents for a checkpoint (link/owed.h).
  std::atomic<bool> owed{false};
  // Of a root that shares pages: their contents may still have to arrive (link/arriving.h).
  std::atomic<bool> arrives{false};

  Mem *root() { return parent ? parent->root() : this; }
  size_t root_offset(size_t offset) const {
    return parent ? parent->root_offset(origin + offset) : offset;
  }
};

struct Program : Object {
  static constexpr Kind kKind = Kind::Program;
  Program() : Object(kKind) {}
  Kept<kKind, Context> context;
  std::vector<Device *> devices;
  std::string source;
  bool from_binary = false;
  Bytes il;  // of clCreateProgramWithIL
  // The compiled programs that this one was linked from.
  std::vector<Kept<kKind, Program, Bond::Older>> inputs;
  bool was_linked = false;  // another program was linked from this one
  struct Header {
    // A copy of the program's own: two programs may include each other.
    Kept<kKind, Program, Bond::Own> program;
    std::string name;
  };
  std::vector<Header> headers;            // of the last compilation
  std::vector<Container::Unit> units;     // of the container that the program was created from
  std::shared_ptr<const Headers> files;   // that the last build included; may be null
  std::vector<std::string> missed_files;  // FoundHeaders::missed of the last build
  std::mutex mutex;
  bool was_built = false;
  std::string options;              // of the last build, as the application gave them
  std::atomic<u32> kernels{0};      // number of live kernels
  std::map<u64, Bytes> containers;  // by device: what CL_PROGRAM_BINARIES answers
  // By device and parameter: what the compiler said of the last build. On another device the
  // program may be built by another compiler, and a build that failed is not made again.
  std::map<std::pair<u64, cl_program_build_info>, Bytes> build_info;
  std::shared_ptr<struct SlicedProgram> sliced;
  bool built_for(const Device *d) const {
    return std::find(devices.begin(), devices.end(), d) != devices.end();
  }
};

// The value of a kernel's argument. It never changes, because deferred launches refer to it.
struct ArgumentValue {
  u64 number = 0;  // no other value has it
  ArgKind kind = ArgKind::Bytes;
  size_t size = 0;
  Bytes value;
  // The number of the memory object, or 0. It is not kept: the specification forbids kernels to
  // hold references to their arguments (clSetKernelArg), and a program waits for the destructor
  // callback of a buffer that it has released. Each launch keeps it until it was sent.
  u64 mem = 0;
  size_t offset = 0;   // of a pointer, in its block of shared virtual memory, which is `mem`
  int image_kind = 0;  // its type and access flags, if it is an image
  // No program can see that a sampler is kept; some release it before the launch.
  Kept<Kind::Kernel, Sampler> sampler;
};
using ArgumentList = std::vector<std::shared_ptr<const ArgumentValue>>;

struct KernelArgument {
  u32 qualifier = 0;  // CL_KERNEL_ARG_ADDRESS_…, or 0 if the driver does not report it
  std::string type;
  u64 in_proxy = 0;                           // the number of the value that the proxy has; 0: none
  std::set<std::pair<size_t, int>> accepted;  // sizes and kinds that the driver has accepted
};

struct Kernel : Object {
  static constexpr Kind kKind = Kind::Kernel;
  Kernel() : Object(kKind) {}
  Kept<kKind, Program> program;
  std::string name;
  std::vector<KernelArgument> args;
  ArgumentList values;  // of `args`, as the application has set them; null: not set
  u64 work_kind = 0;    // the same for every kernel of this program and name (window.h)
  // Held from sending the arguments to sending the launch, and while the following or
  // KernelArgument::in_proxy are used: deferred launches are sent by another thread.
  std::mutex mutex;
  // Hashes of launch shapes that the driver has accepted: such launches go one way.
  std::unordered_set<u64> accepted;
  // The maxima of all launches: work-items of a work-group, in total and in each dimension, and
  // bytes of local memory in arguments.
  u64 max_work_items = 0;
  std::array<u64, 3> max_local_size{};
  u64 max_local_bytes = 0;
  std::shared_ptr<struct SlicedKernel> sliced;
};

// The event of a command, or a user event.
struct Event : Object {
  static constexpr Kind kKind = Kind::Event;
  Event() : Object(kKind) {}
  Kept<kKind, Context> context;
  Kept<kKind, Queue> queue;
  cl_command_type type = 0;
  std::atomic<i32> status{CL_SUBMITTED};  // CL_COMPLETE or an error: finished
  // An unset user event or a deferred command: the proxy does not know this event.
  std::atomic<bool> deferred{false};
  u64 queued = 0, submitted = 0, started = 0, ended = 0;
  u64 deferred_ns = 0;  // for how long the command was deferred
  u32 busy = 0;         // Completion::busy
  // Of a command in pieces: the event of the first one.
  Kept<kKind, Event, Bond::Own> first;
  std::shared_ptr<Pulse> pulse;  // may be null
  // What the command writes to, if it is the program's own memory: that must not become private
  // before (shared_memory.h).
  std::vector<Kept<kKind, Mem>> writes;

  bool finished() const { return status.load(std::memory_order_acquire) <= CL_COMPLETE; }
  void end(i32 with) {
    if (pulse) pulse->busy = busy;
    if (pulse) pulse->done.store(true, std::memory_order_release);
    status.store(with, std::memory_order_release);
  }

  struct Callback {
    cl_int type;
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *user;
  };
  std::vector<Callback> callbacks;  // guarded by callbacks.cc

  // The staging memory of a transfer, and the destination of a read.
  u64 staging = 0;
  u64 staging_bytes = 0;
  struct Target {
    std::byte *at;
    size_t row, rows, slices;  // bytes of a row; a contiguous read is one row
    size_t row_pitch, slice_pitch;
  };
  std::optional<Target> target;
};

// Destroys an object without references, also on the proxy's side.
void destroy(Object *o);

}  // namespace ckpt::ocl
