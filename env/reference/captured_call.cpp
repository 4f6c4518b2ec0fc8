// A reference's call as a CUDA graph.
#include "env/reference/captured_call.hpp"

#include <array>

#include <dlfcn.h>

#include "env/device/part_build.hpp"

namespace quern::env {
namespace {

template <class F>
bool find_graph_function(void* library, F& to, const char* name) {
  to = reinterpret_cast<F>(dlsym(library, name));
  return to != nullptr;
}

struct capture_context {
  const std::function<bool(std::string&)>* call;
  std::string why;
};

std::int32_t call_captured(void* context) {
  auto& c = *static_cast<capture_context*>(context);
  return (*c.call)(c.why) ? 0 : -1;
}

}  // namespace

base::status captured_call::load() {
  if (graph_ != nullptr) return {};
  const auto path = folder_ / "libquern_aten_cuda.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return base::fail(base::errc::unavailable, "no references under CUDA graphs: {}", dlerror());
  std::array<char, 512> other{};
  if (!is_of_this_build(library, aten_build_function, path.c_str(), aten_part_build(), other.data(),
                        other.size()))
    return base::fail(base::errc::unavailable, "{}", other.data());
  functions f;
  if (!find_graph_function(library, f.open, "quern_graph_open") ||
      !find_graph_function(library, f.problem, "quern_graph_problem") ||
      !find_graph_function(library, f.capture, "quern_graph_capture") ||
      !find_graph_function(library, f.replay, "quern_graph_replay") ||
      !find_graph_function(library, f.clear, "quern_graph_clear"))
    return base::fail(base::errc::unavailable, "{} is of another build", path.string());
  std::array<char, 400> problem{};
  if (f.open(device_, &graph_, problem.data(), problem.size()) != 0)
    return base::fail(base::errc::unavailable, "no references under CUDA graphs: {}",
                      problem.data());
  call_ = f;
  return {};
}

base::status captured_call::capture(const std::function<bool(std::string& why)>& call) {
  ready_ = false;
  QUERN_CHECK(load());
  capture_context context{&call, {}};
  if (call_.capture(graph_, &call_captured, &context) == 0) {
    ready_ = true;
    return {};
  }
  return base::fail(base::errc::invalid_argument, "under a CUDA graph: {}",
                    context.why.empty() ? call_.problem(graph_) : context.why);
}

bool captured_call::replay(std::string& why) {
  if (call_.replay(graph_) == 0) return true;
  why = call_.problem(graph_);
  return false;
}

void captured_call::clear() {
  // What a lost device cannot give back goes with the process.
  if (ready_) (void)call_.clear(graph_);
  ready_ = false;
}

}  // namespace quern::env
