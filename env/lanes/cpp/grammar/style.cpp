// The styles of every family in C++, and their names.
#include "env/lanes/cpp/grammar/style.hpp"

#include <algorithm>

#include "env/grammar/style_forms.hpp"
#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

/// Longer chains give texts that are too long for a small policy.
constexpr std::size_t most_steps_in_passes = 4;
constexpr std::size_t most_steps_written_twice = 3;
bool has_branch(step_kind kind) {
  return kind == step_kind::relu || kind == step_kind::max_tensor;
}

/// Collects the styles of one composition.
class style_list {
 public:
  style_list(const composition& what, bool folded, bool fast_is_safe)
      : what_(what), folded_(folded), fast_(fast_is_safe && any_step(what, is_transcendental)) {
    core_ = structural_index(what);
    before_ = core_;
    after_ = what.steps.size() - std::min(core_ + 1, what.steps.size());
  }

  std::vector<kernel_style> take() { return std::move(styles_); }

 private:
  template <class List>
  friend void quern::env::collect_styles(List& list, const composition& what);

  step_kind core() const { return what_.steps[core_].kind; }
  /// The helper function and a sweep for each step together are too much.
  bool is_long(const kernel_style& style) const {
    return style.plan == pass_plan::passes && what_.steps.size() + 1 > most_steps_in_passes;
  }
  bool short_enough() const { return what_.steps.size() <= most_steps_in_passes; }

  /// The style with every kind of arithmetic, with and without branches.
  void add(kernel_style style) {
    style.folded = folded_;
    for (const math_kind math : {math_kind::doubles, math_kind::floats, math_kind::fast}) {
      if (math == math_kind::fast && (!fast_ || is_long(style))) continue;
      style.math = math;
      style.branchless = false;
      styles_.push_back(style);
      style.branchless = true;
      if (math != math_kind::doubles && any_step(what_, has_branch)) styles_.push_back(style);
    }
  }

  /// Also with sums that may be reordered.
  void add_relaxed(kernel_style style) {
    add(style);
    style.relaxed = true;
    add(style);
  }

  /// And with each of the promises about aliasing.
  void add_with_promises(kernel_style style) {
    add_relaxed(style);
    style.ivdep = true;
    add(style);
    style.ivdep = false;
    style.restricted = true;
    add(style);
  }

  void add_passes() {
    if (!short_enough()) return;
    kernel_style style;
    style.plan = pass_plan::passes;
    add(style);
  }

  void add_columns() {
    kernel_style style;
    style.order = loop_order::columns;
    add(style);
  }

  void elementwise() {
    add_with_promises({});
    add_columns();
    if (what_.steps.size() > 1) add_passes();
    if (!has_vector_form(what_) || what_.steps.size() > most_steps_written_twice) return;
    kernel_style style;
    style.folded = folded_;
    style.vector = true;
    styles_.push_back(style);
  }

  void reduction() {
    add_relaxed({});
    add_columns();
    add_passes();
    kernel_style style;
    if (core() != step_kind::row_max && before_ <= most_steps_written_twice) {
      style.reduction = reduction_plan::lanes;
      add(style);
    }
    style = {};
    style.plan = pass_plan::split;
    if (before_ > 0) add_with_promises(style);
    style.reduction = reduction_plan::tree;
    add_with_promises(style);
  }

  void normalisation() {
    std::vector<kernel_style> forms(1);
    const bool recomputable =
        core() == step_kind::centre || core() == step_kind::rms || core() == step_kind::l1;
    if (recomputable && before_ > 0 && before_ <= most_steps_written_twice) {
      forms.emplace_back();
      forms.back().plan = pass_plan::recompute;
    }
    if (before_ > 0) {
      forms.emplace_back();
      forms.back().plan = pass_plan::split;
    }
    if (core() == step_kind::softmax && needs_no_shift(what_)) {
      forms.emplace_back();
      forms.back().unshifted = true;
    }
    for (kernel_style style : forms) {
      add_with_promises(style);
      style.hoist = true;
      if (core() != step_kind::centre) add_with_promises(style);
    }
    add_passes();
  }

  void scan() {
    add_relaxed({});
    add_columns();
    add_passes();
    kernel_style style;
    style.plan = pass_plan::split;
    if (before_ + after_ > 0) add_with_promises(style);
  }

  void stencil() {
    if (core() == step_kind::difference) add_relaxed({});
    kernel_style style;
    style.plan = pass_plan::split;
    add_with_promises(style);
    style.padded = true;
    add_with_promises(style);
    add_passes();
    if (!short_enough()) return;
    style = {};
    style.plan = pass_plan::passes;
    style.order = loop_order::columns;
    add(style);
  }

  void transposition() {
    add_with_promises({});
    add_columns();
    add_passes();
    kernel_style style;
    style.tiled = true;
    add(style);
  }

  const composition& what_;
  bool folded_;
  bool fast_;
  std::size_t core_ = 0;
  std::size_t before_ = 0;
  std::size_t after_ = 0;
  std::vector<kernel_style> styles_;
};

}  // namespace

std::string to_text(const kernel_style& style) {
  style_words text(style.order == loop_order::rows ? "rows" : "columns");
  text.add(style.plan == pass_plan::fused, "fused");
  text.add(style.plan == pass_plan::recompute, "recompute");
  text.add(style.plan == pass_plan::split, "split");
  text.add(style.plan == pass_plan::passes, "passes");
  text.add(style.math == math_kind::doubles, "double");
  text.add(style.math == math_kind::floats, "float");
  text.add(style.math == math_kind::fast, "fast");
  text.add(style.reduction == reduction_plan::lanes, "lanes");
  text.add(style.reduction == reduction_plan::tree, "tree");
  text.add(style.hoist, "hoist");
  text.add(style.branchless, "branchless");
  text.add(style.padded, "padded");
  text.add(style.tiled, "tiled");
  text.add(style.vector, "vector");
  text.add(style.unshifted, "unshifted");
  text.add(style.folded, "folded");
  text.add(style.ivdep, "ivdep");
  text.add(style.relaxed, "relaxed");
  text.add(style.restricted, "restrict");
  return text.take();
}

std::vector<kernel_style> styles_of(const composition& what, bool fast_is_safe) {
  return styles_with_folded<style_list>(what, fast_is_safe);
}

}  // namespace quern::env
