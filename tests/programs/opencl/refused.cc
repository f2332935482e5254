// SPDX-License-Identifier: Apache-2.0
//
// The device refuses every fill after clEnqueueFillBuffer has returned (extra_options.cc with
// CKPT_TEST_REFUSES_FILLS). Commands that wait for its event do not run, whenever they are
// enqueued.
#include "cl_test.h"

static cl_int end_of(cl_event e) {
  cl_int status = CL_QUEUED;
  EXPECT(clWaitForEvents(1, &e) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  CL(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
  CL(clReleaseEvent(e));
  return status;
}

int main() {
  int one = 1, two = 2, three = 3;
  Cl cl;
  cl_mem from = cl.buffer(sizeof one, CL_MEM_COPY_HOST_PTR, &one),
         to = cl.buffer(sizeof two, CL_MEM_COPY_HOST_PTR, &two);
  for (int i = 0; i < 100; i++) {
    int x = -1;
    cl_event filled, copied, read;
    CL(clEnqueueFillBuffer(cl.queue, from, &three, 4, 0, 4, 0, nullptr, &filled));
    CL(clEnqueueCopyBuffer(cl.queue, from, to, 0, 0, 4, 1, &filled, &copied));
    CL(clEnqueueReadBuffer(cl.queue, from, CL_FALSE, 0, 4, &x, 1, &filled, &read));
    EXPECT(end_of(read) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && x == -1);
    EXPECT(end_of(copied) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    EXPECT(end_of(filled) == CL_MEM_OBJECT_ALLOCATION_FAILURE);
  }
  EXPECT(cl.read_ints(from, 1)[0] == 1 && cl.read_ints(to, 1)[0] == 2);
  return finish();
}
