// A library with NVML's names and types, as its documentation has them, that answers what a test
// has set. With FAKE_NVML_OLD it has the names of older drivers only and lacks some functions.
#include "fake_nvml.hpp"

#include <algorithm>
#include <cstring>

namespace {

using quern::test::fake_nvml_state;
using quern::test::nvml_call;

fake_nvml_state state;

int code_of(nvml_call call) {
  return state.codes[static_cast<int>(call)];
}

struct memory_info {
  unsigned long long total, free, used;
};

struct process_info {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance, compute_instance;
};

struct event_data {
  void* device;
  unsigned long long type, data;
  unsigned int gpu_instance, compute_instance;
};

template <class T>
int answer(void* device, nvml_call call, T value, T* into) {
  if (device != &state) return 2;
  if (code_of(call) == 0) *into = value;
  return code_of(call);
}

int list_processes(void* device, unsigned int* count, process_info* into) {
  if (device != &state) return 2;
  ++state.process_calls;
  if (code_of(nvml_call::processes) != 0) return code_of(nvml_call::processes);
  const unsigned int room = *count;
  *count = state.ever_more_processes ? room + 1 : state.process_count;
  if (*count > room) return 7;
  for (unsigned int i = 0; i < *count; ++i)
    into[i] = {state.processes[i].pid, state.processes[i].bytes, ~0U, ~0U};
  if (*count > 0 && into[*count - 1].pid == state.ends_once_listed) --state.process_count;
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) fake_nvml_state* quern_fake_nvml() {
  return &state;
}

int nvmlInit_v2() {
  if (code_of(nvml_call::init) == 0) ++state.opened;
  return code_of(nvml_call::init);
}

int nvmlShutdown() {
  --state.opened;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, "0000:0F:00.0") != 0) return 6;
  *device = &state;
  return code_of(nvml_call::by_bus_id);
}

int nvmlDeviceGetMemoryInfo(void* device, memory_info* into) {
  return answer(device, nvml_call::memory, {state.total, state.total - state.used, state.used},
                into);
}

int nvmlDeviceGetClockInfo(void* device, int type, unsigned int* into) {
  return answer(device, nvml_call::clock, state.clocks[type], into);
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* into) {
  if (sensor != 0) return 2;
  return answer(device, nvml_call::temperature, state.temperature_c, into);
}

#ifdef FAKE_NVML_OLD

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* into) {
  return answer<unsigned long long>(device, nvml_call::reasons, state.reasons, into);
}

int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned int* count, process_info* into) {
  return list_processes(device, count, into);
}

#else

const char* nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 6 ? "Not Found" : "some other error";
}

int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned int* into) {
  return answer(device, nvml_call::max_clock, state.max_clocks[type], into);
}

int nvmlDeviceGetPowerUsage(void* device, unsigned int* into) {
  return answer(device, nvml_call::power, state.power_mw, into);
}

int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned int* into) {
  return answer(device, nvml_call::power_limit, state.power_limit_mw, into);
}

int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* into) {
  return answer<unsigned long long>(device, nvml_call::reasons, state.reasons, into);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, process_info* into) {
  return list_processes(device, count, into);
}

int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* into) {
  if (type != 1 || counter != 0) return 2;
  return answer<unsigned long long>(device, nvml_call::ecc_errors, state.ecc_errors, into);
}

int nvmlDeviceGetRemappedRows(void* device, unsigned int* corrected, unsigned int* uncorrected,
                              unsigned int* pending, unsigned int* failed) {
  *corrected = 3;
  *uncorrected = 4;
  *failed = state.rows_failed ? 1 : 0;
  return answer(device, nvml_call::remapped_rows, state.rows_pending ? 1U : 0U, pending);
}

int nvmlEventSetCreate(void** set) {
  if (state.no_events) return 3;
  ++state.event_sets;
  *set = &state.xids;
  return 0;
}

int nvmlEventSetFree(void*) {
  --state.event_sets;
  return 0;
}

int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  return device == &state && types == 8 && set == &state.xids ? 0 : 2;
}

int nvmlEventSetWait_v2(void* set, event_data* into, unsigned int timeout_ms) {
  if (set != &state.xids || timeout_ms != 0) return 2;
  if (state.xid_count == 0) return 10;
  *into = {&state, 8, state.xids[0], 0, 0};
  std::copy(state.xids + 1, state.xids + state.xid_count, state.xids);
  --state.xid_count;
  return 0;
}

#endif
}
