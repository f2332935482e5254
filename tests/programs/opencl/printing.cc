// SPDX-License-Identifier: Apache-2.0
//
// What kernels print goes where descriptor 1 leads at that moment: to a file, a pipe, and after a
// restore to the same file again. It is there when the command has finished, in order with what the
// program writes, and also while the program makes no OpenCL call.
#include <fcntl.h>

#include <thread>

#include "cl_test.h"

// Standard output leads elsewhere for as long as this exists.
class Redirected {
 public:
  explicit Redirected(int fd) : before_(::dup(1)) {
    std::fflush(stdout);
    ::dup2(fd, 1);
  }
  ~Redirected() {
    std::fflush(stdout);
    ::dup2(before_, 1);
    ::close(before_);
  }

 private:
  int before_;
};

static std::string contents(int fd) {
  std::string text(1 << 16, '\0');
  ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

struct Printing : Cl {
  cl_kernel say = kernel(build("__kernel void say(int n) { printf(\"kernel %d\\n\", n); }"), "say");

  void enqueue(int n, size_t times = 1) const {
    CL(clSetKernelArg(say, 0, sizeof n, &n));
    CL(clEnqueueNDRangeKernel(queue, say, 1, nullptr, &times, nullptr, 0, nullptr, nullptr));
  }
  void print(int n, size_t times = 1) const {
    enqueue(n, times);
    CL(clFinish(queue));
  }
};

static void to_a_file(const Printing &p, int file) {
  {
    Redirected to(file);
    EXPECT(::write(1, "before\n", 7) == 7);
    p.print(42);
    EXPECT(::write(1, "after\n", 6) == 6);
  }
  EXPECT(contents(file) == "before\nkernel 42\nafter\n");
}

// The reader finds the end when the program has closed its end: nothing else holds it.
static void to_a_pipe(const Printing &p) {
  int ends[2];
  constexpr size_t kTimes = 4000;
  std::string text;
  EXPECT(::pipe(ends) == 0);
  std::thread reader([&] {
    char piece[4096];
    for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, n);
  });
  {
    Redirected to(ends[1]);
    p.print(7, kTimes);
  }
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT(text.size() == kTimes * std::strlen("kernel 7\n"));
}

// The program only looks at the file.
static void without_a_call(const Printing &p, int file) {
  EXPECT(::ftruncate(file, 0) == 0);
  Redirected to(file);
  p.enqueue(9);
  CL(clFlush(p.queue));
  for (int i = 0; i < 1000 && contents(file).empty(); i++) ::usleep(20'000);
  EXPECT(contents(file) == "kernel 9\n");
}

int main() {
  Printing p;
  int file = ::open("printed", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
  to_a_file(p, file);
  to_a_pipe(p);
  without_a_call(p, file);
  pause_here();
  EXPECT(::ftruncate(file, 0) == 0);
  to_a_file(p, file);
  to_a_pipe(p);
  p.print(1);
  return finish();
}
