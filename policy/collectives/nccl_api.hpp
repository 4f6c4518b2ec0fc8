// The part of NCCL's C interface that is used here, declared by hand, so that nothing of it is
// needed to build and to run without a GPU. The library is the one that LibTorch's CUDA part has
// loaded: a second copy in the process would be a second set of connections and threads.
#pragma once

#include <cstddef>

#include "base/status.hpp"

namespace quern::policy::nccl {

inline constexpr std::size_t unique_id_bytes = 128;
struct unique_id {
  char internal[unique_id_bytes];
};
struct comm;  // NCCL's own

enum result_code : int { success = 0, in_progress = 7 };
enum data_kind : int { int64 = 4, float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9 };
enum reduce_kind : int { sum = 0, max = 2 };

/// ncclConfig_t as of NCCL 2.18. A newer library reads `size` bytes of it and takes its own
/// defaults for what came later.
struct config {
  static constexpr int undefined_int = -2147483647 - 1;
  std::size_t size = sizeof(config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = undefined_int;
  int cga_cluster_size = undefined_int;
  int min_ctas = undefined_int;
  int max_ctas = undefined_int;
  const char* net_name = nullptr;
  int split_share = undefined_int;
};

/// `stream` is a cudaStream_t.
struct functions {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(unique_id* id) = nullptr;
  int (*init_rank_config)(comm** made, int ranks, unique_id id, int rank, config* how) = nullptr;
  int (*async_error)(comm* of, int* code) = nullptr;
  int (*abort)(comm* which) = nullptr;
  int (*finalize)(comm* which) = nullptr;
  int (*destroy)(comm* which) = nullptr;
  const char* (*error_text)(int code) = nullptr;
  const char* (*last_error)(comm* of) = nullptr;
  int (*all_reduce)(const void* in, void* out, std::size_t count, int kind, int how, comm* by,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* in, void* out, std::size_t count, int kind, int how, comm* by,
                        void* stream) = nullptr;
  int (*all_gather)(const void* in, void* out, std::size_t count, int kind, comm* by,
                    void* stream) = nullptr;
  int (*broadcast)(const void* in, void* out, std::size_t count, int kind, int root, comm* by,
                   void* stream) = nullptr;
};

/// Found once. Errors: unavailable, where the CUDA part is not loaded or NCCL is too old.
base::expected<const functions*> load();

}  // namespace quern::policy::nccl
