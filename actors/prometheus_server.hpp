// The numbers of a run over HTTP, for Prometheus (observe.prometheus).
#pragma once

#include <memory>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Answers GET /metrics with the newest line of metrics.jsonl, until its end. On threads of its
/// own, which read that file and nothing else: the run is never waited for, nor does it wait.
class prometheus_server {
 public:
  /// Null where observe.prometheus is empty. Errors: as of check_prometheus.
  static base::expected<std::unique_ptr<prometheus_server>> start(const run_config& config,
                                                                  const storage::run_paths& paths);
  /// Ends it, with the answers that are being written.
  ~prometheus_server();
  prometheus_server(const prometheus_server&) = delete;
  prometheus_server& operator=(const prometheus_server&) = delete;

  [[nodiscard]] int port() const;

 private:
  struct parts;
  prometheus_server();
  std::unique_ptr<parts> parts_;
};

}  // namespace quern::actors
