// SPDX-License-Identifier: Apache-2.0
//
// What NVIDIA's driver was seen to do at a checkpoint with memory of other processes, with managed
// memory and with its own mappings (driver 580.159). Two processes: one exports physical memory by
// a descriptor, the other imports it. Calls the driver's checkpoint itself.
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "driver_check.h"

static constexpr size_t kBytes = 4u << 20;

static void send_descriptor(int socket, int fd) {
  char byte = 'f', space[CMSG_SPACE(sizeof fd)] = {};
  iovec data{&byte, 1};
  msghdr m{};
  m.msg_iov = &data, m.msg_iovlen = 1, m.msg_control = space, m.msg_controllen = sizeof space;
  cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  CHECK(sendmsg(socket, &m, 0) == 1);
}

static int receive_descriptor(int socket) {
  char byte, space[CMSG_SPACE(sizeof(int))] = {};
  iovec data{&byte, 1};
  msghdr m{};
  m.msg_iov = &data, m.msg_iovlen = 1, m.msg_control = space, m.msg_controllen = sizeof space;
  CHECK(recvmsg(socket, &m, 0) == 1);
  int fd;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}

static void start_driver() {
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
}

static CUmemAllocationProp properties(CUmemAllocationHandleType type) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = type;
  return prop;
}

static void map(CUdeviceptr p, CUmemGenericAllocationHandle handle) {
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemMap(p, kBytes, 0, handle, 0));
  OK(cuMemSetAccess(p, kBytes, &access, 1));
}

static unsigned word(CUdeviceptr p) {
  unsigned value = 0;
  OK(cuMemcpyDtoH(&value, p, sizeof value));
  return value;
}

static void away() {
  OK(cuCheckpointProcessLock(getpid(), nullptr));
  OK(cuCheckpointProcessCheckpoint(getpid(), nullptr));
}
static void back() {
  OK(cuCheckpointProcessRestore(getpid(), nullptr));
  OK(cuCheckpointProcessUnlock(getpid(), nullptr));
}

static CUmemGenericAllocationHandle import(int fd) {
  CUmemGenericAllocationHandle handle;
  OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void *>(static_cast<intptr_t>(fd)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  return handle;
}

// Memory that is not mapped does not matter; memory that is makes the way back fail.
static void importing_process(int socket) {
  int fd = receive_descriptor(socket);
  start_driver();
  CUdeviceptr p;
  OK(cuMemAddressReserve(&p, kBytes, 0, 0, 0));
  CUmemGenericAllocationHandle handle = import(fd);
  map(p, handle);
  CHECK(word(p) == 1234);
  OK(cuMemsetD32(p, 5678, kBytes / 4));
  OK(cuMemUnmap(p, kBytes));
  OK(cuMemRelease(handle));
  away();
  back();
  handle = import(fd);
  map(p, handle);
  CHECK(word(p) == 5678);
  away();
  CHECK(cuCheckpointProcessRestore(getpid(), nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  _exit(0);
}

static void exporting_process(int socket, pid_t other) {
  start_driver();
  CUdeviceptr p;
  CUmemGenericAllocationHandle handle, unshared;
  CUmemAllocationProp prop = properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemAllocationProp plain = properties(CU_MEM_HANDLE_TYPE_NONE);
  OK(cuMemAddressReserve(&p, kBytes, 0, 0, 0));
  OK(cuMemCreate(&handle, kBytes, &prop, 0));
  OK(cuMemCreate(&unshared, kBytes, &plain, 0));
  map(p, handle);
  OK(cuMemsetD32(p, 1234, kBytes / 4));
  OK(cuCtxSynchronize());
  int fd = -1;
  CHECK(cuMemExportToShareableHandle(&fd, unshared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  unsigned long long types = 0;
  OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
  CHECK(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  send_descriptor(socket, fd);
  close(fd);
  int status = 0;
  CHECK(waitpid(other, &status, 0) == other && status == 0);
  CHECK(word(p) == 5678);
  away();  // its own contents are kept
  back();
  CHECK(word(p) == 5678);
}

static void managed_memory() {
  CUdeviceptr p;
  OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
  OK(cuCheckpointProcessLock(getpid(), nullptr));
  CHECK(cuCheckpointProcessCheckpoint(getpid(), nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  OK(cuCheckpointProcessUnlock(getpid(), nullptr));
  OK(cuMemsetD32(p, 1, 1024));
  OK(cuMemFree(p));
}

// ---- mappings of the device

static sigjmp_buf after_fault;

static bool faults(volatile char *p) {
  if (sigsetjmp(after_fault, 1) != 0) return true;
  *p = 1;
  return false;
}

// The strict device has a file in memory in the place of /dev/nvidia*.
static std::vector<char *> device_mappings() {
  std::vector<char *> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(" rw-s ") != std::string::npos &&
        line.find("/memfd:softcuda-device") != std::string::npos)
      all.push_back(reinterpret_cast<char *>(std::stoull(line, nullptr, 16)));
  return all;
}

static void mappings_of_the_device() {
  signal(SIGSEGV, [](int) { siglongjmp(after_fault, 1); });
  std::vector<char *> all = device_mappings();
  CHECK(!all.empty());
  for (char *p : all) CHECK(!faults(p));
  away();
  for (char *p : all) CHECK(faults(p));
  back();
  for (char *p : all) CHECK(!faults(p));
  signal(SIGSEGV, SIG_DFL);
}

int main() {
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  pid_t other = fork();
  if (other == 0) importing_process(sockets[1]);
  exporting_process(sockets[0], other);
  managed_memory();
  mappings_of_the_device();
  std::puts("PASSED");
}
