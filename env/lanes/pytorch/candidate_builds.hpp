// The extensions of one candidate, from its text to files that its process may load.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "env/judge/recently_used.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/recording_python.hpp"
#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/sandbox/child.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Why no host of this device class can run a text, as far as the text shows it; empty: nothing
/// shows it.
std::string cannot_run_here(const python_facts& facts);
/// The same of extensions that it asked for.
std::string cannot_run_here(const std::vector<extension_request>& requests);

/// How long recorded_extensions() waits for the module and for a call of its model.
struct recording_limits {
  question_limits load;
  question_limits call;
};

/// The extensions that the module of the file `path` asks for, learnt in a child of `zygote`. There
/// are three stages: its import, the making of its model, and a call of that. The later ones are
/// gone through only where the text has calls that those before need not have made. A child that
/// ends in a stage has the requests of those before, and the rest is found out when the candidate
/// runs. `sheet`: of the task; null: the reference has none. Errors: invalid_argument: a request
/// that is none; timeout: its import took too long; others are of this host.
base::expected<std::vector<extension_request>> recorded_extensions(python_zygote& zygote,
                                                                   const std::string& path,
                                                                   const module_sheet* sheet,
                                                                   const recording_limits& limits);
/// The same in a child of `python`.
base::expected<std::vector<extension_request>> recorded_extensions(recording_python& python,
                                                                   const std::string& path,
                                                                   const module_sheet* sheet,
                                                                   const recording_limits& limits);

struct candidate_extensions {
  /// Files that its process is shown: the index of its extensions, and they.
  std::vector<std::string> files;
  /// The folder of the index; empty: its text names neither `load_inline` nor `load`.
  std::string folder;
  /// The last build that failed, or the last one.
  std::optional<compile_result> told;
};

/// What an error of recorded_extensions() says of the candidate. None: it is of this host.
std::optional<finding> finding_of_recording(const base::error& e);

/// What a module that could not be loaded is told: the compiler's first line where an extension of
/// it was refused, since the rest stands in the verdict; else `said`, what its import raised.
std::string why_not_loaded(const candidate_extensions& built, const std::string& said);

/// Opens its builder when a candidate first needs it, or ahead. Thread-safe; one thread at a time
/// calls warm_up() and wait_until_warm().
class candidate_builds {
 public:
  /// `children` outlives it. `cache`: of artefacts; empty: a private folder.
  candidate_builds(spawner& children, std::filesystem::path cache)
      : children_(children), cache_(std::move(cache)) {}

  /// Opens the builder by a thread of its own: what is linked to each extension is compiled then,
  /// once for a cache, and headers are read ahead, once for a user (headers_ahead.hpp). Later calls
  /// do nothing. Headers are left to each compiler where something was built before.
  void warm_up();
  /// Waits until that is done, or cannot be.
  void wait_until_warm();
  /// Builds what was asked for, and writes the index into `folder`, which exists; of no request an
  /// empty one, so that a later one is told as such. A build that the compiler refuses is an entry
  /// of the index, which the candidate may catch. Error: of this host.
  base::expected<candidate_extensions> build(const std::vector<extension_request>& requests,
                                             const std::filesystem::path& folder);
  /// What a candidate with a GPU asks for, as recorded_extensions() has it. What was learnt of the
  /// last ones is kept, so that who builds ahead learns it for the turn of the candidate.
  base::expected<std::vector<extension_request>> requests_of(std::string_view source,
                                                             recording_python& python,
                                                             const module_sheet* sheet,
                                                             const recording_limits& limits);
  /// Learns what a text asks for, in a process of its own, and builds it into the cache. What only
  /// a GPU can run is left out.
  base::status build_ahead(std::string_view source);
  /// The same for a host with a GPU, by a child of `python`. `sheet`: as recorded_extensions() has
  /// it, so that what is built is what is asked for when the candidate's turn has come.
  base::status build_ahead_for_gpu(std::string_view source, recording_python& python,
                                   const module_sheet* sheet, const recording_limits& limits);

 private:
  base::expected<extension_builder*> builder();

  spawner& children_;
  std::filesystem::path cache_;
  std::mutex opening_;  ///< of the three that follow; held while the builder is opened
  std::optional<base::temp_folder> private_cache_;
  std::unique_ptr<extension_builder> builder_;
  bool headers_ahead_ = false;
  std::mutex guard_;
  recently_used<std::vector<extension_request>> learnt_{64};
  std::jthread opener_;  // the last: it uses the others
};

}  // namespace quern::env
