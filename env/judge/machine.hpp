// What this machine is to a verdict: processor, best bandwidth and arithmetic of one core,
// fingerprint.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"

namespace quern::env {

/// The processor's model name as the kernel tells it; "unknown" where it does not.
std::string cpu_model();

/// Hash of everything that can change a verdict or a time on this machine: processor, kernel
/// release, and `parts` (compiler fingerprint, LibTorch version, ...). 32 hex digits.
std::string environment_fingerprint(const std::vector<std::string>& parts);

/// Bytes a second that one core reads from a buffer of `footprint` bytes that lies in whatever
/// cache it fits in, the best of several tries; about 2 ms. Larger footprints than 8 MiB are
/// measured at 8 MiB.
double measure_bandwidth(std::size_t footprint);

/// Single-precision operations a second of one core with fused multiply-add over the widest
/// registers, the best of several tries; about 2 ms.
double measure_flops();

}  // namespace quern::env
