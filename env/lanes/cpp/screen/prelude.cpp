// The header that stands before every candidate of lane `cpp`.
#include "env/lanes/cpp/screen/prelude.hpp"

namespace quern::env {

const std::vector<std::string>& prelude_headers() {
  static const std::vector<std::string> names {
    "algorithm", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstring", "limits", "float.h",
        "limits.h", "math.h", "stddef.h", "stdint.h", "string.h",
#if defined(__x86_64__)
        "immintrin.h"
#elif defined(__aarch64__)
        "arm_neon.h"
#endif
  };
  return names;
}

const std::string& prelude_text() {
  static const std::string text = [] {
    // libstdc++'s C++17 special functions (std::riemann_zeta and its like) are instantiated anew
    // behind every candidate: two fifths of what a compilation costs.
    std::string lines =
        "#include <cstddef>\n"
        "#undef _GLIBCXX_USE_STD_SPEC_FUNCS\n"
        "#define _GLIBCXX_USE_STD_SPEC_FUNCS 0\n";
    for (const std::string& name : prelude_headers())
      lines += "#include <" + name + ">\n";
    return lines;
  }();
  return text;
}

}  // namespace quern::env
