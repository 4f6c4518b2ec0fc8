// Refuses parallel sizes that the engine does not implement.
#include "policy/engine/parallel.hpp"

#include <string_view>

namespace quern::policy {
namespace {

base::status one(std::string_view name, std::int32_t size, std::int32_t rank) {
  if (size != 1)
    return base::fail(base::errc::invalid_argument,
                      "{} is {}, but this build runs models with {} of 1 only", name, size, name);
  if (rank != 0)
    return base::fail(base::errc::invalid_argument, "{}_rank is {}, but must be below {} = 1", name,
                      rank, name);
  return {};
}

}  // namespace

base::status check(const parallel_context& context) {
  if (context.dp < 1 || context.dp_rank < 0 || context.dp_rank >= context.dp)
    return base::fail(base::errc::invalid_argument, "dp_rank is {}, but must be below dp = {}",
                      context.dp_rank, context.dp);
  QUERN_CHECK(one("tp", context.tp, context.tp_rank));
  QUERN_CHECK(one("pp", context.pp, context.pp_rank));
  QUERN_CHECK(one("cp", context.cp, context.cp_rank));
  return {};
}

}  // namespace quern::policy
