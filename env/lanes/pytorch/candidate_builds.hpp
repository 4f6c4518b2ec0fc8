// The extensions of one candidate, from its text to files that its process may load.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Why no host of this device class can run a text, as far as the text shows it; empty: nothing
/// shows it.
std::string cannot_run_here(const python_facts& facts);
/// The same of extensions that it asked for.
std::string cannot_run_here(const std::vector<extension_request>& requests);

/// The extensions that the module of the file `path` asks for, learnt in a child of `zygote`; none
/// where that child ends or takes too long, which is found out when the candidate is loaded.
/// `init`: the list that get_init_inputs returns, as Python writes it. Errors: invalid_argument: a
/// request that is none; others are of this host.
base::expected<std::vector<extension_request>> recorded_extensions(python_zygote& zygote,
                                                                   const std::string& path,
                                                                   const std::string& init,
                                                                   question_limits limits);

struct candidate_extensions {
  /// Files that its process is shown: the index of its extensions, and they.
  std::vector<std::string> files;
  /// The folder of the index; empty: it asks for no extension.
  std::string folder;
  /// The last build that failed, or the last one.
  std::optional<compile_result> told;
};

/// Opens its builder when a candidate first needs it. Thread-safe.
class candidate_builds {
 public:
  /// `children` outlives it. `cache`: of artefacts; empty: a private folder.
  candidate_builds(spawner& children, std::filesystem::path cache)
      : children_(children), cache_(std::move(cache)) {}

  /// Builds what was asked for, and writes the index into `folder`, which exists. A build that the
  /// compiler refuses is an entry of the index, which the candidate may catch. Error: of this host.
  base::expected<candidate_extensions> build(const std::vector<extension_request>& requests,
                                             const std::filesystem::path& folder);
  /// Learns what a text asks for, in a process of its own, and builds it into the cache.
  base::status build_ahead(std::string_view source);

 private:
  base::expected<extension_builder*> builder();

  spawner& children_;
  std::filesystem::path cache_;
  std::mutex guard_;
  std::optional<base::temp_folder> private_cache_;
  std::unique_ptr<extension_builder> builder_;
};

}  // namespace quern::env
