#include "policy/collectives/nccl_api.hpp"

#include <dlfcn.h>

namespace quern::policy::nccl {
namespace {

using base::errc;
using base::fail;

constexpr const char* library_name = "libnccl.so.2";
constexpr int oldest_version = 21800;

template <class Function>
bool find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

base::expected<functions> load_once() {
  void* library = ::dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr)
    return fail(errc::unavailable,
                "{} is not loaded: NCCL comes with LibTorch's CUDA part, which is loaded where a "
                "GPU is",
                library_name);
  functions f;
  const bool all =
      find(library, "ncclGetVersion", f.get_version) &&
      find(library, "ncclGetUniqueId", f.get_unique_id) &&
      find(library, "ncclCommInitRankConfig", f.init_rank_config) &&
      find(library, "ncclCommGetAsyncError", f.async_error) &&
      find(library, "ncclCommAbort", f.abort) && find(library, "ncclCommFinalize", f.finalize) &&
      find(library, "ncclCommDestroy", f.destroy) &&
      find(library, "ncclGetErrorString", f.error_text) &&
      find(library, "ncclGetLastError", f.last_error) &&
      find(library, "ncclAllReduce", f.all_reduce) &&
      find(library, "ncclReduceScatter", f.reduce_scatter) &&
      find(library, "ncclAllGather", f.all_gather) && find(library, "ncclBroadcast", f.broadcast);
  int version = 0;
  if (!all || f.get_version(&version) != success || version < oldest_version)
    return fail(errc::unavailable, "{} is version {}, at least {} is needed", library_name, version,
                oldest_version);
  return f;
}

}  // namespace

base::expected<const functions*> load() {
  static const base::expected<functions> loaded = load_once();
  if (!loaded) return tl::make_unexpected(loaded.error());
  return &*loaded;
}

}  // namespace quern::policy::nccl
