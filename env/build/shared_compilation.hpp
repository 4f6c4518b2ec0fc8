// A candidate is compiled once, however many ask.
#pragma once

#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "env/build/compile_result.hpp"

namespace quern::env {

/// Lets everybody who wants the same source compiled at the same time wait for one compilation. A
/// text that does not compile is remembered, the last ones of them: whoever judges it after it was
/// compiled ahead does not wait a second time. Thread-safe.
class shared_compilation {
 public:
  /// By a compiler of any lane.
  template <class Compiler, class Request>
  base::expected<compile_result> compile(Compiler& with, const Request& request) {
    return once(with.key_of(request), [&] { return with.compile(request); });
  }
  /// The same: `make` runs for one of those who ask with the same key.
  base::expected<compile_result> once(const base::hash128& key,
                                      const std::function<base::expected<compile_result>()>& make);

 private:
  using answer = std::shared_future<base::expected<compile_result>>;
  std::mutex guard_;
  std::unordered_map<base::hash128, answer> flying_;
  std::list<std::pair<base::hash128, compile_result>> refused_;  ///< the oldest first
};

}  // namespace quern::env
