// Chooses the instruction level of the host kernels, once.
#include "policy/engine/kernels/table.hpp"

namespace quern::policy::kernels {

#define QUERN_DECLARE_LEVEL(name)              \
  namespace name {                             \
  extern const kernel_table<float> table_f32;  \
  extern const kernel_table<double> table_f64; \
  }
QUERN_DECLARE_LEVEL(baseline)
#ifdef QUERN_X86_LEVELS
QUERN_DECLARE_LEVEL(x86_64_v3)
QUERN_DECLARE_LEVEL(x86_64_v4)
#endif

namespace {

enum class level { baseline, v3, v4 };

level best_level() {
#ifdef QUERN_X86_LEVELS
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512cd");
  if (v4) return level::v4;
  if (v3) return level::v3;
#endif
  return level::baseline;
}

}  // namespace

int usable_kernels(const kernel_table<float>* (&tables)[3]) {
  int count = 0;
  tables[count++] = &baseline::table_f32;
#ifdef QUERN_X86_LEVELS
  if (best_level() >= level::v3) tables[count++] = &x86_64_v3::table_f32;
  if (best_level() >= level::v4) tables[count++] = &x86_64_v4::table_f32;
#endif
  return count;
}

template <>
const kernel_table<float>& host_kernels<float>() {
  static const level best = best_level();
#ifdef QUERN_X86_LEVELS
  if (best == level::v4) return x86_64_v4::table_f32;
  if (best == level::v3) return x86_64_v3::table_f32;
#endif
  static_cast<void>(best);
  return baseline::table_f32;
}

template <>
const kernel_table<double>& host_kernels<double>() {
  static const level best = best_level();
#ifdef QUERN_X86_LEVELS
  if (best == level::v4) return x86_64_v4::table_f64;
  if (best == level::v3) return x86_64_v3::table_f64;
#endif
  static_cast<void>(best);
  return baseline::table_f64;
}

}  // namespace quern::policy::kernels
