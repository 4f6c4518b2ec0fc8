// What is told of a candidate's kernels: read from machine code, and how much of it fits.
#include "env/lanes/cuda/work.hpp"

#include "base/file.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

/// nvcc's -cubin of three_kernels.cu beside it, for sm_90a; `cuobjdump -res-usage` and ptxas -v say
/// the same numbers, ptxas without the kilobyte of shared memory that the architecture keeps.
std::string golden_code() {
  return base::read_file(test::source_dir() / "tests/golden/cubin/three_kernels.sm_90a.cubin",
                         1 << 20)
      .value();
}

}  // namespace

TEST_CASE("registers, shared and local memory are read from machine code") {
  const auto kernels = read_cubin(golden_code());
  REQUIRE_MESSAGE(kernels.has_value(), (kernels ? "" : kernels.error().message));
  const std::vector<kernel_resources> expected{
      {"plain", 10, 0, 0}, {"indexed", 12, 0, 64}, {"_Z6rotateILi256EEvPKfPfl", 12, 2048, 0}};
  CHECK(*kernels == expected);
}

TEST_CASE("whatever the bytes are, the reader ends and reads nothing beside them") {
  const std::string whole = golden_code();
  CHECK_FALSE(read_cubin("").has_value());
  CHECK_FALSE(read_cubin("not an ELF file at all, though long enough to have a header of one....")
                  .has_value());
  for (std::size_t n = 0; n < whole.size(); n += 7)
    (void)read_cubin(std::string_view(whole).substr(0, n));
  base::random_stream random(1, "cubin");
  int read = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string changed = whole;
    for (auto flips = 1 + random.below(8); flips > 0; --flips) {
      // Headers and tables more often than code.
      const bool table = random.chance(0.7);
      const std::uint64_t at =
          table ? (random.chance(0.3) ? random.below(64) : whole.size() - 1 - random.below(2000))
                : random.below(whole.size());
      changed[at] = static_cast<char>(random.below(256));
    }
    read += read_cubin(changed).has_value() ? 1 : 0;
  }
  // The control: it is not that everything is refused.
  CHECK(read > 1000);
}

TEST_CASE("blocks that fit on a multiprocessor") {
  const auto h200 = multiprocessor_of(9, 0, 227 * 1024);
  const auto fit = [&](std::int64_t registers, std::int64_t shared, std::int64_t threads,
                       std::int64_t dynamic = 0) {
    return resident_blocks(h200, {"k", registers, shared, 0}, threads, dynamic);
  };
  CHECK(fit(16, 0, 256) == 8);   // threads
  CHECK(fit(16, 0, 32) == 32);   // blocks
  CHECK(fit(128, 0, 256) == 2);  // registers
  CHECK(fit(33, 0, 1024) == 1);  // registers, in units of eight a thread
  CHECK(fit(32, 0, 1024) == 2);
  CHECK(fit(16, 49 * 1024, 128) == 4);  // shared memory
  CHECK(fit(16, 1024, 128, 227 * 1024) == 1);
  CHECK(fit(255, 0, 1024) == 0);
  CHECK(fit(16, 0, 0) == 0);
  CHECK(multiprocessor_of(8, 9, 99 * 1024).threads == 1536);
  CHECK(multiprocessor_of(7, 5, 64 * 1024).blocks == 16);
}
