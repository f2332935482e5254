// SPDX-License-Identifier: Apache-2.0
//
// A small HTTP server with a "model" on an OpenCL device, for warm starts:
//
//   ckpt-run -- ./serve --port 8080 --mib 256 &           fills the device and prints "ready"
//   curl localhost:8080/predict?x=7                       {"x": 7, "y": 2841590263}
//   ckpt-dump --template -o serve.img $!                  once
//   ckpt-start serve.img -n 4 --listen 8080=9001-9004 --set NAME=blue --detach
//   curl localhost:9002/copy                              {"copy": 2, "copies": 4, "name": "blue",
//   "token": …}
//
// The answers of /predict depend on all bytes of the model, and are the same in each copy. The
// token of /copy must differ: it is made anew in each copy, because copies have the same random
// numbers.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ckpt/ckpt.h"

namespace {

constexpr size_t kWorkers = 256;

const char *kSource = R"(
uint mixed(uint v) {
  v ^= v >> 16; v *= 0x7feb352dU; v ^= v >> 15; v *= 0x846ca68bU; return v ^ v >> 16;
}
__kernel void fill(__global uint *model, uint rounds) {
  uint v = get_global_id(0);
  for (uint i = 0; i < rounds; i++) v = mixed(v + i);
  model[get_global_id(0)] = v;
}
__kernel void predict(__global const uint *model, uint count, uint x, __global uint *sums) {
  uint sum = 0;
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) sum += mixed(model[i] ^ x);
  sums[get_global_id(0)] = sum;
}
)";

[[noreturn]] void die(const char *what, int status) {
  std::fprintf(stderr, "serve: %s failed (%d)\n", what, status);
  std::exit(1);
}

void check(cl_int status, const char *what) {
  if (status != CL_SUCCESS) die(what, status);
}

class Model {
 public:
  Model(size_t bytes, cl_uint rounds) : count_(static_cast<cl_uint>(bytes / sizeof(cl_uint))) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int status = clGetPlatformIDs(1, &platform, nullptr);
    check(status, "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
    context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check(status, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, device, 0, &status);
    check(status, "clCreateCommandQueue");
    program_ = clCreateProgramWithSource(context_, 1, &kSource, nullptr, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program_, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    model_ = clCreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status);
    check(status, "clCreateBuffer");
    sums_ = clCreateBuffer(context_, CL_MEM_READ_WRITE, kWorkers * 4, nullptr, &status);
    check(status, "clCreateBuffer");
    predict_ = clCreateKernel(program_, "predict", &status);
    check(status, "clCreateKernel");
    fill(rounds);
  }

  uint32_t predict(cl_uint x) {
    check(clSetKernelArg(predict_, 0, sizeof model_, &model_), "clSetKernelArg");
    check(clSetKernelArg(predict_, 1, sizeof count_, &count_), "clSetKernelArg");
    check(clSetKernelArg(predict_, 2, sizeof x, &x), "clSetKernelArg");
    check(clSetKernelArg(predict_, 3, sizeof sums_, &sums_), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue_, predict_, 1, nullptr, &kWorkers, nullptr, 0, nullptr,
                                 nullptr),
          "clEnqueueNDRangeKernel");
    cl_uint sums[kWorkers], all = 0;
    check(clEnqueueReadBuffer(queue_, sums_, CL_TRUE, 0, sizeof sums, sums, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    for (cl_uint sum : sums) all += sum;
    return all;
  }

 private:
  // What makes the cold start slow.
  void fill(cl_uint rounds) {
    cl_int status;
    cl_kernel fill = clCreateKernel(program_, "fill", &status);
    check(status, "clCreateKernel");
    check(clSetKernelArg(fill, 0, sizeof model_, &model_), "clSetKernelArg");
    check(clSetKernelArg(fill, 1, sizeof rounds, &rounds), "clSetKernelArg");
    size_t size = count_;
    check(clEnqueueNDRangeKernel(queue_, fill, 1, nullptr, &size, nullptr, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
    check(clFinish(queue_), "clFinish");
    clReleaseKernel(fill);
  }

  cl_uint count_;
  cl_context context_;
  cl_command_queue queue_;
  cl_program program_;
  cl_mem model_, sums_;
  cl_kernel predict_;
};

std::atomic<uint64_t> g_token;

// Secrets of a copy must be its own.
void make_token() {
  uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) == sizeof token) g_token = token;
}

void after_checkpoint(void *, int outcome) {
  if (outcome == CKPT_RESTORED && ckpt_copy_info(nullptr)) make_token();
}

std::string copy_text() {
  ckpt_copy copy{};
  ckpt_copy_info(&copy);
  const char *name = ckpt_setting("NAME");
  char text[256];
  std::snprintf(text, sizeof text,
                "{\"copy\": %u, \"copies\": %u, \"name\": \"%.100s\", \"token\": \"%016llx\"}\n",
                copy.number, copy.copies, name ? name : "",
                static_cast<unsigned long long>(g_token.load()));
  return text;
}

std::string answer(Model &model, const std::string &request) {
  constexpr std::string_view kPredict = "GET /predict?x=";
  if (request.starts_with("GET /copy")) return copy_text();
  if (!request.starts_with(kPredict)) return {};
  auto x = static_cast<uint32_t>(std::strtoul(request.c_str() + kPredict.size(), nullptr, 10));
  char text[64];
  std::snprintf(text, sizeof text, "{\"x\": %u, \"y\": %u}\n", x, model.predict(x));
  return text;
}

void serve_one(Model &model, int connection) {
  char request[4096];
  ssize_t n = ::read(connection, request, sizeof request);
  std::string body = n > 0 ? answer(model, std::string(request, static_cast<size_t>(n))) : "";
  std::string all = (body.empty() ? "HTTP/1.0 404 Not Found\r\n" : "HTTP/1.0 200 OK\r\n") +
                    ("Content-Length: " + std::to_string(body.size())) + "\r\n\r\n" + body;
  for (size_t done = 0; done < all.size();) {
    ssize_t written = ::write(connection, all.data() + done, all.size() - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  ::close(connection);
}

int listen_on(int port) {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) < 0 ||
      ::listen(socket, 64) < 0)
    die("listen", errno);
  return socket;
}

int option(int argc, char **argv, const char *name, int otherwise) {
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
  return otherwise;
}

}  // namespace

int main(int argc, char **argv) {
  int port = option(argc, argv, "--port", 8080), mib = option(argc, argv, "--mib", 64);
  int rounds = option(argc, argv, "--rounds", 16);
  Model model(static_cast<size_t>(mib) << 20, static_cast<cl_uint>(rounds));
  make_token();
  ckpt_on_checkpoint(nullptr, after_checkpoint, nullptr);
  int socket = listen_on(port);
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) {
    int connection = ::accept(socket, nullptr, nullptr);
    // accept(2) fails with EINTR after each dump.
    if (connection < 0 && errno == EINTR) continue;
    if (connection < 0) die("accept", errno);
    serve_one(model, connection);
  }
}
