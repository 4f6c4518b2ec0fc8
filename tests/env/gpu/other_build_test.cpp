// A CUDA part of another build is refused by all who load one in this process.
#include "base/program.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/device/part_build.hpp"
#include "env/gpu/device_context.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// Where the part that tells another build lies (CMakeLists.txt).
std::filesystem::path old_part() {
  return base::program_folder() / "libquern_old_window.so";
}

/// Whether the message names the file and both builds.
bool names_both(const base::error& refusal) {
  INFO(refusal.message);
  CHECK(refusal.code == base::errc::unavailable);
  return test::contains(refusal.message, old_part().string()) &&
         test::contains(refusal.message, "0123456789abcdef") &&
         test::contains(refusal.message, env::cuda_part_build());
}

}  // namespace

TEST_CASE("a context does not open by a part of another build") {
  const auto opened = env::device_context::open(0, old_part());
  REQUIRE_FALSE(opened.has_value());
  CHECK(names_both(opened.error()));
}

TEST_CASE("devices are not looked for by a part of another build") {
  const auto probed = env::probe_gpus_by(old_part());
  REQUIRE_FALSE(probed.has_value());
  CHECK(names_both(probed.error()));
}
