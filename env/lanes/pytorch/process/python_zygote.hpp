// The evaluator's side of zygote.py: a warm Python that forks a sandboxed child for each module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "env/lanes/pytorch/process/python_child.hpp"
#include "env/runner/warm_process.hpp"
#include "env/sandbox/child.hpp"
#include "env/sandbox/probe.hpp"

namespace quern::env {

/// How many children stand ready: as many as one measurement takes, a candidate's and its
/// reference's. A further one would save a fork only where a candidate is recorded or measured
/// again, and each holds memory while it waits.
inline constexpr int usual_children_ahead = 2;

/// What a child is started with.
struct python_start {
  int core = -1;  ///< -1: any
  std::int64_t memory_bytes = std::int64_t{8} << 30;
  std::int64_t work_bytes = std::int64_t{64} << 20;  ///< files that it may write
  std::vector<std::string> read_only;                ///< files shown beside Python's own
  /// Of which its model is made: the first that the module has.
  std::vector<std::string> classes = {"Model"};
  /// Folder of built_extensions.py, shown; empty: none was built. Of a child with a GPU: not empty
  /// where its own folder will have them.
  std::string extensions;
  /// Of a child with a GPU: whether its own folder will have Triton kernels (built_kernels.py).
  bool kernels = false;
  /// Of a child with a GPU: it may start compilers, and is shown them. Of references alone.
  bool compilers = false;
  /// Of a child with a GPU: it profiles from before it has a candidate, for
  /// python_child::evidence(). None of these stands ready, and to begin a profile takes some tenths
  /// of a second.
  bool profiled = false;
};

/// The GPU of a warm parent whose children have one.
struct python_gpu {
  gpu_access access;
  std::filesystem::path library;  ///< libquern_cuda.so
};

/// What the warm parent does beyond imports, so that no child has to. Operators on tensors without
/// memory have torch import modules for some seconds.
enum class warm_up { operators, without_memory };

/// Starts and owns the warm parent. Thread-compatible; ready_children(), in_making(), set_paused()
/// and end() may be called beside the others.
class python_zygote {
 public:
  /// Imports torch and what candidates import most, by the Python of find_module_python(): some
  /// seconds.
  static base::expected<python_zygote> start(sandbox_mode mode, warm_up how = warm_up::operators);
  /// The same, with tensors without memory, too, and with children that make a context on a GPU
  /// before they stand ready.
  static base::expected<python_zygote> start(sandbox_mode mode, const python_gpu& gpu);

  /// Python, torch and other modules with their versions, as JSON.
  [[nodiscard]] const std::string& versions() const { return parent_.hello(); }

  [[nodiscard]] int pid() const { return parent_.pid(); }

  /// No child from now on has more, whatever it is started with.
  void limit_memory(std::int64_t bytes) { most_memory_ = bytes; }

  /// A child that has no module yet, locked in: one that stands ready and has these limits, else
  /// one that is forked now. Error (unavailable): the parent or the child is gone, or its sandbox
  /// failed.
  base::expected<python_child> fork(const python_start& how);

  /// Orders that `children` stand ready from now on, with the limits of a python_start as it is by
  /// default. Those that were taken or have ended are replaced when it is called, not by
  /// themselves. Does not wait: fork() waits until they stand. They take 25 ms of a core each, so
  /// call it where nothing is timed until the next fork(). What goes wrong shows in fork().
  void prefork(int children = usual_children_ahead) { prefork({}, children, children); }
  /// The same with the limits of `how`, and nothing where `below` of them stand or are in making:
  /// contexts of several children made side by side take less than one after the other.
  void prefork(const python_start& how, int children, int below);

  /// Numbers of those that stand ready, once they do; the next to be taken first.
  base::expected<std::vector<int>> ready_children();
  /// How many of those that were ordered do not stand yet. Does not wait for them.
  base::expected<int> in_making();

  /// Stops children that do not stand yet, or lets them go on. Returns when they stand still.
  void set_paused(bool still);

  /// Ends a child, if it still runs after a moment, and tells how it ended. Of one that nobody
  /// knows any more: killed.
  child_end end(const python_child& child);

 private:
  python_zygote(warm_process parent, bool required)
      : parent_(std::move(parent)), required_(required) {}
  static base::expected<python_zygote> start(sandbox_mode mode, warm_up how, const python_gpu* gpu);
  /// What decides whether a child that stands ready is one for `how`.
  [[nodiscard]] base::json limits_of(const python_start& how) const;
  base::expected<base::json> ask(const base::json& question, base::unique_fd socket);
  base::expected<memory_file> new_sheet();

  /// Of the folders of its children; it goes last.
  std::optional<base::temp_folder> folders_;
  /// Held from a question to its answer: the parent answers in order.
  std::unique_ptr<std::mutex> asking_ = std::make_unique<std::mutex>();
  warm_process parent_;
  /// Files for answers, for children that stand ready: 4 MiB take 3 ms to be filled with zeros.
  std::vector<memory_file> sheets_;
  bool required_ = true;
  std::int64_t most_memory_ = std::numeric_limits<std::int64_t>::max();
};

/// The first of python_programs() with .venv-python, then .venv, that has all of torch; nothing is
/// imported. Error (unavailable): which were tried, and what to install.
base::expected<std::filesystem::path> find_module_python();

/// Of the Python files of this lane, as they are here. Error: they are not here.
base::expected<std::string> python_fingerprint();

}  // namespace quern::env
