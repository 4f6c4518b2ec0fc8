#include "actors/config/process_plan.hpp"

#include <fmt/format.h>

#include "actors/config/launch.hpp"

namespace quern::actors {

base::expected<base::subprocess_spec> started_as(const process_plan& plan, std::int32_t start) {
  base::subprocess_spec spec = plan.spec;
  if (plan.says_hello != introduction::to_nobody)
    spec.argv.insert(spec.argv.end(), {"--start", fmt::format("{}", start)});
  if (plan.host.empty()) return spec;
  auto environment = travelling_environment();
  environment.insert(environment.end(), spec.environment.begin(), spec.environment.end());
  QUERN_TRY(spec.argv, launch_command(plan.launch, plan.host, environment, spec.argv));
  spec.environment.clear();
  if (!spec.input) spec.input = "";
  return spec;
}

}  // namespace quern::actors
