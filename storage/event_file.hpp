// Event files as TensorBoard reads them: records of TFRecord, each with an Event of tensorflow's
// event.proto. Only what scalars need is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/status.hpp"
#include "storage/line_series.hpp"

namespace quern::storage {

/// CRC-32C (Castagnoli, RFC 3720).
std::uint32_t crc32c(std::string_view bytes);

/// The record of TFRecord that holds `payload`: its length, the payload, and the masked checksum of
/// each.
std::string tf_record(std::string_view payload);

// Events, serialised. `wall_time`: seconds since 1970.

/// The first of a file: says which format it is.
std::string version_event(double wall_time);
/// All values of steps from `step` on that earlier records have are void.
std::string restart_event(double wall_time, std::int64_t step);
/// One value for each series, rounded to float.
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const series_value> values);

/// Appends scalars to a file of its own in a folder. Readers see the files of a folder as one, in
/// order of their names, so that a run that goes on has one more. Not thread-safe.
class event_writer {
 public:
  /// Touches nothing: folder and file are made with the first values.
  explicit event_writer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// One write. A step that is not above the one before, and the first of the file, make earlier
  /// values of this and later steps void. What could not be written whole is taken back.
  base::status append(std::int64_t step, std::span<const series_value> values, double wall_time);

  /// Makes the values survive a power cut.
  base::status sync();

 private:
  base::status make_file();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  base::unique_fd file_;
  std::int64_t size_ = 0;
  std::optional<std::int64_t> last_step_;
};

}  // namespace quern::storage
