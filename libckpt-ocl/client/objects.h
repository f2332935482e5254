// SPDX-License-Identifier: Apache-2.0
//
// The kinds of objects. Each holds what the application told us or may ask, so that most questions
// never cross to the proxy, and what a restore needs.
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
#include "libckpt-ocl/client/object.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/device_limits.h"
#include "libckpt-ocl/wire.h"

namespace ckpt::ocl {

struct Platform : Object {
  static constexpr Kind kKind = Kind::Platform;
  Platform() : Object(kKind) {}
  std::string name;
  cl_version shown = 0;
  std::vector<struct Device *> devices;
};

// A division of a device. Its step makes all of its sub-devices that are still alive.
struct Partition : Object {
  static constexpr Kind kKind = Kind::Partition;
  Partition() : Object(kKind) {}
  Ref<struct Device> parent;
  std::vector<cl_device_partition_property> properties;
  std::mutex mutex;          // for numbers, and for the step that names them
  std::vector<u64> numbers;  // of the sub-devices; 0: released
};

struct Device : Object {
  static constexpr Kind kKind = Kind::Device;
  Device() : Object(kKind) {}
  Platform *platform = nullptr;
  std::string name;  // as the program first saw it
  cl_device_type type = 0;
  // What stands for it now; after a restore that may be another.
  struct Real {
    std::string platform, name;
    u32 nth = 0;  // among the platform's devices of that name
    std::string uuid;
  } real;
  bool present = true;       // false: nothing stands for it since a restore
  cl_version shown = 0;      // of OpenCL, as the program first saw it; it stays so (device_info.cc)
  Ref<Partition> partition;  // of a sub-device

  bool shows_3_0() const { return shown >= CL_MAKE_VERSION(3, 0, 0); }
  Device *root() { return partition ? partition->parent->root() : this; }
  bool is_part_of(const Device *d) const {
    return this == d || (partition && partition->parent->is_part_of(d));
  }

  // The limits that the program has read, and so may rely on: the strictest value ever answered.
  std::mutex mutex;
  std::map<cl_device_info, LimitValue> relied;
  // Stamps never run backwards, across restores too: what is added to the driver's.
  u64 stamp_offset = 0;
  u64 last_stamp = 0;
  u64 stamp_floor = 0;  // last_stamp at the latest restore
};

struct Context : Object {
  static constexpr Kind kKind = Kind::Context;
  Context() : Object(kKind) {}
  std::vector<Device *> devices;
  std::vector<Ref<Device>> kept;  // the same: sub-devices live as long as their context
  std::vector<cl_context_properties> properties;
  struct Callback {
    void(CL_CALLBACK *fn)(cl_context, void *);
    void *user;
  };
  std::mutex mutex;
  std::vector<Callback> callbacks;  // of clSetContextDestructorCallback
  // Whether it has the device or a part of it.
  bool uses(const Device *d) const {
    return std::any_of(devices.begin(), devices.end(), [&](Device *x) { return x->is_part_of(d); });
  }
  bool has(const Device *d) const {
    return std::find(devices.begin(), devices.end(), d) != devices.end();
  }
};

struct Event;

struct Queue : Object {
  static constexpr Kind kKind = Kind::Queue;
  Queue() : Object(kKind) {}
  Ref<Context> context;
  Device *device = nullptr;
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> property_list;  // as given to …WithProperties
  bool in_order() const { return !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE); }

  std::mutex order;      // held while a command is sent: threads agree on what came last
  std::mutex mutex;      // guards what follows
  Ref<Event> last;       // the newest command that we shall hear of, while it is pending
  bool unheard = false;  // commands were sent after it of which we shall not hear (settle())
  // Commands that wait here for a user event (held.h), and barriers among them.
  std::atomic<u32> held{0}, held_barriers{0};
};

// Address space of the host where a mapped buffer is shown, as large as the root buffer.
struct Shadow {
  std::byte *data = nullptr;
  size_t bytes = 0;
  ~Shadow() {
    if (data) ::munmap(data, bytes);
  }
};

// A region of an image, in elements, rows and slices; the layers of an array come last.
struct ImageBox {
  std::array<size_t, 3> origin, region;
};

// What makes a memory object an image.
struct Image {
  cl_image_format format;
  cl_image_desc desc;  // without its pointer
  size_t element;      // bytes
  std::array<size_t, 3> extent;
  // Where the host has it (host_ptr, shadow): bytes from one row to the next, one slice or layer to
  // the next; slice is 0 where there is but one.
  size_t row_pitch, slice_pitch;

  // The layers of a 1D array are what the rows of other images are.
  bool layered_rows() const { return desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY; }
};

struct Sampler : Object {
  static constexpr Kind kKind = Kind::Sampler;
  Sampler() : Object(kKind) {}
  Ref<Context> context;
  cl_bool normalized = CL_TRUE;
  cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
  cl_filter_mode filter = CL_FILTER_NEAREST;
  std::vector<cl_sampler_properties> properties;  // as given to …WithProperties
};

struct Mem : Object {
  static constexpr Kind kKind = Kind::Mem;
  Mem() : Object(kKind) {}
  Ref<Context> context;
  cl_mem_flags flags = 0;
  size_t size = 0;
  std::byte *host_ptr = nullptr;
  Ref<Mem> parent;    // of a sub-buffer, or of an image that was made from a buffer
  size_t origin = 0;  // in the parent
  std::optional<Image> image;
  std::vector<cl_mem_properties> properties;  // as given to …WithProperties
  bool excluded = false;                      // ckpt_exclude(): not worth keeping
  u64 counted = 0;  // bytes of device memory that the node's Manager knows of (tenancy.h)

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
  std::vector<Callback> callbacks;  // of clSetMemObjectDestructorCallback
  Shadow shadow;                    // of a root buffer without host_ptr, once it was mapped

  // Of a root: something may have written to it since the save that the participant remembers.
  std::atomic<bool> written{true};

  Mem *root() { return parent ? parent->root() : this; }
  // A command that writes to it goes to the device.
  void will_be_written() { root()->written.store(true, std::memory_order_relaxed); }
  size_t root_offset(size_t offset) const {
    return parent ? parent->root_offset(origin + offset) : offset;
  }
};

struct Program : Object {
  static constexpr Kind kKind = Kind::Program;
  Program() : Object(kKind) {}
  Ref<Context> context;
  std::vector<Device *> devices;
  std::string source;
  bool from_binary = false;
  Bytes il;                          // of clCreateProgramWithIL
  std::vector<Ref<Program>> inputs;  // of a link
  bool is_input = false;             // a link was made of it: its past builds are still needed
  struct Header {
    Ref<Program> program;
    std::string name;
  };
  std::vector<Header> headers;         // of the last compilation
  std::vector<Container::Unit> units;  // of a container that it was made from
  std::mutex mutex;
  bool was_built = false;
  std::string options;              // of the last build, as the application gave them
  std::atomic<u32> kernels{0};      // live ones
  std::map<u64, Bytes> containers;  // by device: what CL_PROGRAM_BINARIES answers
  bool built_for(const Device *d) const {
    return std::find(devices.begin(), devices.end(), d) != devices.end();
  }
};

struct ArgumentValue {
  ArgKind kind = ArgKind::Bytes;
  size_t size = 0;
  Bytes value;
  Ref<Mem> mem;
  Ref<Sampler> sampler;
};
using ArgumentList = std::vector<ArgumentValue>;

struct KernelArgument : ArgumentValue {
  u32 qualifier = 0;  // CL_KERNEL_ARG_ADDRESS_…, or 0: the driver did not say
  std::string type;
  bool set = false;
  bool sent = false;                          // the proxy has this value
  std::set<std::pair<size_t, int>> accepted;  // sizes (and kinds) that the driver has taken before
};

struct Kernel : Object {
  static constexpr Kind kKind = Kind::Kernel;
  Kernel() : Object(kKind) {}
  Ref<Program> program;
  std::string name;
  std::vector<KernelArgument> args;
  std::mutex mutex;  // a launch and its arguments go together
  // Launches of these shapes were taken by the driver before: they go one way from now on.
  std::unordered_set<u64> accepted;
  // The largest that it was launched with: work-items of a group, the same in each dimension, bytes
  // of local memory in its arguments.
  u64 most_work_items = 0;
  std::array<u64, 3> most_local_size{};
  u64 most_local_bytes = 0;
};

// A command that somebody wants to hear of, or a user event.
struct Event : Object {
  static constexpr Kind kKind = Kind::Event;
  Event() : Object(kKind) {}
  Ref<Context> context;
  Ref<Queue> queue;
  cl_command_type type = 0;
  std::atomic<i32> status{CL_SUBMITTED};  // CL_COMPLETE or an error: it is over
  // A user event that is not set, or a command that has not been sent because of one (held.h): the
  // proxy does not know it.
  std::atomic<bool> held{false};
  u64 queued = 0, submitted = 0, started = 0, ended = 0;
  Ref<Event> first;  // of a transfer in pieces: where it began

  bool over() const { return status.load(std::memory_order_acquire) <= CL_COMPLETE; }

  struct Callback {
    cl_int type;
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *user;
  };
  std::vector<Callback> callbacks;  // guarded by notify.cc

  // A transfer's staging, and where a read's bytes go when it is over.
  u64 staging = 0;
  u64 staging_bytes = 0;
  struct Target {
    std::byte *at;
    size_t row, rows, slices;  // bytes of a row; a plain read is one row
    size_t row_pitch, slice_pitch;
  };
  std::optional<Target> target;
};

// Frees an object that nothing keeps; the proxy lets go of its own.
void destroy(Object *o);

}  // namespace ckpt::ocl
