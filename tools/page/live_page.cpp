#include "tools/page/live_page.hpp"

#include <utility>

#include "tools/page/page.hpp"

namespace quern::tools {

live_page::live_page(run_view view, const base::clock& clock, base::nanoseconds_t pause)
    : view_(std::move(view)), clock_(clock), pause_(pause) {}

void live_page::refresh_if_due() {
  // From the end of a refresh: a large run is read no larger share of the time than a small one.
  if (refreshed_ && clock_.now_ns() - *refreshed_ < pause_) return;
  view_.refresh();
  refreshed_ = clock_.now_ns();
}

live_page::answer live_page::data(std::optional<std::int64_t> since) {
  const std::lock_guard lock(guard_);
  refresh_if_due();
  const std::int64_t revision = view_.revision();
  if (since == revision) return {revision, nullptr};
  if (written_ != revision) {
    json_ = std::make_shared<const std::string>(base::dump(view_.data(true)));
    written_ = revision;
  }
  return {revision, json_};
}

base::expected<std::string> live_page::html() {
  QUERN_TRY(const std::string nonce, fresh_nonce());
  const std::lock_guard lock(guard_);
  refresh_if_due();
  return render_page(view_.data(true), nonce);
}

}  // namespace quern::tools
