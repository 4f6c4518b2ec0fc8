// How the other processes of a run reach a worker where it has connections of its own.
#pragma once

#include <memory>
#include <string>

#include "policy/collectives/rendezvous_directory.hpp"

namespace quern::actors {

struct own_address {
  std::string host = "127.0.0.1";  ///< address; the loopback where all roles are on one host
  /// Of the learner's rank 0, where rendezvous of its process are found; null: all is on one host.
  std::shared_ptr<policy::rendezvous_directory> rendezvous = nullptr;
};

}  // namespace quern::actors
