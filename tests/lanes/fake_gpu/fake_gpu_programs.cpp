// Links of programs and libraries in a folder of their own.
#include "lanes/fake_gpu/fake_gpu_programs.hpp"

#include <system_error>

#include "tests/env/pytorch/gpu/fake_share.hpp"

namespace quern::test {

namespace fs = std::filesystem;

fake_gpu_programs::fake_gpu_programs(const std::string& name)
    : bus_id_(name), folder_(program_dir() / name), share_(share_with_a_fake_device()) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  const auto link = [&](const fs::path& from, const char* as) {
    fs::create_hard_link(program_dir() / from, folder_ / as);
  };
  link("with_fake_gpu/quern", "quern");
  link("quern-torch", "quern-torch");
  link("quern-runner", "quern-runner");
  link("libquern_python.so", "libquern_python.so");
  link("libquern_fake_device.so", "libquern_cuda.so");
}

fake_gpu_programs::~fake_gpu_programs() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::string> fake_gpu_programs::environment() const {
  return {"QUERN_SHARE=" + share_.path().string(), "QUERN_TEST_DEVICE=" + bus_id_};
}

}  // namespace quern::test
