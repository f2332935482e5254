// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/buffer_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/base/available_memory.h"
#include "common/base/huge_pages.h"
#include "libckpt-ocl/proxy/device/host_addresses.h"
#include "libckpt-ocl/proxy/device/real_devices.h"
#include "libckpt-ocl/proxy/device/shared_pages.h"
#include "libckpt-ocl/svm_addresses.h"

namespace ckpt::ocl {

// The pages of a file, from its beginning on.
class Pages {
 public:
  Pages(int file, size_t bytes, u64 address) : bytes_(bytes) {
    std::byte *at = nullptr;
    if (address == 0)
      at = reserve(bytes);
    else if (is_for_svm(address, bytes) && reserve_at(address, bytes))
      at = reinterpret_cast<std::byte *>(address);
    if (!at) return;
    void *p = ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    if (p == at)
      begin_ = at;
    else
      ::munmap(at, bytes);
  }
  Pages(const Pages &) = delete;
  ~Pages() {
    if (begin_) ::munmap(begin_, bytes_);
  }
  std::byte *begin() const { return begin_; }

 private:
  std::byte *begin_ = nullptr;
  size_t bytes_;
};

namespace {

template <class T>
T mem_info(cl_mem mem, cl_mem_info param) {
  T v{};
  return ::clGetMemObjectInfo(mem, param, sizeof v, &v, nullptr) == CL_SUCCESS ? v : T{};
}

bool all_devices(cl_context context, bool (*has)(cl_device_id)) {
  std::vector<cl_device_id> devices = devices_in(context);
  return !devices.empty() && std::ranges::all_of(devices, has);
}

// A file that the application could shorten would end this process at the next access (SIGBUS).
bool is_sealed(int file, u64 end) {
  struct stat st {};
  int seals = ::fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(file, &st) == 0 &&
         end <= static_cast<u64>(st.st_size);
}

void CL_CALLBACK unmap(cl_mem, void *pages) {
  delete static_cast<std::shared_ptr<const Pages> *>(pages);
}

// Page faults of the driver, one by one, would take longer than a kernel needs for the contents.
// Large buffers get huge pages, as those that drivers allocate (device/large_blocks.cc), unless
// memory is short and they may never be filled.
void allocate(std::span<std::byte> contents) {
  constexpr size_t kLarge = 4u << 20;
  if (contents.size() < kLarge)
    (void)map_pages(contents);
  else if (contents.size() < available_memory() / 4)
    (void)populate(contents);
}

// The pages are mapped as long as the driver's buffer lives, which sub-buffers, images and commands
// keep.
cl_mem buffer_over(cl_context context, cl_mem_flags flags,
                   const std::shared_ptr<const Pages> &pages, u64 offset, u64 size,
                   cl_int &status) {
  auto kept = std::make_unique<std::shared_ptr<const Pages>>(pages);
  cl_mem made = ::clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size,
                                 pages->begin() + offset, &status);
  if (status == CL_SUCCESS) status = ::clSetMemObjectDestructorCallback(made, unmap, kept.get());
  if (status == CL_SUCCESS) {
    (void)kept.release();  // unmap() frees it
    return made;
  }
  release_handle(Kind::Mem, made);
  return nullptr;
}

// A buffer without a file, of this size.
cl_mem plain_buffer(const Objects &objects, u64 number, u64 size) {
  auto mem = objects.get<cl_mem>(Kind::Mem, number);
  bool plain = mem && mem_info<cl_mem_object_type>(mem, CL_MEM_TYPE) == CL_MEM_OBJECT_BUFFER &&
               !mem_info<cl_mem>(mem, CL_MEM_ASSOCIATED_MEMOBJECT) &&
               mem_info<size_t>(mem, CL_MEM_SIZE) == size;
  return plain ? mem : nullptr;
}

// Makes the driver's buffer again, over these pages.
cl_int remake(Objects &objects, u64 number, cl_mem old, const std::shared_ptr<const Pages> &pages,
              u64 offset, u64 size) {
  cl_int status = CL_OUT_OF_RESOURCES;
  cl_mem made = buffer_over(mem_info<cl_context>(old, CL_MEM_CONTEXT),
                            mem_info<cl_mem_flags>(old, CL_MEM_FLAGS), pages, offset, size, status);
  if (!made) return status;
  objects.put(Kind::Mem, number, made);
  release_handle(Kind::Mem, old);
  return CL_SUCCESS;
}

}  // namespace

cl_int BufferFiles::share(Objects &objects, const Wanted &w, int file) {
  u64 end = 0;
  cl_mem old = plain_buffer(objects, w.number, w.size);
  if (!old) return CL_INVALID_MEM_OBJECT;
  if (file < 0 || __builtin_add_overflow(w.offset, w.size, &end) || !is_sealed(file, end) ||
      files_.contains(w.number))
    return CL_INVALID_VALUE;
  bool anywhere = w.address == 0;
  if (!all_devices(mem_info<cl_context>(old, CL_MEM_CONTEXT),
                   anywhere ? works_on_host_pages : works_at_host_addresses))
    return CL_INVALID_OPERATION;
  UniqueFd kept(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  auto pages = std::make_shared<const Pages>(file, end, w.address);
  if (kept && !pages->begin() && !anywhere) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (!kept || !pages->begin()) return CL_OUT_OF_HOST_MEMORY;
  std::span<std::byte> contents(pages->begin() + w.offset, w.size);
  if (cl_int r = remake(objects, w.number, old, pages, w.offset, w.size); r != CL_SUCCESS) return r;
  if (anywhere) allocate(contents);  // a block is larger than what the program has asked for so far
  files_[w.number] = {std::move(kept), contents, std::move(pages)};
  return CL_SUCCESS;
}

cl_int BufferFiles::share_in_block(Objects &objects, u64 number, u64 block, u64 offset, u64 size) {
  cl_mem old = plain_buffer(objects, number, size);
  std::byte *at = contents(block, offset, size);
  if (!old || !at || files_.contains(number)) return CL_INVALID_MEM_OBJECT;
  if (!all_devices(mem_info<cl_context>(old, CL_MEM_CONTEXT), works_on_host_pages))
    return CL_INVALID_OPERATION;
  const std::shared_ptr<const Pages> &pages = files_[block].pages;
  return remake(objects, number, old, pages, static_cast<u64>(at - pages->begin()), size);
}

int BufferFiles::file(u64 number) const {
  auto it = files_.find(number);
  return it == files_.end() ? -1 : it->second.fd.get();
}

std::byte *BufferFiles::contents(u64 number, u64 offset, u64 bytes) const {
  auto it = files_.find(number);
  if (it == files_.end()) return nullptr;
  const std::span<std::byte> &all = it->second.contents;
  return offset <= all.size() && bytes <= all.size() - offset ? all.data() + offset : nullptr;
}

std::span<std::byte> BufferFiles::contents_from(u64 number, u64 offset) const {
  auto it = files_.find(number);
  if (it == files_.end() || offset >= it->second.contents.size()) return {};
  return it->second.contents.subspan(offset);
}

}  // namespace ckpt::ocl
