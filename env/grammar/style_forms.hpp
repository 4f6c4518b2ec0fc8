// What both lanes' lists of styles share: which list a composition has, and its folded form.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "env/grammar/canonical.hpp"
#include "env/grammar/composition.hpp"

namespace quern::env {

/// Whether one of the steps is wanted.
bool any_step(const composition& what, bool (*wanted)(step_kind));

/// Whether the values before the structural step stay where exp of them is exact enough without a
/// shift, in every arithmetic.
bool needs_no_shift(const composition& what);

/// Words with spaces between them.
class style_words {
 public:
  explicit style_words(std::string first) : text_(std::move(first)) {}
  void add(bool said, std::string_view word) {
    if (!said) return;
    text_ += ' ';
    text_ += word;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Has `list`, a list of the styles of `what`, collect those of its structural step's class.
template <class List>
void collect_styles(List& list, const composition& what) {
  const std::size_t core = structural_index(what);
  if (core == what.steps.size()) return list.elementwise();
  switch (class_of(what.steps[core].kind)) {
    case step_class::normalisation:
      return list.normalisation();
    case step_class::scan:
      return list.scan();
    case step_class::stencil:
      return list.stencil();
    case step_class::reduction:
      return list.reduction();
    default:
      return list.transposition();
  }
}

/// The styles of the composition as it stands, and, where that is shorter, of its canonical form.
/// List: constructed of (composition, folded, fast_is_safe), with a member for each class and
/// `take`.
template <class List>
auto styles_with_folded(const composition& what, bool fast_is_safe) {
  List plain(what, false, fast_is_safe);
  collect_styles(plain, what);
  auto styles = plain.take();
  const composition form = canonical_form(what);
  if (form.steps.size() < what.steps.size() || structural_index(form) < structural_index(what)) {
    List folded(form, true, fast_is_safe);
    collect_styles(folded, form);
    const auto more = folded.take();
    styles.insert(styles.end(), more.begin(), more.end());
  }
  return styles;
}

}  // namespace quern::env
