// A generator's view of the learner's files of weights (policy/weights/weight_channel.hpp): read,
// brought to its device and hashed while it goes on.
#pragma once

#include <filesystem>
#include <optional>
#include <thread>

#include "actors/defaults.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/weight_inbox.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Reads the newest version that was announced. Its file may have been replaced by the version
/// after the next meanwhile; then that one, whose announcement is on its way, is read in its place.
class weight_file_reader final : public weight_fetcher {
 public:
  struct source {
    std::filesystem::path folder;
    weights_version version = 0;  ///< that the generator begins with
    /// How long the announcement of what has replaced a file may take; beyond this the file is
    /// wrong. The generator's thread delivers it, which may first wait for its turn on the GPU.
    base::nanoseconds_t patience =
        std::chrono::nanoseconds(defaults::turn_deadline + defaults::phase_deadline).count();
    /// Of the learner's weights, and so of the files.
    at::ScalarType type = at::kFloat;
  };

  /// `share`: the GPU, where evaluators measure on it.
  weight_file_reader(source from, device_share share, news told);
  /// Waits for a read that is under way.
  ~weight_file_reader() override;

 private:
  void run();
  void fetch(const policy::parameter_arena& room);
  /// Into `room`; the hash of what lies there then.
  base::expected<base::hash128> read(const weights_ready& ready,
                                     const policy::parameter_arena& room);

  const source from_;
  device_share share_;
  const news told_;
  weights_version tried_;                          ///< the newest that was read or given up
  std::optional<policy::parameter_arena> staged_;  ///< as files are, where the room is not
  std::thread thread_;
};

}  // namespace quern::actors
