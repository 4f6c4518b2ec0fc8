// A core in trouble.
#include "env/core/core_care.hpp"

#include "base/log.hpp"

namespace quern::env {

void core_care::look_after(const verdict& v) {
  if (v.kind != verdict_kind::infra_error) return quarantine_.worked();
  const bool was_out = quarantine_.entry().has_value();
  quarantine_.failed(v.task, v.detail, clock_.now_ns());
  if (const auto& out = quarantine_.entry(); out && !was_out)
    base::log_error("evaluator", "core {} is in quarantine ({}): {}", core_, name_of(out->cause),
                    out->reason);
}

std::optional<device_trouble> core_care::trouble() const {
  const auto& out = quarantine_.entry();
  if (!out) return std::nullopt;
  return device_trouble{fmt::format("{}: {}", name_of(out->cause), out->reason), out->since};
}

void core_care::recover(const std::function<std::optional<std::string>()>& self_test) {
  if (!quarantine_.test_due(clock_.now_ns())) return;
  const auto problem = self_test();
  quarantine_.tested(problem, clock_.now_ns());
  if (problem) {
    base::log_warn("evaluator", "core {} stays in quarantine: {}", core_, *problem);
  } else {
    base::log_info("evaluator", "core {} passed its self-test and takes work again", core_);
  }
}

}  // namespace quern::env
