// How fast fresh content is made for timed calls, beside memcpy on the same memory.
//
//   bench_refresh [REPETITIONS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "env/tensor_task/fill.hpp"

namespace {

using namespace quern::env;

struct content {
  dtype type;
  distribution kind;
  std::int64_t below = 0;
};

void measure(const content& what, std::int64_t bytes, int repetitions) {
  tensor_layout layout;
  layout.name = "x";
  layout.type = what.type;
  layout.below = what.below;
  layout.bytes = bytes;
  layout.elements = bytes / static_cast<std::int64_t>(size_of(what.type));
  layout.shape = {layout.elements / 64, 64};
  tensor_bytes base(static_cast<std::size_t>(bytes));
  if (!fill_input(layout, what.kind, {1, 0, 0}, base)) std::abort();
  std::vector<tensor_bytes> out(4, base);
  const quern::base::steady_clock clock;
  std::int64_t fresh = INT64_MAX, copy = INT64_MAX;
  std::uint64_t call = 0;
  for (int r = 0; r < repetitions; ++r) {
    const auto start = clock.now_ns();
    for (auto& o : out)
      if (!refresh_input(layout, what.kind, {1, 0, 0}, call++, base, o)) std::abort();
    const auto between = clock.now_ns();
    for (auto& o : out) {
      std::memcpy(o.data(), base.data(), o.size());
      asm volatile("" ::"r"(o.data()) : "memory");
    }
    fresh = std::min(fresh, between - start);
    copy = std::min(copy, clock.now_ns() - between);
  }
  const auto speed = [&](std::int64_t ns) {
    return static_cast<double>(4 * bytes) / static_cast<double>(ns);
  };
  std::printf("%8lld bytes  %-5s %-9s %6.2f GB/s (memcpy %6.2f)\n", static_cast<long long>(bytes),
              std::string(name_of(what.type)).c_str(), std::string(name_of(what.kind)).c_str(),
              speed(fresh), speed(copy));
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  for (const std::int64_t bytes : {4096, 65536, 1 << 20, 8 << 20})
    for (const content& what : {content{dtype::f32, distribution::normal},
                                {dtype::f32, distribution::uniform},
                                {dtype::f32, distribution::sparse},
                                {dtype::f64, distribution::normal},
                                {dtype::bf16, distribution::normal},
                                {dtype::f16, distribution::normal},
                                {dtype::i32, distribution::uniform, 1000},
                                {dtype::i64, distribution::uniform, 1000},
                                {dtype::u8, distribution::uniform, 256},
                                {dtype::u8, distribution::sparse, 2}})
      measure(what, bytes, repetitions);
  return 0;
}
