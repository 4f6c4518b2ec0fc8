// What a reference process on a device answers: it opens the device, maps the evaluator's memory,
// compiles a script, and runs windows of calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "env/reference/captured_call.hpp"
#include "env/reference/device_call.hpp"
#include "env/reference/script.hpp"
#include "env/runner/gpu_protocol.hpp"
#include "env/runner/serve.hpp"
#include "env/runner/window_library.hpp"

namespace quern::env {

/// The state of one reference process. What LibTorch throws becomes outcome::failed with its
/// message; once the device's context is lost, every later question fails. One thread.
class device_reference {
 public:
  /// `library`: path of libquern_cuda.so. Nothing is loaded before the device is opened.
  explicit device_reference(std::string library) : library_path_(std::move(library)) {}

  /// What runner::serve_commands needs: a server of this object, and bytes of its buffer.
  runner::command_server server();
  static std::size_t longest_message();

 private:
  static std::span<const runner::command_handler> commands();
  const char* refuses(runner::command what, runner::outcome& how) const;
  runner::reply open(const runner::question& asked, const runner::gpu_open_request& r);
  runner::reply import(const runner::question& asked, const runner::gpu_import_request& r);
  runner::reply tensors(const runner::question& asked, const runner::gpu_tensors_request& r);
  runner::reply compile(const runner::question& asked, const runner::script_request& r);
  runner::reply call(const runner::question& asked, const runner::gpu_call_request& r);
  runner::reply window(const runner::question& asked);
  runner::reply deliver(const runner::question& asked);
  runner::reply drop(const runner::question& asked);

  bool capture(const quern_order& order, std::string& why, runner::cause& cause);
  bool queue_call(const quern_order& order, std::size_t number, std::string& why);
  /// Gives up what the last windows left: results, graph, what was found wrong.
  void forget_results();
  /// A question that failed; finds out whether the device can still be used.
  runner::reply failed(const runner::question& asked, const std::string& why,
                       runner::cause cause = runner::cause::unknown);

  std::string library_path_;
  runner::window_library library_;
  quern_window* window_ = nullptr;
  int device_ = 0;
  std::int64_t kept_bytes_ = 0;  ///< by LibTorch from script to script
  std::string lost_;             ///< not empty: why nothing can be done any more
  mapped_regions regions_{};
  /// Compiled before, the last used first: an evaluator goes from task to task and back.
  std::list<std::pair<std::string, script>> compiled_;
  script* script_ = nullptr;  ///< the first of them
  std::optional<runner::gpu_call_request> call_;
  captured_call graph_;
  std::vector<std::int32_t> slots_;  ///< of the last window, in order of calls
  result_check found_;               ///< under a graph: what was found while results were copied
  std::vector<tensor_view> inputs_, outputs_;
};

}  // namespace quern::env
