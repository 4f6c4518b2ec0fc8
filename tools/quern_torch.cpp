// quern-torch: the processes that need LibTorch. The first argument is the role.
#include <cstdio>
#include <string_view>

#include "env/reference/reference_role.hpp"

int main(int argc, char** argv) {
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (role == "reference") return quern::env::reference_main();
  std::fprintf(stderr, "quern-torch: unknown role '%s'; it is started by other programs, with one of: reference\n",
               argc > 1 ? argv[1] : "");
  return 2;
}
