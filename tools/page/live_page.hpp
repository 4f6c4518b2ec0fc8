// The page of a run that goes on, for many who ask.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "tools/page/run_view.hpp"

namespace quern::tools {

/// Thread-safe. However many ask, the files of the run are read by one thread at a time, at most
/// once in `pause`, and at most for a fiftieth of the time: those of a long run less often.
class live_page {
 public:
  static constexpr base::nanoseconds_t usual_pause = 1'000'000'000;
  /// How many times as long as it took to read, the next reading waits.
  static constexpr std::int64_t rest = 49;

  /// `clock` must outlive the page.
  live_page(run_view view, const base::clock& clock, base::nanoseconds_t pause = usual_pause);

  struct answer {
    std::int64_t revision = 0;
    std::shared_ptr<const std::string> json;  ///< null: nothing is new
  };
  /// All data as JSON, unless `since` is the revision that there is.
  answer data(std::optional<std::int64_t> since);

  /// The whole page, with the data of now. Error: io, where Linux gives no random bytes.
  base::expected<std::string> html();

 private:
  /// Reads what is new, where it is time, and writes json_.
  void refresh_if_due();

  const std::string title_;
  std::mutex guard_;
  run_view view_;
  const base::clock& clock_;
  base::nanoseconds_t pause_;
  base::nanoseconds_t due_ = 0;  ///< when the next refresh may begin
  std::int64_t written_ = -1;    ///< revision of json_; -1: none yet
  std::shared_ptr<const std::string> json_;
};

}  // namespace quern::tools
