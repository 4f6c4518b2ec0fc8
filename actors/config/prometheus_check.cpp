#include "actors/config/prometheus_check.hpp"

namespace quern::actors {
namespace {

/// That of OpenTelemetry's exporters for Prometheus.
constexpr std::uint16_t usual_prometheus_port = 9464;

}  // namespace

base::expected<base::listen_address> prometheus_address(const std::string& value) {
  auto parsed = base::parse_listen_address(value, {"127.0.0.1", usual_prometheus_port});
  if (!parsed) return base::in_context("observe.prometheus", std::move(parsed.error()));
  return parsed;
}

base::status check_prometheus(const run_config& config) {
  if (config.observe.prometheus.empty()) return {};
  QUERN_TRY(const base::listen_address address, prometheus_address(config.observe.prometheus));
  if (const auto able = base::can_listen(address); !able)
    return base::fail(
        base::errc::invalid_argument,
        "observe.prometheus is '{}': cannot listen at {} port {}: {}; name an address "
        "of this machine and a port from 1 to 65535 that nobody has, 0 for any that "
        "is free, or leave the key empty",
        config.observe.prometheus, address.host, address.port, able.error().message);
  return {};
}

}  // namespace quern::actors
