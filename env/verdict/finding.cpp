// A verdict in the making.
#include "env/verdict/finding.hpp"

namespace quern::env {

finding of_plain_baseline(const finding& f) {
  const bool of_host = f.kind == verdict_kind::infra_error || f.doubtful;
  return {of_host ? verdict_kind::infra_error : verdict_kind::invalid_reference, "",
          "plain baseline: " + f.detail, std::nullopt};
}

}  // namespace quern::env
