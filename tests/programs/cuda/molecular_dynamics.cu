// SPDX-License-Identifier: Apache-2.0
//
// Molecular dynamics of a Lennard-Jones fluid in a periodic box, in reduced units: velocity Verlet,
// forces of all pairs within a cutoff, shifted so that force and energy end there continuously.
// (Allen and Tildesley, Computer Simulation of Liquids, 2nd edition, 3.2 and 5.2.) Checks that energy
// and momentum are conserved. All sums are in a fixed order, so that the checksum of two runs is the
// same on each device that computes as IEEE 754 says.
//
//   molecular_dynamics [STEPS [CELLS [REPORT [MIB]]]]
//
// 4 × CELLS³ atoms. Prints "step N" and the energy every REPORT steps, and reads them and the positions
// from the device only then. Makes as many steps as the file "steps" says, or all. MIB: device memory that it fills
// and checks at the end besides.
#include <cstring>

#include "wanted_steps.h"

constexpr double kDensity = 0.8442, kTemperature = 1.44, kCutoff = 2.5, kTimeStep = 0.002;
constexpr int kThreads = 64;

struct Vector {
  double x, y, z;
};

struct Energies {
  double kinetic, potential;
  Vector momentum;
};

__device__ double nearest_image(double d, double box) { return d - box * rint(d / box); }

// Of a pair at the squared distance r2: -dU/dr / r, and the energy.
__device__ void pair(double r2, double &force, double &energy) {
  // Both at the cutoff, where they become 0.
  constexpr double c3 = 1 / (kCutoff * kCutoff * kCutoff), c6 = c3 * c3;
  constexpr double kEnergy = 4 * (c6 * c6 - c6), kForce = 24 * (2 * c6 * c6 - c6) / kCutoff;
  double r = sqrt(r2), i2 = 1 / r2, i6 = i2 * i2 * i2;
  force = 24 * (2 * i6 * i6 - i6) * i2 - kForce / r;
  energy = 4 * (i6 * i6 - i6) - kEnergy + (r - kCutoff) * kForce;
}

// A thread for each atom; a block goes through all atoms in parts.
__global__ void forces(const Vector *at, Vector *force, double *energy, int n, double box) {
  __shared__ Vector part[kThreads];
  int i = blockIdx.x * kThreads + threadIdx.x;
  Vector me = at[i < n ? i : 0], sum{0, 0, 0};
  double potential = 0;
  for (int begin = 0; begin < n; begin += kThreads) {
    __syncthreads();
    if (begin + threadIdx.x < n) part[threadIdx.x] = at[begin + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < kThreads && begin + k < n; k++) {
      double x = nearest_image(me.x - part[k].x, box), y = nearest_image(me.y - part[k].y, box),
             z = nearest_image(me.z - part[k].z, box), r2 = x * x + y * y + z * z;
      if (r2 >= kCutoff * kCutoff || begin + k == i) continue;
      double f, u;
      pair(r2, f, u);
      sum.x += f * x;
      sum.y += f * y;
      sum.z += f * z;
      potential += u / 2;
    }
  }
  if (i >= n) return;
  force[i] = sum;
  energy[i] = potential;
}

__global__ void kick(Vector *velocity, const Vector *force, int n) {
  int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  velocity[i].x += kTimeStep / 2 * force[i].x;
  velocity[i].y += kTimeStep / 2 * force[i].y;
  velocity[i].z += kTimeStep / 2 * force[i].z;
}

__global__ void drift(Vector *at, const Vector *velocity, int n, double box) {
  int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  auto move = [&](double &x, double v) {
    x += kTimeStep * v;
    x -= box * floor(x / box);
  };
  move(at[i].x, velocity[i].x);
  move(at[i].y, velocity[i].y);
  move(at[i].z, velocity[i].z);
}

__global__ void sum_up(const Vector *velocity, const double *potential, int n, Energies *out) {
  Energies sum{};
  for (int i = 0; i < n; i++) {
    Vector v = velocity[i];
    sum.kinetic += (v.x * v.x + v.y * v.y + v.z * v.z) / 2;
    sum.potential += potential[i];
    sum.momentum.x += v.x;
    sum.momentum.y += v.y;
    sum.momentum.z += v.z;
  }
  *out = sum;
}

// A crystal with random velocities whose sum is zero.
struct Fluid {
  std::vector<Vector> at, velocity;
  double box;

  explicit Fluid(int cells) {
    const double edge = std::cbrt(4 / kDensity);
    constexpr double kFcc[4][3] = {{0, 0, 0}, {.5, .5, 0}, {.5, 0, .5}, {0, .5, .5}};
    box = cells * edge;
    for (int i = 0; i < cells * cells * cells; i++)
      for (const double(&f)[3] : kFcc)
        at.push_back({(i % cells + f[0]) * edge, (i / cells % cells + f[1]) * edge,
                      (i / cells / cells + f[2]) * edge});
    unsigned state = 2463534242u;
    auto random = [&] {
      state ^= state << 13, state ^= state >> 17, state ^= state << 5;
      return state / 4294967296.0 - 0.5;
    };
    Vector mean{};
    for (size_t i = 0; i < at.size(); i++) {
      velocity.push_back({random(), random(), random()});
      mean.x += velocity[i].x / at.size();
      mean.y += velocity[i].y / at.size();
      mean.z += velocity[i].z / at.size();
    }
    double squares = 0;
    for (Vector &v : velocity) {
      v = {v.x - mean.x, v.y - mean.y, v.z - mean.z};
      squares += v.x * v.x + v.y * v.y + v.z * v.z;
    }
    double scale = std::sqrt(3 * kTemperature * at.size() / squares);
    for (Vector &v : velocity) v = {v.x * scale, v.y * scale, v.z * scale};
  }
};

class Device {
 public:
  explicit Device(const Fluid &f) : n_(static_cast<int>(f.at.size())), box_(f.box) {
    CUDA(cudaMalloc(&at_, n_ * sizeof *at_));
    CUDA(cudaMalloc(&velocity_, n_ * sizeof *velocity_));
    CUDA(cudaMalloc(&force_, n_ * sizeof *force_));
    CUDA(cudaMalloc(&potential_, n_ * sizeof *potential_));
    CUDA(cudaMalloc(&energies_, sizeof *energies_));
    CUDA(cudaMemcpy(at_, f.at.data(), n_ * sizeof *at_, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(velocity_, f.velocity.data(), n_ * sizeof *at_, cudaMemcpyHostToDevice));
    forces<<<blocks(), kThreads>>>(at_, force_, potential_, n_, box_);
  }
  void step() {
    kick<<<blocks(), kThreads>>>(velocity_, force_, n_);
    drift<<<blocks(), kThreads>>>(at_, velocity_, n_, box_);
    forces<<<blocks(), kThreads>>>(at_, force_, potential_, n_, box_);
    kick<<<blocks(), kThreads>>>(velocity_, force_, n_);
    CUDA(cudaGetLastError());
  }
  Energies energies() {
    Energies e;
    sum_up<<<1, 1>>>(velocity_, potential_, n_, energies_);
    CUDA(cudaMemcpy(&e, energies_, sizeof e, cudaMemcpyDeviceToHost));
    return e;
  }
  std::vector<Vector> positions() {
    std::vector<Vector> all(n_);
    CUDA(cudaMemcpy(all.data(), at_, n_ * sizeof *at_, cudaMemcpyDeviceToHost));
    return all;
  }

 private:
  unsigned blocks() const { return (n_ + kThreads - 1) / kThreads; }
  int n_;
  double box_;
  Vector *at_, *velocity_, *force_;
  double *potential_;
  Energies *energies_;
};

// Device memory that the computation does not touch.
class Ballast {
 public:
  explicit Ballast(size_t mib) : words_(mib << 18) {
    if (mib == 0) return;
    for (size_t i = 0; i < words_.size(); i++) words_[i] = static_cast<unsigned>(i * 2654435761u >> 7);
    CUDA(cudaMalloc(&p_, words_.size() * 4));
    CUDA(cudaMemcpy(p_, words_.data(), words_.size() * 4, cudaMemcpyHostToDevice));
  }
  void check() {
    std::vector<unsigned> back(words_.size());
    if (p_) CUDA(cudaMemcpy(back.data(), p_, back.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(back == words_);
  }

 private:
  std::vector<unsigned> words_;
  unsigned *p_ = nullptr;
};

static unsigned long long checksum(const std::vector<Vector> &all) {
  unsigned long long sum = 14695981039346656037u;
  for (const Vector &v : all)
    for (double d : {v.x, v.y, v.z}) {
      unsigned long long bits;
      std::memcpy(&bits, &d, sizeof bits);
      sum = (sum ^ bits) * 1099511628211u;
    }
  return sum;
}

int main(int argc, char **argv) {
  auto argument = [&](int i, int usual) { return argc > i ? std::atoi(argv[i]) : usual; };
  const int steps = argument(1, 20), report = argument(3, 5);
  const Fluid fluid(argument(2, 4));
  CHECK(fluid.box >= 2 * kCutoff && report > 0);
  Ballast ballast(argument(4, 0));
  Device device(fluid);
  const Energies first = device.energies();
  const double all = first.kinetic + first.potential, n = static_cast<double>(fluid.at.size());
  for (int s = 1; s <= steps; s++) {
    device.step();
    if (s % report != 0 && s != steps) continue;
    Energies e = device.energies();
    CHECK(std::fabs(e.kinetic + e.potential - all) < 1e-3 * n);
    CHECK(std::fabs(e.momentum.x) + std::fabs(e.momentum.y) + std::fabs(e.momentum.z) < 1e-9 * n);
    for (const Vector &v : device.positions())
      for (double d : {v.x, v.y, v.z}) CHECK(d >= 0 && d <= fluid.box);
    std::printf("step %d energy %.6f temperature %.4f\n", s, (e.kinetic + e.potential) / n,
                e.kinetic / n * 2 / 3);
    std::fflush(stdout);
    while (!may_go_on(s)) usleep(2000);
  }
  // Potential energy has become kinetic energy: the crystal has not just stood still.
  CHECK(steps < 10 || std::fabs(device.energies().kinetic - first.kinetic) > 1e-3 * n);
  ballast.check();
  std::printf("checksum %016llx\n", checksum(device.positions()));
  return passed();
}
