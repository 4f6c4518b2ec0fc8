#include "policy/device/kernel_pairs.hpp"

#include <cstdio>

#include <dlfcn.h>
#include <unistd.h>

namespace quern::test {
namespace {

// Before the first operator of the process, see policy/engine/device.hpp.
const bool cuda_part_loaded = ::access("/dev/nvidiactl", F_OK) == 0 &&
                              ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;

}  // namespace

bool go_on_with_kernels() {
  if (!go_on_with_gpu(cuda_part_loaded && at::hasCUDA(), "LibTorch finds no GPU")) return false;
  const auto table = policy::cuda_policy_kernels();
  return go_on_with_gpu(table.has_value(), table ? "" : table.error().message);
}

void compare(const std::string& what, double tolerance, const kernel_run& run,
             const kernel_run& wrong) {
  const auto expected = run_on_host(run);
  const double error = distance(expected, run_on_gpu(run));
  const double control = distance(expected, run_on_gpu(wrong));
  std::printf("%-58s error %.2e (up to %.0e)  control %.2e\n", what.c_str(), error, tolerance,
              control);
  std::fflush(stdout);
  CHECK_MESSAGE(error <= tolerance, what);
  CHECK_MESSAGE(control > 2 * tolerance, what);
}

void succeed(const kernel_side& side, std::int32_t code) {
  REQUIRE_MESSAGE(code == 0, side.kernels.problem(code));
}

std::string name_of(const char* kernel, at::ScalarType type, std::initializer_list<long> sizes) {
  std::string name = std::string(kernel) + (type == at::kFloat ? " f32" : " bf16");
  for (long size : sizes)
    name += " " + std::to_string(size);
  return name;
}

}  // namespace quern::test
