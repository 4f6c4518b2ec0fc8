#include "tools/cli/torch_child.hpp"

#include <optional>

#include "base/program.hpp"
#include "base/subprocess.hpp"

namespace quern::tools {

base::expected<int> run_torch(const std::string& role, std::vector<std::string> words) {
  QUERN_TRY(const auto program, base::sibling_program("quern-torch"));
  words.insert(words.begin(), {program.string(), role});
  base::subprocess_spec spec;
  spec.argv = std::move(words);
  QUERN_TRY(auto child, base::subprocess::start(spec));
  constexpr base::nanoseconds_t day = 86'400'000'000'000;
  std::optional<base::exit_state> end;
  while (!(end = child.wait(day))) {
  }
  if (end->signal != 0)
    return base::fail(base::errc::unavailable, "quern-torch {} ended early: {}", role,
                      base::describe(*end));
  return end->code;
}

}  // namespace quern::tools
