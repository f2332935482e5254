// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "ring/table.h"

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

// Ownership
//
// Objects that kept each other in a circle would never be destroyed, or in the middle of something
// else: when another reference of the circle is dropped. So an object keeps another one only in
// these cases:
//
//   Bond::Kind   of a kind that stands before its own in this order: device and partition, context,
//                memory object and sampler, program, kernel, queue, event.
//   Bond::Older  of its own kind, and it existed when the object was created: a sub-buffer keeps
//                its buffer.
//   Bond::Own    the library made it for this object alone, and never hands it out: a program keeps
//                its form for slices. An own object keeps no other one of its kind, and no kernel
//                but those of its program.
//
// So every reference leads downwards in one order, and there is no circle. What an object must know
// of a later one, it knows by its number (Queue::last), or both share a value that keeps nothing
// (Pulse). Members of objects have the type Kept, which does not compile in any other case.
//
// What is under way is kept by what ends it: a pending command by the link, a deferred one by
// DeferredCommands, a callback by the Notifier. These are no objects, and nothing keeps them.
enum class Bond { Kind, Older, Own };

constexpr int place_of(Kind k) {
  switch (k) {
    case Kind::Device:
    case Kind::Partition: return 1;
    case Kind::Context: return 2;
    case Kind::Mem:
    case Kind::Sampler: return 3;
    case Kind::Program: return 4;
    case Kind::Kernel: return 5;
    case Kind::Queue: return 6;
    case Kind::Event: return 7;
    case Kind::None:
    case Kind::Platform: return 0;  // never destroyed
  }
  return 0;
}

constexpr bool may_keep(Kind owner, Kind kept, Bond bond) {
  if (bond == Bond::Kind) return place_of(kept) < place_of(owner);
  if (bond == Bond::Older) return place_of(kept) == place_of(owner);
  return place_of(kept) == place_of(owner) || (owner == Kind::Program && kept == Kind::Kernel);
}

// A reference that an object of the kind `Owner` holds.
template <Kind Owner, class T, Bond kBond = Bond::Kind>
class Kept : public Ref<T> {
 public:
  Kept() = default;
  Kept(Ref<T> r) : Ref<T>(std::move(r)) {  // implicit: a member is assigned a reference
    static_assert(may_keep(Owner, T::kKind, kBond), "see the order above");
  }
};

}  // namespace ckpt::ocl
