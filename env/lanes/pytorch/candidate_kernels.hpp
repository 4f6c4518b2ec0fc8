// The Triton kernels of one candidate, from its text to files that its process may load.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/judge/recently_used.hpp"
#include "env/lanes/pytorch/build/triton_builder.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/lanes/pytorch/recording_python.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Kernels that built_kernels.py finds in a folder.
struct built_kernels {
  std::string index;  ///< kernels.json
  struct file {
    std::string name, bytes;
  };
  std::vector<file> files;
  /// Why not every launch was learnt; empty: all were.
  std::string left_out;
  bool refused = false;  ///< Triton refuses a kernel: the candidate's error, in `left_out`
};

/// Opens its builder when a candidate first needs it, and keeps what was built for the last ones:
/// what one thread builds ahead, others wait for. Thread-safe.
class candidate_kernels {
 public:
  /// `children` and `python` outlive it. Children of `python` learn what is launched; a process of
  /// its own does where their answer is too long for them. `cache`: of artefacts; empty: a private
  /// folder.
  candidate_kernels(spawner& children, recording_python& python, std::filesystem::path cache)
      : children_(children), python_(python), cache_(std::move(cache)) {}

  /// Learns what the text launches when its model is called as `sheet` says, and compiles it. A
  /// kernel that cannot be compiled is an entry of the index, which a tuner passes over. Error: of
  /// this host.
  base::expected<built_kernels> build(std::string_view source, const module_sheet& sheet);

 private:
  /// One candidate's kernels, built by who came first.
  struct job {
    std::mutex guard;
    std::optional<built_kernels> done;
  };
  std::shared_ptr<job> job_of(const std::string& name);
  base::expected<built_kernels> build_now(std::string_view source, const std::string& init,
                                          const std::string& inputs);
  /// What the text launches. Error: of this host.
  base::expected<triton_recording> recorded(const triton_builder& with, std::string_view source,
                                            const std::string& init, const std::string& inputs);
  base::expected<triton_builder*> builder();

  spawner& children_;
  recording_python& python_;
  std::filesystem::path cache_;
  std::mutex guard_;
  std::optional<base::temp_folder> private_cache_;
  std::unique_ptr<triton_builder> builder_;
  recently_used<std::shared_ptr<job>> jobs_{32};
};

}  // namespace quern::env
