#include "tools/page/live_page.hpp"

#include <algorithm>
#include <utility>

#include "tools/page/page.hpp"

namespace quern::tools {

live_page::live_page(run_view view, const base::clock& clock, base::nanoseconds_t pause)
    : title_("quern report: " + view.name()),
      view_(std::move(view)),
      clock_(clock),
      pause_(pause) {}

void live_page::refresh_if_due() {
  const base::nanoseconds_t begun = clock_.now_ns();
  if (json_ && begun < due_) return;
  view_.refresh();
  if (written_ != view_.revision()) {
    json_ = std::make_shared<const std::string>(base::dump(view_.data(true)));
    written_ = view_.revision();
  }
  const base::nanoseconds_t ended = clock_.now_ns();
  due_ = ended + std::max(pause_, rest * (ended - begun));
}

live_page::answer live_page::data(std::optional<std::int64_t> since) {
  const std::lock_guard lock(guard_);
  refresh_if_due();
  if (since == written_) return {written_, nullptr};
  return {written_, json_};
}

base::expected<std::string> live_page::html() {
  QUERN_TRY(const std::string nonce, fresh_nonce());
  const auto latest = data(std::nullopt);
  return render_page({title_, true}, *latest.json, nonce);
}

}  // namespace quern::tools
