// What libquern_cuda.so offers, in C: the rest of Quern neither links CUDA nor sees its headers.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// One device, as the driver tells it, and whether it computes.
struct quern_gpu {
  char name[256];
  char bus_id[32];       ///< PCI address, "0000:3B:00.0"
  int32_t major, minor;  ///< compute capability
  int32_t multiprocessors;
  uint64_t memory_bytes, free_bytes;
  int32_t computes;   ///< 1: a kernel ran and its sums are right
  char problem[256];  ///< why it does not; empty where it does
};

/// Fills at most `capacity` devices and returns how many there are, or -1 with a `problem` of at
/// most `room` bytes. Any thread; makes a context on every device and leaves it.
int32_t quern_cuda_probe(struct quern_gpu* devices, int32_t capacity, char* problem, int32_t room);

/// The same without a context on any device: `free_bytes` and `computes` stay 0, and a `problem`
/// says why the driver cannot describe it.
int32_t quern_cuda_list(struct quern_gpu* devices, int32_t capacity, char* problem, int32_t room);

/// The build of this part (env/device/part_build.hpp).
const char* quern_cuda_build(void);

/// CUDA versions times 1000 (13020 is 13.2): what the driver can do and what this part was built
/// with.
void quern_cuda_versions(int32_t* driver, int32_t* built_with);

#ifdef __cplusplus
}
#endif
