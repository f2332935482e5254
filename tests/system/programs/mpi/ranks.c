// SPDX-License-Identifier: Apache-2.0
//
// An MPI program in small steps: ranks STEPS. Each step sums a value of all ranks and makes the next
// one out of the sum, so a lost or repeated message changes all that follows. Rank 0 prints every
// tenth value, and at last "end VALUE".
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void pause_briefly() {
  struct timespec left = {0, 20000000};
  while (nanosleep(&left, &left) < 0 && errno == EINTR) {
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, steps = argc > 1 ? atoi(argv[1]) : 100;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long value = rank;
  for (int k = 0; k < steps; k++) {
    long sum;
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    value = (sum * 3 + rank + k) % 1000003;
    if (rank == 0 && k % 10 == 0) {
      printf("%d %ld\n", k, value);
      fflush(stdout);
    }
    pause_briefly();
  }
  if (rank == 0) printf("end %ld\n", value);
  MPI_Finalize();
  return 0;
}
