#include "tools/cli/early_end.hpp"

#include <utility>

#include "base/thread.hpp"

namespace quern::tools {

base::expected<std::unique_ptr<early_end>> early_end::watch(std::function<void()> end) {
  std::unique_ptr<early_end> made(new early_end());
  QUERN_TRY(made->thread_, base::start_thread("signals while this program starts",
                                              [raw = made.get(), end = std::move(end)] {
                                                constexpr int look_ms = 20;
                                                while (!raw->over_)
                                                  if (raw->signals_.arrived(look_ms)) return end();
                                              }));
  return made;
}

early_end::~early_end() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace quern::tools
