// A reference's call as a CUDA graph: libquern_aten_cuda.so (graph_part.h) looked up and called.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/status.hpp"
#include "env/reference/graph_part.h"

namespace quern::env {

/// One graph at a time. After prepare_libtorch_on(). One thread.
class captured_call {
 public:
  /// Nothing is loaded yet. `folder`: where libquern_aten_cuda.so lies.
  captured_call() = default;
  captured_call(std::filesystem::path folder, int device)
      : folder_(std::move(folder)), device_(device) {}

  /// Runs `call` once as usual and once captured (see quern_graph_capture). `call` returns false
  /// with its own reason; the error is then that reason, or what CUDA says of the capture. Errors:
  /// unavailable where the library is missing, else invalid_argument.
  base::status capture(const std::function<bool(std::string& why)>& call);

  [[nodiscard]] bool ready() const { return ready_; }
  /// Queues the graph; false with `why` where that fails. Only when ready().
  bool replay(std::string& why);
  /// Forgets the graph. Tensors that it made must be gone before.
  void clear();

 private:
  struct functions {
    decltype(&::quern_graph_open) open = nullptr;
    decltype(&::quern_graph_problem) problem = nullptr;
    decltype(&::quern_graph_capture) capture = nullptr;
    decltype(&::quern_graph_replay) replay = nullptr;
    decltype(&::quern_graph_clear) clear = nullptr;
  };
  base::status load();

  std::filesystem::path folder_;
  int device_ = 0;
  functions call_;
  quern_graph* graph_ = nullptr;
  bool ready_ = false;
};

}  // namespace quern::env
