// The layers a sandbox is made of, and sets of them: what a host offers, what a child got.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace quern::env {

/// Closed, and only ever grows at the end: the names stand in verdicts.
enum class layer : std::uint8_t {
  userns,          ///< a user namespace of its own
  mountns,         ///< sees only the folders that the spec names
  pidns,           ///< sees no process of the host; one kill ends the whole tree
  netns,           ///< no network interface but a loopback that is down
  ipcns,           ///< no System V or POSIX queues of the host
  utsns,           ///< host name of its own
  read_only_root,  ///< everything but the work folder is read-only
  landlock,        ///< file access by an allow-list, below any namespace
  seccomp,  ///< system calls by an allow-list; sockets, tracing, mounts and new processes end it
  foreign_uid,  ///< runs as a user that owns nothing on the host
  rlimits,
  cgroup1,  ///< memory and process limits by control groups, version 1
  cgroup2   ///< the same, version 2
};

inline constexpr int layer_count = 13;

/// As in verdicts: "userns", "mountns", …
std::string_view name_of(layer which);

/// One sentence for a person who lacks this layer: what to do to have it.
std::string_view advice_for(layer which);

/// A small set; a plain value.
class layer_set {
 public:
  constexpr layer_set() = default;
  constexpr layer_set(std::initializer_list<layer> items) {
    for (layer item : items)
      add(item);
  }
  static constexpr layer_set all() { return from_bits((1U << layer_count) - 1U); }
  static constexpr layer_set from_bits(std::uint32_t bits) {
    layer_set result;
    result.bits_ = bits;
    return result;
  }

  [[nodiscard]] constexpr bool has(layer which) const { return (bits_ & bit(which)) != 0; }
  constexpr void add(layer which) { bits_ |= bit(which); }
  constexpr void remove(layer which) { bits_ &= ~bit(which); }
  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  friend constexpr bool operator==(layer_set, layer_set) = default;

  /// What both have: the layers that a verdict with several children may name.
  friend constexpr layer_set operator&(layer_set left, layer_set right) {
    return from_bits(left.bits_ & right.bits_);
  }

  /// In the order of the enumeration, as verdicts list them.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  static constexpr std::uint32_t bit(layer which) { return 1U << static_cast<unsigned>(which); }
  std::uint32_t bits_ = 0;
};

}  // namespace quern::env
