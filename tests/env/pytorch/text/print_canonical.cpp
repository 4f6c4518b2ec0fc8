// Prints canonical forms of Python modules, for tools/goldens/python_identity.py --compare: reads
// paths from stdin, one a line, and answers each with a line "KIND BYTES" and so many bytes. KIND
// is tokens, layout (the form by tokens of a text that sees its layout) or bytes.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/file.hpp"
#include "env/lanes/pytorch/text/python_identity.hpp"

using namespace quern;

int main() {
  std::string path;
  while (std::getline(std::cin, path)) {
    const auto bytes = base::read_file(path);
    if (!bytes) {
      std::fprintf(stderr, "print_canonical: %s\n", bytes.error().message.c_str());
      return 1;
    }
    auto canonical = env::canonical_python(*bytes);
    const char* kind = canonical.form == env::python_form::tokens ? "tokens" : "bytes";
    if (env::python_sees_layout(*bytes)) {
      const auto cut = env::tokenize_python(*bytes);
      if (!cut.fault) {
        kind = "layout";
        canonical.text = env::python_spelling(cut);
      }
    }
    std::printf("%s %zu\n", kind, canonical.text.size());
    std::fwrite(canonical.text.data(), 1, canonical.text.size(), stdout);
    std::fflush(stdout);
  }
}
