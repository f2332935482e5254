/* SPDX-License-Identifier: Apache-2.0
 *
 * The heat equation on a plate of n × n cells, solved in explicit steps with OpenCL. Two hot spots and
 * the cold edges keep their temperatures. The program contains no code for checkpoints.
 *
 *   heat [--n 512] [--steps 2000] [--report 100] [--image plate.ppm] [--checksum]
 *
 * FP_CONTRACT is off, so that no device fuses a*b+c and all give the same result to the last bit.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kSource =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "__kernel void heat_step(__global const float *from, __global float *to, int n, float k) {\n"
    "  int x = get_global_id(0), y = get_global_id(1), i = y * n + x;\n"
    "  if (x == 0 || y == 0 || x == n - 1 || y == n - 1) { to[i] = 0.0f; return; }\n"
    "  float here = from[i];\n"
    "  float around = (from[i - 1] + from[i + 1]) + (from[i - n] + from[i + n]);\n"
    "  float next = here + k * (around - 4.0f * here);\n"
    "  int third = n / 3, r = n / 16;\n"
    "  int dx = x - third, dy = y - third, ex = x - 2 * third, ey = y - 2 * third;\n"
    "  if (dx * dx + dy * dy < r * r || ex * ex + ey * ey < r * r / 2) next = 100.0f;\n"
    "  to[i] = next;\n"
    "}\n";

static void check(cl_int status, const char *what) {
  if (status == CL_SUCCESS) return;
  fprintf(stderr, "heat: %s: OpenCL error %d\n", what, status);
  exit(1);
}

/* From cold to hot: black, red, yellow, white. */
static void colour(float t, unsigned char *rgb) {
  float v = t < 0 ? 0 : t > 100 ? 1 : t / 100;
  float r = v * 3, g = v * 3 - 1, b = v * 3 - 2;
  rgb[0] = (unsigned char)(255 * (r > 1 ? 1 : r));
  rgb[1] = (unsigned char)(255 * (g < 0 ? 0 : g > 1 ? 1 : g));
  rgb[2] = (unsigned char)(255 * (b < 0 ? 0 : b));
}

static void write_image(const char *path, const float *plate, int n) {
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(1);
  }
  fprintf(f, "P6\n%d %d\n255\n", n, n);
  for (int i = 0; i < n * n; i++) {
    unsigned char rgb[3];
    colour(plate[i], rgb);
    fwrite(rgb, 1, 3, f);
  }
  fclose(f);
}

/* FNV-1a over the bits of the result. */
static uint64_t checksum(const float *plate, size_t cells) {
  uint64_t h = 14695981039346656037u;
  const unsigned char *p = (const unsigned char *)plate;
  for (size_t i = 0; i < cells * sizeof(float); i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

struct options {
  int n, steps, report, checksum;
  const char *image;
};

static struct options parse(int argc, char **argv) {
  struct options o = {512, 2000, 100, 0, NULL};
  for (int i = 1; i < argc; i++) {
    const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(option, "--checksum")) {
      o.checksum = 1;
      continue;
    }
    i++; /* the others have a value */
    if (!strcmp(option, "--n")) o.n = atoi(value);
    else if (!strcmp(option, "--steps")) o.steps = atoi(value);
    else if (!strcmp(option, "--report")) o.report = atoi(value);
    else if (!strcmp(option, "--image")) o.image = value;
    else {
      fprintf(stderr, "usage: heat [--n N] [--steps N] [--report N] [--image FILE] [--checksum]\n");
      exit(2);
    }
  }
  if (o.n < 16 || o.steps < 0 || o.report < 1) {
    fprintf(stderr, "heat: --n must be at least 16, --report at least 1\n");
    exit(2);
  }
  return o;
}

int main(int argc, char **argv) {
  struct options o = parse(argc, argv);
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  check(clGetPlatformIDs(1, &platform, NULL), "no OpenCL platform");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "no OpenCL device");
  char name[256];
  check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "device name");
  printf("heat: %d x %d cells, %d steps on %s\n", o.n, o.n, o.steps, name);
  fflush(stdout);

  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check(status, "context");
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  check(status, "queue");
  cl_program program = clCreateProgramWithSource(context, 1, &kSource, NULL, &status);
  check(status, "program");
  check(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
  cl_kernel kernel = clCreateKernel(program, "heat_step", &status);
  check(status, "kernel");

  size_t cells = (size_t)o.n * o.n;
  float *plate = calloc(cells, sizeof *plate);
  cl_mem plates[2];
  for (int i = 0; i < 2; i++) {
    plates[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                               cells * sizeof *plate, plate, &status);
    check(status, "buffer");
  }

  float k = 0.24f;
  size_t global[2] = {(size_t)o.n, (size_t)o.n};
  check(clSetKernelArg(kernel, 2, sizeof o.n, &o.n), "argument");
  check(clSetKernelArg(kernel, 3, sizeof k, &k), "argument");
  for (int s = 1; s <= o.steps; s++) {
    check(clSetKernelArg(kernel, 0, sizeof(cl_mem), &plates[(s + 1) % 2]), "argument");
    check(clSetKernelArg(kernel, 1, sizeof(cl_mem), &plates[s % 2]), "argument");
    check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL), "launch");
    if (s % o.report == 0 || s == o.steps) {
      check(clFinish(queue), "finish");
      printf("step %d/%d\n", s, o.steps);
      fflush(stdout);
    }
  }

  check(clEnqueueReadBuffer(queue, plates[o.steps % 2], CL_TRUE, 0, cells * sizeof *plate, plate, 0,
                            NULL, NULL),
        "read");
  if (o.image) write_image(o.image, plate, o.n);
  if (o.checksum) printf("checksum 0x%016llx\n", (unsigned long long)checksum(plate, cells));
  return 0;
}
