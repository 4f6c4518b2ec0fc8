// The GPUs that processes of a run are given, by the numbers of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// How many GPUs this machine shows, or CUDA_VISIBLE_DEVICES lets one see of them; a container may
/// have fewer. 0: no driver tells.
std::int64_t gpus_shown();

/// Bytes of memory of this machine's GPUs, by number; none where they cannot be asked. Asked once,
/// by a child process: a driver may hang, and children of whoever has asked CUDA cannot use it.
const std::vector<std::int64_t>& gpu_memory();

/// NCCL's in-fabric reductions need a service that shared hosts may lack.
inline constexpr const char* without_nvls = "NCCL_NVLS_ENABLE=0";

/// What lets a process see one GPU of `host` alone. On this machine ("") numbers count within
/// CUDA_VISIBLE_DEVICES, if that is set. Error: it has no such GPU.
base::expected<std::string> only_gpu(std::int64_t number, const std::string& host);

/// GPUs that roles on this machine are to have, where `there` are here, numbered from 0. Error: one
/// that is not, with the key that names it.
base::status check_gpu_numbers(const run_config& config, std::int64_t there);

}  // namespace quern::actors
