// The header that stands before every candidate of lane `cpp`.
#include "env/screen/prelude.hpp"

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
    std::string lines;
    for (const std::string& name : prelude_headers())
      lines += "#include <" + name + ">\n";
    return lines;
  }();
  return text;
}

}  // namespace quern::env
