// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/buffer_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "common/base/available_memory.h"
#include "common/base/huge_pages.h"
#include "libckpt-ocl/proxy/device/shared_pages.h"
#include "libckpt-ocl/reserve.h"

namespace ckpt::ocl {
namespace {

template <class T>
T mem_info(cl_mem mem, cl_mem_info param) {
  T v{};
  return ::clGetMemObjectInfo(mem, param, sizeof v, &v, nullptr) == CL_SUCCESS ? v : T{};
}

bool devices_share_pages(cl_context context) {
  std::array<cl_device_id, 64> devices{};
  size_t bytes = 0;
  if (::clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, devices.data(), &bytes) !=
      CL_SUCCESS)
    return false;
  return std::all_of(devices.begin(), devices.begin() + bytes / sizeof devices[0],
                     works_on_host_pages);
}

// A file that the application could shorten would end this process at the next access (SIGBUS).
bool is_sealed(int file, u64 end) {
  struct stat st {};
  int seals = ::fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(file, &st) == 0 &&
         end <= static_cast<u64>(st.st_size);
}

// The pages of a file, from its beginning on.
class Pages {
 public:
  Pages(int file, size_t bytes) : bytes_(bytes) {
    std::byte *at = reserve(bytes);
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

void CL_CALLBACK unmap(cl_mem, void *pages) { delete static_cast<Pages *>(pages); }

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
cl_mem buffer_over(cl_context context, cl_mem_flags flags, std::unique_ptr<Pages> pages, u64 offset,
                   u64 size, cl_int &status) {
  cl_mem made = ::clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size,
                                 pages->begin() + offset, &status);
  if (status == CL_SUCCESS) status = ::clSetMemObjectDestructorCallback(made, unmap, pages.get());
  if (status == CL_SUCCESS) {
    (void)pages.release();  // unmap() frees it
    return made;
  }
  release_handle(Kind::Mem, made);
  return nullptr;
}

}  // namespace

cl_int BufferFiles::share(Objects &objects, u64 number, u64 offset, u64 size, int file) {
  auto old = objects.get<cl_mem>(Kind::Mem, number);
  u64 end = 0;
  if (!old || mem_info<cl_mem_object_type>(old, CL_MEM_TYPE) != CL_MEM_OBJECT_BUFFER ||
      mem_info<cl_mem>(old, CL_MEM_ASSOCIATED_MEMOBJECT) ||
      mem_info<size_t>(old, CL_MEM_SIZE) != size)
    return CL_INVALID_MEM_OBJECT;
  if (file < 0 || __builtin_add_overflow(offset, size, &end) || !is_sealed(file, end) ||
      files_.contains(number))
    return CL_INVALID_VALUE;
  auto context = mem_info<cl_context>(old, CL_MEM_CONTEXT);
  if (!devices_share_pages(context)) return CL_INVALID_OPERATION;
  UniqueFd kept(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  auto pages = std::make_unique<Pages>(file, end);
  if (!kept || !pages->begin()) return CL_OUT_OF_HOST_MEMORY;
  std::span<std::byte> contents(pages->begin() + offset, size);
  cl_int status = CL_OUT_OF_RESOURCES;
  auto flags = mem_info<cl_mem_flags>(old, CL_MEM_FLAGS);
  cl_mem made = buffer_over(context, flags, std::move(pages), offset, size, status);
  if (!made) return status;
  objects.put(Kind::Mem, number, made);
  release_handle(Kind::Mem, old);
  allocate(contents);
  files_[number] = {std::move(kept), contents};
  return CL_SUCCESS;
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

}  // namespace ckpt::ocl
