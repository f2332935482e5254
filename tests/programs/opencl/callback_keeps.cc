// SPDX-License-Identifier: Apache-2.0
//
// An event in its callback is the last that keeps its queue and context. A test suspends the
// program meanwhile, and lets the callback return.
#define CL_TARGET_OPENCL_VERSION 300
#include <atomic>

#include "cl_test.h"

static std::atomic<bool> g_destroyed{false};
static void CL_CALLBACK destroyed(cl_context, void *) {
  std::printf("DESTROYED\n");
  std::fflush(stdout);
  g_destroyed = true;
}

static void CL_CALLBACK held(cl_event, cl_int, void *) { pause_here(); }

int main() {
  {
    Cl cl;
    cl_event e;
    CL(clSetContextDestructorCallback(cl.context, destroyed, nullptr));
    CL(clEnqueueMarkerWithWaitList(cl.queue, 0, nullptr, &e));
    CL(clSetEventCallback(e, CL_COMPLETE, held, nullptr));
    CL(clFinish(cl.queue));
    CL(clReleaseEvent(e));
    CL(clReleaseCommandQueue(cl.queue));
    CL(clReleaseContext(cl.context));
  }
  for (int i = 0; i < 6000 && !g_destroyed; i++) ::usleep(10'000);
  EXPECT(g_destroyed);
  return finish();
}
