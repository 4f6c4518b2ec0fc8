// The numbers of a run while it goes: metrics.jsonl, and the same as event files of TensorBoard.
#pragma once

#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/event_file.hpp"
#include "storage/jsonl.hpp"
#include "storage/run_directory.hpp"

namespace quern::storage {

/// One writer a run; not thread-safe.
class metrics_writer {
 public:
  /// Goes on with metrics.jsonl; in RUN/tb there will be a new file.
  static base::expected<metrics_writer> open(const run_paths& paths);

  /// A line, and each of its numbers as a scalar of its step ("step"; "spent" in stage search).
  /// Error: the line could not be written. Where only scalars could not be, that is said in the
  /// log, once.
  base::status append(const base::ordered_json& line);

  /// Makes what was appended survive a power cut. Error: of metrics.jsonl.
  base::status sync();

 private:
  metrics_writer(jsonl_writer lines, event_writer events)
      : lines_(std::move(lines)), events_(std::move(events)) {}
  void tell(const base::status& of_events);

  jsonl_writer lines_;
  event_writer events_;
  bool told_ = false;
};

}  // namespace quern::storage
