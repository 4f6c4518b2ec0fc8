// What a candidate allocates on its stream stays with its process from window to window.
#include <dlfcn.h>

#include "base/program.hpp"
#include "env/gpu/device_context_fixture.hpp"
#include "env/runner/window_library.hpp"

using namespace quern;
using namespace quern::test;

namespace {

/// Of libcuda.so.1. Functions return 0 or an error number.
struct pool_driver {
  int (*allocate)(unsigned long long*, std::size_t, void*) = nullptr;
  int (*release)(unsigned long long, void*) = nullptr;
  int (*pool)(void**, int) = nullptr;
  int (*attribute)(void*, int, void*) = nullptr;

  bool open() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto get = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(library, name));
      return to != nullptr;
    };
    return get(allocate, "cuMemAllocAsync") && get(release, "cuMemFreeAsync") &&
           get(pool, "cuDeviceGetDefaultMemPool") && get(attribute, "cuMemPoolGetAttribute");
  }
};

constexpr int reserved_now = 5;  ///< CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT

}  // namespace

TEST_CASE("memory of the stream's pool stays with a runner's process between windows") {
  if (the_context() == nullptr) return;
  pool_driver driver;
  REQUIRE(driver.open());
  env::runner::window_library library;
  const std::string path = (base::program_folder() / "libquern_cuda.so").string();
  const char* missing = library.load_from(path.c_str());
  REQUIRE_MESSAGE(missing == nullptr, (missing != nullptr ? missing : ""));
  std::array<char, 400> problem{};
  quern_window* window = nullptr;
  REQUIRE_MESSAGE(library.open(the_gpu(), 1, &window, problem.data(),
                               static_cast<std::int32_t>(problem.size())) == 0,
                  problem.data());
  void* pool = nullptr;
  REQUIRE(driver.pool(&pool, the_gpu()) == 0);
  const auto reserved = [&] {
    unsigned long long bytes = 0;
    CHECK(driver.attribute(pool, reserved_now, &bytes) == 0);
    return bytes;
  };
  // The scratch of `attention`, and more than what is kept.
  constexpr std::size_t scratch = std::size_t{8} << 20, large = std::size_t{1} << 30;
  auto* const stream = reinterpret_cast<void*>(library.stream(window));
  const quern_window_settings how{0, 0};
  for (const std::size_t bytes : {scratch, large}) {
    REQUIRE(library.begin(window, &how) == 0);
    unsigned long long at = 0;
    REQUIRE(driver.allocate(&at, bytes, stream) == 0);
    REQUIRE(driver.release(at, stream) == 0);
    std::uint32_t ns = 0;
    std::int32_t count = 0;
    REQUIRE(library.end(window, &ns, 1, &count) == 0);
    CAPTURE(bytes);
    if (bytes == scratch)
      CHECK(reserved() >= scratch);
    else
      CHECK(reserved() < large);
  }
}
