#include "env/build/instruction_level.hpp"

#include <cstdlib>
#include <string_view>

namespace quern::env {
namespace {

std::string native_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  return "sse2";
#else
  return "neon";
#endif
}

struct choice {
  std::string level = native_level();
  std::string flag = "-march=native";

  choice() {
    const char* wanted = std::getenv("QUERN_INSTRUCTION_LEVEL");
    if (wanted == nullptr) return;
    const std::string_view lower = wanted;
    if (lower == "avx2" && level == "avx512") {
      level = lower;
      flag = "-march=x86-64-v3";
    } else if (lower == "sse2" && (level == "avx512" || level == "avx2")) {
      level = lower;
      flag = "-march=x86-64";
    }
  }
};

const choice& chosen() {
  static const choice made;
  return made;
}

}  // namespace

const std::string& instruction_level() {
  return chosen().level;
}
const std::string& march_flag() {
  return chosen().flag;
}

}  // namespace quern::env
