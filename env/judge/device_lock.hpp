// The locks of a GPU among the processes of this host, on its device node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::env {

/// One lock of one device. Containers of one host may share the node of a device where they share
/// no folder, so all three are on it:
///
/// | use | on the node | where there is none, or it has no such locks |
/// |---|---|---|
/// | busy | flock | flock of the file "gpu-BUS_ID.busy" (host_lock.hpp) |
/// | queue | byte 1, by open file description (fcntl(2)) | "gpu-BUS_ID.queue" |
/// | quiet | byte 2, the same | "gpu-BUS_ID.quiet" |
///
/// A node has one lock by flock and one for each byte, whatever its length. Programs that know
/// `busy` alone have it by flock, too. A sandboxed process sees the node. Its filter has no lock of
/// bytes (env/sandbox/seccomp_filter.cpp) and no flock, which only the Python of torch.compile has.
/// Two objects of one process are two holders. Thread-compatible; ends with the process.
class device_lock {
 public:
  enum class use { busy, queue, quiet };
  enum class share { alone, with_others };

  /// `bus_id` as gpu_probe writes it. Error: neither node nor file can be opened.
  static base::expected<device_lock> open(const std::string& bus_id, use what);
  /// The same with the node given; empty: none.
  static base::expected<device_lock> open(const std::string& bus_id, use what,
                                          const std::filesystem::path& node);

  /// Whether it was taken: false while another has it.
  [[nodiscard]] bool try_take(share how = share::alone) const;
  /// Waits for it; whether it was taken, which is false only where it cannot be locked at all.
  bool take(share how = share::alone) const;
  /// Waits until `deadline` by `clock`.
  [[nodiscard]] bool take_before(base::nanoseconds_t deadline, const base::clock& clock) const;
  /// By word, since a child that is being cloned has the descriptor, too, until it begins its
  /// program, and with it the lock.
  void give_back() const;
  /// Whether it is on a node.
  [[nodiscard]] bool on_node() const { return on_node_; }

 private:
  device_lock(base::unique_fd file, std::int64_t byte, bool on_node)
      : file_(std::move(file)), byte_(byte), on_node_(on_node) {}
  /// `how` as flock(2) has it; 0 or -1 and errno.
  [[nodiscard]] int apply(int how) const;

  base::unique_fd file_;
  std::int64_t byte_;  ///< 0: the whole, by flock
  bool on_node_;
};

}  // namespace quern::env
