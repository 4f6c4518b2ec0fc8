// How a GPU is while it is measured: clocks, power, heat, why it is throttled, and who else is on
// it. Read through NVML (libnvidia-ml), opened at run time; nothing here changes a setting.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// The driver's management library: there wherever the driver is, without CUDA.
inline constexpr std::string_view nvml_library = "libnvidia-ml.so.1";

/// One look at a device. What is empty the driver does not tell on this device, to this user, or in
/// this version.
struct device_health_sample {
  std::optional<std::uint32_t> graphics_mhz, graphics_max_mhz;
  std::optional<std::uint32_t> sm_mhz, sm_max_mhz;
  std::optional<std::uint32_t> memory_mhz, memory_max_mhz;
  std::optional<std::uint32_t> power_mw;
  std::optional<std::uint32_t> power_limit_mw;  ///< the one that is enforced
  std::optional<std::uint32_t> temperature_c;
  /// Bits as NVML has them: throttle_words says what they mean.
  std::optional<std::uint64_t> throttle_reasons;
  std::uint64_t memory_total_bytes = 0;  ///< 0: not told, nor what is used of it
  std::uint64_t memory_used_bytes = 0;   ///< by everybody, with what the driver keeps for itself

  /// Processes with a compute context, and those of them that are not ours.
  std::optional<std::uint32_t> processes, other_processes;
  /// Their memory; a process whose memory the driver does not tell counts 0.
  std::uint64_t process_bytes = 0, other_process_bytes = 0;
  /// Somebody else has a compute context here: times are not to be trusted. False also where
  /// nothing is known (`processes` is empty).
  bool host_shared = false;

  friend bool operator==(const device_health_sample&, const device_health_sample&) = default;
};

/// "gpu_idle", "sw_power_cap", ... in order of bits; a bit without a name is "bit_0x200". Empty: no
/// reason.
std::vector<std::string> throttle_words(std::uint64_t reasons);

/// Whether the clocks are held below what the load asks for: heat, power, a brake. Idling and
/// clocks that somebody chose (application clocks, display, sync boost) are not.
bool is_throttled(std::uint64_t reasons);

/// What the device reports about itself that no program can cause; empty: not told.
struct device_faults {
  std::optional<std::uint64_t> uncorrected_ecc;  ///< since the driver was loaded
  std::optional<bool>
      rows_pending;  ///< rows that a reset would replace, or that cannot be replaced
  /// Error numbers of the driver's log (XID) since the last look.
  std::vector<std::uint64_t> xids;
};

/// Whether an XID says that the device, its memory or its link is broken, rather than that a
/// program did something forbidden (13, 31, 43, 45 and their like).
bool is_hardware_xid(std::uint64_t xid);

/// The two clocks that times depend on, for looks in between.
struct device_clocks {
  std::optional<std::uint32_t> sm_mhz, memory_mhz;
};

/// One line for people and logs: "sm 1980/1980 MHz, memory 2619/2619 MHz, 301/700 W, 54 C, ...";
/// what is not known is left out.
std::string to_text(const device_health_sample& sample);

/// An open device. Movable; NVML is shut down when the last one goes, the library stays loaded.
/// Samples may be taken from any thread. Without MIG: an instance has no clocks of its own.
class device_health {
 public:
  using process_filter = std::function<bool(std::uint32_t pid)>;

  /// `bus_id` as gpu_probe and nvidia-smi write it ("0000:0F:00.0"). Takes up to a second on a
  /// machine without a persistence daemon. Errors: unavailable where the library or a function
  /// without which nothing is known is missing, or the driver refuses; not_found for no such
  /// device.
  static base::expected<device_health> open(const std::string& bus_id,
                                            const std::string& library = std::string(nvml_library));

  device_health(device_health&& other) noexcept;
  device_health& operator=(device_health&& other) noexcept;
  ~device_health();

  /// Some hundred microseconds, more for the first. `is_own`: of a process id of the namespace that
  /// NVML sees, whether it is the caller or a runner of its own; empty: none is. In a container
  /// with ids of its own that namespace is the host's or none at all: there `other_processes` says
  /// little, and 0 is no proof.
  /// Errors: io when the device is lost or has to be reset, unavailable when the driver fails.
  base::expected<device_health_sample> sample(const process_filter& is_own = {}) const;

  /// A part of sample(), in some ten microseconds. Errors as there.
  base::expected<device_clocks> clocks() const;

  /// Errors as of sample(). XIDs are told once.
  base::expected<device_faults> faults() const;

 private:
  struct functions;
  /// What never changes. The driver takes a millisecond for each.
  struct highest_clocks {
    std::optional<std::uint32_t> graphics_mhz, sm_mhz, memory_mhz;
  };

  device_health(const functions* nvml, void* device, void* events)
      : nvml_(nvml), device_(device), events_(events) {}
  void close() noexcept;

  const functions* nvml_ = nullptr;  ///< ours; null when moved from
  void* device_ = nullptr;
  highest_clocks highest_;
  void* events_ = nullptr;  ///< NVML's set of events; null: it gives none
};

}  // namespace quern::env
