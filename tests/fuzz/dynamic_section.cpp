// What an ELF file asks of the loader: the evaluator reads what a compiler made of a candidate.
#include "env/gpu/dynamic_section.hpp"

#include <functional>

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

/// `part` is told from the file itself: a view of its bytes, with the zero that ends it behind.
bool stands_in(std::string_view file, std::string_view part) {
  const std::less_equal<const char*> before;
  return before(file.data(), part.data()) &&
         before(part.data() + part.size() + 1, file.data() + file.size()) &&
         part.find('\0') == std::string_view::npos && part.data()[part.size()] == '\0';
}

}  // namespace

QUERN_FUZZ(text) {
  const env::dynamic_section read = env::read_dynamic_section(text);
  require(read.needed.size() <= 256, "at most 256 names are told");
  for (const std::string_view name : read.needed)
    require(!name.empty() && stands_in(text, name), "a needed name stands in the file");
  require(read.run_path.empty() || stands_in(text, read.run_path), "a run path stands in the file");
  require(read.needed.empty() || text.starts_with("\x7f"
                                                  "ELF"),
          "what is no ELF file needs nothing");
}
