// SPDX-License-Identifier: Apache-2.0
#include "manager-client/requests.h"

namespace ckpt::manager_client {

managed::ToManager Request::message(u32 ticket) const {
  if (load) return managed::to_manager::Load{ticket, bytes, exclusive};
  return managed::to_manager::CudaMalloc{ticket, bytes};
}

u32 Requests::add(const Request &request) {
  requests_.emplace(next_ticket_, request);
  return next_ticket_++;
}

Request *Requests::find(u32 ticket) {
  auto it = requests_.find(ticket);
  return it == requests_.end() ? nullptr : &it->second;
}

std::optional<Request> Requests::remove(u32 ticket) {
  auto node = requests_.extract(ticket);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

}  // namespace ckpt::manager_client
