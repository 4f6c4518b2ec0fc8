// NVML: its few functions declared here, so that nothing needs its header.
#include "env/device/device_health.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>

#include <dlfcn.h>
#include <fmt/ranges.h>

namespace quern::env {
namespace {

using base::errc;
using base::fail;

/// nvmlReturn_t, those that are told apart.
enum nvml_code : int {
  nvml_success = 0,
  nvml_invalid_argument = 2,
  nvml_not_supported = 3,
  nvml_no_permission = 4,
  nvml_not_found = 6,
  nvml_insufficient_size = 7,
  nvml_function_not_found = 13,
  nvml_gpu_is_lost = 15,
  nvml_reset_required = 16,
};

enum nvml_clock : int { nvml_graphics = 0, nvml_sm = 1, nvml_memory_clock = 2 };

constexpr int nvml_temperature_gpu = 0;
constexpr int nvml_uncorrected = 1, nvml_volatile = 0;
constexpr unsigned long long nvml_xid_event = 0x8;

/// Of NVIDIA's catalogue: double-bit errors, a controller that stopped, rows that cannot be
/// replaced, off the bus, uncontained errors, the device's own processor.
constexpr std::array<std::uint64_t, 9> hardware_xids{48, 62, 64, 79, 95, 119, 120, 140, 143};

/// NVML_VALUE_NOT_AVAILABLE of a 64-bit field.
constexpr std::uint64_t nvml_not_available = ~0ULL;

struct throttle_bit {
  std::uint64_t bit;
  std::string_view word;
  bool slows;
};

/// nvmlClocksEventReasons (nvmlClocksThrottleReasons before driver 535), bits 0 to 8.
constexpr std::array<throttle_bit, 9> throttle_bits{{
    {0x1, "gpu_idle", false},
    {0x2, "application_clocks", false},
    {0x4, "sw_power_cap", true},
    {0x8, "hw_slowdown", true},
    {0x10, "sync_boost", false},
    {0x20, "sw_thermal_slowdown", true},
    {0x40, "hw_thermal_slowdown", true},
    {0x80, "hw_power_brake", true},
    {0x100, "display_clocks", false},
}};

template <class F>
void look_up(void* library, F& function, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (function = reinterpret_cast<F>(::dlsym(library, name)); function != nullptr) return;
}

/// "1980/1980 MHz", "1980 MHz" or nothing.
std::string of_limit(std::optional<std::uint32_t> value, std::optional<std::uint32_t> limit,
                     std::uint32_t unit, std::string_view name) {
  if (!value) return {};
  // Halves up, as 0.5 W is no less than none.
  const auto rounded = [unit](std::uint32_t v) { return (v + unit / 2) / unit; };
  if (!limit) return fmt::format("{} {}", rounded(*value), name);
  return fmt::format("{}/{} {}", rounded(*value), rounded(*limit), name);
}

}  // namespace

struct device_health::functions {
  /// nvmlMemory_t.
  struct memory_info {
    unsigned long long total, free, used;
  };

  /// nvmlProcessInfo_t of the functions _v2 and _v3. That of version 1 is shorter: where only it
  /// exists, processes are not known.
  struct process_info {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
  };

  /// nvmlEventData_t.
  struct event_data {
    void* device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
  };

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*by_bus_id)(const char*, void**) = nullptr;
  int (*memory)(void*, memory_info*) = nullptr;
  int (*clock)(void*, int, unsigned int*) = nullptr;
  int (*max_clock)(void*, int, unsigned int*) = nullptr;
  int (*power)(void*, unsigned int*) = nullptr;
  int (*power_limit)(void*, unsigned int*) = nullptr;
  int (*temperature)(void*, int, unsigned int*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*processes)(void*, unsigned int*, process_info*) = nullptr;
  int (*ecc_errors)(void*, int, int, unsigned long long*) = nullptr;
  int (*remapped_rows)(void*, unsigned int*, unsigned int*, unsigned int*, unsigned int*) = nullptr;
  int (*event_set)(void**) = nullptr;
  int (*free_event_set)(void*) = nullptr;
  int (*register_events)(void*, unsigned long long, void*) = nullptr;
  int (*wait_for_event)(void*, event_data*, unsigned int) = nullptr;

  std::string text(int code) const {
    const char* words = error_text != nullptr ? error_text(code) : nullptr;
    return words != nullptr ? words : fmt::format("NVML error {}", code);
  }

  /// Whether the call behind `code` gave a value; an error when the device or the driver failed,
  /// rather than this one question.
  base::expected<bool> gave_value(int code) const {
    if (code == nvml_success) return true;
    if (code == nvml_not_supported || code == nvml_no_permission || code == nvml_invalid_argument ||
        code == nvml_function_not_found)
      return false;
    const bool broken = code == nvml_gpu_is_lost || code == nvml_reset_required;
    return fail(broken ? errc::io : errc::unavailable, "the GPU cannot be asked how it is: {}",
                text(code));
  }

  /// Calls `function`, which an older library may not have.
  template <class... Parameters, class... Args>
  base::expected<bool> asked(int (*function)(Parameters...), Args... args) const {
    return function == nullptr ? base::expected<bool>(false) : gave_value(function(args...));
  }

  base::status sample_processes(void* device, const process_filter& is_own,
                                device_health_sample& into) const;
  [[nodiscard]] highest_clocks ask_highest(void* device) const;

  /// The set in which the driver's error numbers arrive; null where it gives none.
  [[nodiscard]] void* listen(void* device) const;
};

void* device_health::functions::listen(void* device) const {
  if (event_set == nullptr || free_event_set == nullptr || register_events == nullptr ||
      wait_for_event == nullptr)
    return nullptr;
  void* set = nullptr;
  if (event_set(&set) != nvml_success) return nullptr;
  if (register_events(device, nvml_xid_event, set) == nvml_success) return set;
  free_event_set(set);
  return nullptr;
}

base::expected<device_health> device_health::open(const std::string& bus_id,
                                                  const std::string& library) {
  // Never closed: a driver's library has threads and handlers of its own.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(errc::unavailable, "no NVML: {}", ::dlerror());
  auto nvml = std::make_unique<functions>();
  look_up(handle, nvml->init, {"nvmlInit_v2"});
  look_up(handle, nvml->shutdown, {"nvmlShutdown"});
  look_up(handle, nvml->error_text, {"nvmlErrorString"});
  look_up(handle, nvml->by_bus_id, {"nvmlDeviceGetHandleByPciBusId_v2"});
  look_up(handle, nvml->memory, {"nvmlDeviceGetMemoryInfo"});
  look_up(handle, nvml->clock, {"nvmlDeviceGetClockInfo"});
  look_up(handle, nvml->max_clock, {"nvmlDeviceGetMaxClockInfo"});
  look_up(handle, nvml->power, {"nvmlDeviceGetPowerUsage"});
  look_up(handle, nvml->power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  look_up(handle, nvml->temperature, {"nvmlDeviceGetTemperature"});
  look_up(handle, nvml->reasons,
          {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  look_up(handle, nvml->processes,
          {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  look_up(handle, nvml->ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  look_up(handle, nvml->remapped_rows, {"nvmlDeviceGetRemappedRows"});
  look_up(handle, nvml->event_set, {"nvmlEventSetCreate"});
  look_up(handle, nvml->free_event_set, {"nvmlEventSetFree"});
  look_up(handle, nvml->register_events, {"nvmlDeviceRegisterEvents"});
  look_up(handle, nvml->wait_for_event, {"nvmlEventSetWait_v2"});
  if (nvml->init == nullptr || nvml->shutdown == nullptr || nvml->by_bus_id == nullptr ||
      nvml->memory == nullptr)
    return fail(errc::unavailable,
                "{} lacks a function of NVML that is needed: the driver is too old", library);
  if (const int code = nvml->init(); code != nvml_success)
    return fail(errc::unavailable, "NVML does not start: {}", nvml->text(code));
  void* device = nullptr;
  if (const int code = nvml->by_bus_id(bus_id.c_str(), &device); code != nvml_success) {
    const std::string why = nvml->text(code);
    nvml->shutdown();
    const bool absent = code == nvml_not_found || code == nvml_invalid_argument;
    return fail(absent ? errc::not_found : errc::unavailable, "GPU {}: {}", bus_id, why);
  }
  void* events = nvml->listen(device);
  const highest_clocks highest = nvml->ask_highest(device);
  device_health opened(nvml.release(), device, events);
  opened.highest_ = highest;
  return opened;
}

device_health::highest_clocks device_health::functions::ask_highest(void* device) const {
  const auto highest = [&](int which) -> std::optional<std::uint32_t> {
    unsigned int mhz = 0;
    // A device that is lost says so to the first sample.
    if (!asked(max_clock, device, which, &mhz).value_or(false)) return std::nullopt;
    return mhz;
  };
  return {highest(nvml_graphics), highest(nvml_sm), highest(nvml_memory_clock)};
}

void device_health::close() noexcept {
  if (nvml_ == nullptr) return;
  if (events_ != nullptr) nvml_->free_event_set(events_);
  nvml_->shutdown();
  delete nvml_;
  nvml_ = nullptr;
}

device_health::device_health(device_health&& other) noexcept
    : nvml_(std::exchange(other.nvml_, nullptr)),
      device_(other.device_),
      highest_(other.highest_),
      events_(std::exchange(other.events_, nullptr)) {}

device_health& device_health::operator=(device_health&& other) noexcept {
  if (this == &other) return *this;
  close();
  nvml_ = std::exchange(other.nvml_, nullptr);
  device_ = other.device_;
  highest_ = other.highest_;
  events_ = std::exchange(other.events_, nullptr);
  return *this;
}

device_health::~device_health() {
  close();
}

base::status device_health::functions::sample_processes(void* device, const process_filter& is_own,
                                                        device_health_sample& into) const {
  if (processes == nullptr) return {};
  std::vector<process_info> found(32);
  unsigned int count = 0;
  int code = nvml_insufficient_size;
  // Processes come and go between the question for their number and that for their names.
  for (int attempt = 0; attempt < 8 && code == nvml_insufficient_size; ++attempt) {
    count = static_cast<unsigned int>(found.size());
    code = processes(device, &count, found.data());
    if (code == nvml_insufficient_size)
      found.resize(std::max<std::size_t>(count + 16, found.size() * 2));
  }
  if (code == nvml_insufficient_size) return {};
  QUERN_TRY(const bool known, gave_value(code));
  if (!known) return {};
  found.resize(std::min<std::size_t>(count, found.size()));
  std::uint32_t others = 0;
  for (const auto& process : found) {
    const std::uint64_t bytes = process.used_bytes == nvml_not_available ? 0 : process.used_bytes;
    into.process_bytes += bytes;
    if (is_own && is_own(process.pid)) continue;
    into.other_process_bytes += bytes;
    ++others;
  }
  into.processes = static_cast<std::uint32_t>(found.size());
  into.other_processes = others;
  into.host_shared = others > 0;
  return {};
}

base::expected<device_health_sample> device_health::sample(const process_filter& is_own) const {
  if (nvml_ == nullptr) return fail(errc::internal, "this device_health was moved from");
  const functions& nvml = *nvml_;
  device_health_sample result;
  const auto ask = [&](auto function, std::optional<std::uint32_t>& into,
                       auto... args) -> base::status {
    unsigned int value = 0;
    QUERN_TRY(const bool known, nvml.asked(function, device_, args..., &value));
    if (known) into = value;
    return {};
  };
  QUERN_CHECK(ask(nvml.clock, result.graphics_mhz, int{nvml_graphics}));
  QUERN_CHECK(ask(nvml.clock, result.sm_mhz, int{nvml_sm}));
  QUERN_CHECK(ask(nvml.clock, result.memory_mhz, int{nvml_memory_clock}));
  result.graphics_max_mhz = highest_.graphics_mhz;
  result.sm_max_mhz = highest_.sm_mhz;
  result.memory_max_mhz = highest_.memory_mhz;
  QUERN_CHECK(ask(nvml.power, result.power_mw));
  QUERN_CHECK(ask(nvml.power_limit, result.power_limit_mw));
  QUERN_CHECK(ask(nvml.temperature, result.temperature_c, nvml_temperature_gpu));
  unsigned long long reasons = 0;
  QUERN_TRY(const bool has_reasons, nvml.asked(nvml.reasons, device_, &reasons));
  if (has_reasons) result.throttle_reasons = reasons;
  functions::memory_info memory{};
  QUERN_TRY(const bool has_memory, nvml.asked(nvml.memory, device_, &memory));
  if (has_memory) {
    result.memory_total_bytes = memory.total;
    result.memory_used_bytes = memory.used;
  }
  QUERN_CHECK(nvml.sample_processes(device_, is_own, result));
  return result;
}

base::expected<device_clocks> device_health::clocks() const {
  if (nvml_ == nullptr) return fail(errc::internal, "this device_health was moved from");
  device_clocks result;
  unsigned int mhz = 0;
  QUERN_TRY(const bool sm, nvml_->asked(nvml_->clock, device_, int{nvml_sm}, &mhz));
  if (sm) result.sm_mhz = mhz;
  QUERN_TRY(const bool memory, nvml_->asked(nvml_->clock, device_, int{nvml_memory_clock}, &mhz));
  if (memory) result.memory_mhz = mhz;
  return result;
}

base::expected<device_faults> device_health::faults() const {
  if (nvml_ == nullptr) return fail(errc::internal, "this device_health was moved from");
  device_faults result;
  unsigned long long errors = 0;
  QUERN_TRY(const bool counted, nvml_->asked(nvml_->ecc_errors, device_, int{nvml_uncorrected},
                                             int{nvml_volatile}, &errors));
  if (counted) result.uncorrected_ecc = errors;
  unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  QUERN_TRY(const bool rows, nvml_->asked(nvml_->remapped_rows, device_, &corrected, &uncorrected,
                                          &pending, &failed));
  if (rows) result.rows_pending = pending != 0 || failed != 0;
  constexpr int most_events = 64;
  functions::event_data event{};
  for (int i = 0; events_ != nullptr && i < most_events &&
                  nvml_->wait_for_event(events_, &event, 0) == nvml_success;
       ++i)
    result.xids.push_back(event.data);
  return result;
}

bool is_hardware_xid(std::uint64_t xid) {
  return std::find(hardware_xids.begin(), hardware_xids.end(), xid) != hardware_xids.end();
}

std::vector<std::string> throttle_words(std::uint64_t reasons) {
  std::vector<std::string> words;
  for (; reasons != 0; reasons &= reasons - 1) {
    const std::uint64_t bit = reasons & (~reasons + 1);
    const auto index = static_cast<std::size_t>(std::countr_zero(bit));
    words.push_back(index < throttle_bits.size() ? std::string(throttle_bits[index].word)
                                                 : fmt::format("bit_{:#x}", bit));
  }
  return words;
}

bool is_throttled(std::uint64_t reasons) {
  return std::any_of(throttle_bits.begin(), throttle_bits.end(), [&](const throttle_bit& one) {
    return one.slows && (reasons & one.bit) != 0;
  });
}

std::string to_text(const device_health_sample& s) {
  constexpr std::uint64_t mib = 1u << 20;
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) parts.push_back(name.empty() ? text : fmt::format("{} {}", name, text));
  };
  add("graphics", of_limit(s.graphics_mhz, s.graphics_max_mhz, 1, "MHz"));
  add("sm", of_limit(s.sm_mhz, s.sm_max_mhz, 1, "MHz"));
  add("memory", of_limit(s.memory_mhz, s.memory_max_mhz, 1, "MHz"));
  add("", of_limit(s.power_mw, s.power_limit_mw, 1000, "W"));
  add("", of_limit(s.temperature_c, std::nullopt, 1, "C"));
  if (s.throttle_reasons) {
    const auto words = throttle_words(*s.throttle_reasons);
    add(is_throttled(*s.throttle_reasons) ? "THROTTLED" : "clocks",
        words.empty() ? "free" : fmt::format("{}", fmt::join(words, "+")));
  }
  if (s.memory_total_bytes > 0)
    add("", fmt::format("{}/{} MiB", s.memory_used_bytes / mib, s.memory_total_bytes / mib));
  if (s.processes)
    add("", fmt::format("{} processes with {} MiB, {} of others with {} MiB", *s.processes,
                        s.process_bytes / mib, s.other_processes.value_or(0),
                        s.other_process_bytes / mib));
  if (s.host_shared) parts.emplace_back("SHARED");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace quern::env
