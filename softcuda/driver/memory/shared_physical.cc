// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/memory/shared_physical.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "common/proc/file.h"
#include "softcuda/device/sealed.h"
#include "softcuda/driver/memory/vmm.h"
#include "softcuda/driver/state/strict.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr const char *kPrefix = "softcuda-";

// "/memfd:softcuda-00112233… (deleted)"; empty: not a file of this kind.
std::string uuid_of_file(int fd) {
  std::array<char, 256> link{};
  std::string path = proc::fd_path(proc::kSelf, fd);
  if (readlink(path.c_str(), link.data(), link.size() - 1) < 0) return {};
  std::string_view name(link.data());
  std::string start = fmt::format("/memfd:{}", kPrefix);
  return name.starts_with(start) ? std::string(name.substr(start.size(), 32)) : std::string();
}

std::string hex_uuid(const Device &d) {
  std::string text;
  for (char c : d.uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Memory of a device that this process does not see counts as that of its first one.
int device_with(const std::string &uuid) {
  for (auto &d : process().devices)
    if (hex_uuid(*d) == uuid) return d->index;
  return 0;
}

}  // namespace

std::string memory_file_name(int device) { return kPrefix + hex_uuid(*device_at(device)); }

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                   CUmemAllocationHandleType type,
                                                   unsigned long long flags) {
  FAIL_IF_ORDERED("cuMemExportToShareableHandle");
  CALL_INITIALISED();
  REQUIRE(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  UniqueFd fd = export_physical_memory(handle);
  REQUIRE(fd, CUDA_ERROR_INVALID_VALUE);
  *static_cast<int *>(out) = fd.release();
  return CUDA_SUCCESS;
}

// The file is sealed against another size, so that no mapping of it can fault.
SOFTCUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *given,
                                                     CUmemAllocationHandleType type) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  UniqueFd fd(fcntl(static_cast<int>(reinterpret_cast<intptr_t>(given)), F_DUPFD_CLOEXEC, 0));
  struct stat file {};
  REQUIRE(fd && fstat(fd.get(), &file) == 0 && file.st_size > 0 && is_sealed(fd.get()),
          CUDA_ERROR_INVALID_VALUE);
  std::string uuid = uuid_of_file(fd.get());
  u64 bytes = static_cast<u64>(file.st_size);
  REQUIRE(!uuid.empty() && bytes % kGranuleBytes == 0, CUDA_ERROR_INVALID_VALUE);
  return import_physical_memory(std::move(fd), bytes, device_with(uuid), out);
}
