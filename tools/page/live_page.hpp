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

/// Thread-safe. However many ask, the files of the run are read at most once in `pause`, and by one
/// thread at a time.
class live_page {
 public:
  static constexpr base::nanoseconds_t usual_pause = 1'000'000'000;

  /// `clock` must outlive the page.
  live_page(run_view view, const base::clock& clock, base::nanoseconds_t pause = usual_pause);

  struct answer {
    std::int64_t revision = 0;
    std::shared_ptr<const std::string> json;  ///< null: nothing is new
  };
  /// All data as JSON, unless `since` is the revision that there is.
  answer data(std::optional<std::int64_t> since);

  /// The whole page, with the data of now. Error: io, where the kernel gives no random bytes.
  base::expected<std::string> html();

 private:
  void refresh_if_due();

  std::mutex guard_;
  run_view view_;
  const base::clock& clock_;
  base::nanoseconds_t pause_;
  std::optional<base::nanoseconds_t> refreshed_;  ///< when the last refresh ended
  std::int64_t written_ = -1;                     ///< revision of json_
  std::shared_ptr<const std::string> json_;
};

}  // namespace quern::tools
