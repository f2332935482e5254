// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace ckpt::ocl {

// A reference that keeps an object alive, as OpenCL requires between objects (a kernel keeps its
// program), apart from the application's own reference count.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T *p) : p_(p) {
    if (p_) p_->keep();
  }
  Ref(const Ref &o) : Ref(o.p_) {}
  Ref(Ref &&o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref &operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->drop();
  }

  T *get() const { return p_; }
  T *operator->() const { return p_; }
  T &operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  T *p_ = nullptr;
};

}  // namespace ckpt::ocl
