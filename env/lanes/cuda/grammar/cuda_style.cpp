// The styles of CUDA kernels of every family, and their names.
#include "env/lanes/cuda/grammar/cuda_style.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "env/grammar/style_forms.hpp"

namespace quern::env {

namespace {

/// Longer chains give texts that are too long for a small policy.
constexpr std::size_t most_launches = 4;

bool has_two_forms(step_kind kind) {
  return kind == step_kind::relu || kind == step_kind::max_tensor || kind == step_kind::clip;
}

bool gains_by_intrinsics(step_kind kind) {
  return is_transcendental(kind) || kind == step_kind::softsign;
}

cuda_style style_of_share(cuda_share share, int block = 256) {
  cuda_style style;
  style.share = share;
  style.block = block;
  return style;
}

/// Collects the styles of one composition.
class cuda_style_list {
 public:
  cuda_style_list(const composition& what, bool folded, bool fast_is_safe)
      : what_(what),
        folded_(folded),
        fast_(fast_is_safe && any_step(what, gains_by_intrinsics)),
        core_(structural_index(what)) {}

  std::vector<cuda_style> take() { return std::move(styles_); }

 private:
  template <class List>
  friend void quern::env::collect_styles(List& list, const composition& what);

  step_kind core() const { return what_.steps[core_].kind; }
  bool has_before() const { return core_ > 0; }
  bool has_after() const { return core_ + 1 < what_.steps.size(); }

  /// In single precision, with intrinsics, and with the two forms of what can be a branch.
  void add(cuda_style style) {
    style.folded = folded_;
    for (const math_kind math : {math_kind::floats, math_kind::fast}) {
      if (math == math_kind::fast && !fast_) continue;
      style.math = math;
      for (const bool branchless : {false, true}) {
        style.branchless = branchless;
        if (!branchless || any_step(what_, has_two_forms)) styles_.push_back(style);
      }
    }
  }

  /// Also in double precision.
  void add_doubles(cuda_style style) {
    add(style);
    style.folded = folded_;
    style.math = math_kind::doubles;
    styles_.push_back(style);
  }

  /// And with promises: no aliasing, read-only inputs.
  void add_promises(cuda_style style) {
    add(style);
    style.restricted = true;
    add(style);
    style.readonly = true;
    add(style);
    style.restricted = false;
    add(style);
  }

  void add_vector(cuda_style style) {
    style.vector = true;
    add(style);
    style.restricted = true;
    add(style);
  }

  void add_unrolled(cuda_style style) {
    style.unrolled = true;
    add(style);
    style.restricted = true;
    add(style);
  }

  void add_plan(pass_plan plan, cuda_style style) {
    if (plan == pass_plan::passes && what_.steps.size() > most_launches) return;
    style.plan = plan;
    add(style);
  }

  void elementwise() {
    for (const int block : {64, 512, 1024})
      add(style_of_share(cuda_share::element, block));
    add_doubles(style_of_share(cuda_share::element, 128));
    add_promises(style_of_share(cuda_share::element));
    for (const int block : {128, 256, 512}) {
      add_vector(style_of_share(cuda_share::element, block));
      add_unrolled(style_of_share(cuda_share::element, block));
    }
    add_doubles(style_of_share(cuda_share::stride));
    add_promises(style_of_share(cuda_share::stride));
    add_vector(style_of_share(cuda_share::stride));
    for (const int block : {128, 256}) {
      add_promises(style_of_share(cuda_share::block, block));
      add_vector(style_of_share(cuda_share::block, block));
    }
    add_unrolled(style_of_share(cuda_share::block, 128));
    add(style_of_share(cuda_share::warp));
    add_vector(style_of_share(cuda_share::warp));
    add(style_of_share(cuda_share::thread, 64));
    add_doubles(style_of_share(cuda_share::thread, 128));
    add(style_of_share(cuda_share::column));
    add(style_of_share(cuda_share::column, 1024));
    if (what_.steps.size() > 1) {
      add_plan(pass_plan::passes, style_of_share(cuda_share::element));
      add_plan(pass_plan::passes, style_of_share(cuda_share::stride, 512));
    }
  }

  /// Ways to work on rows and to sum over them, naive ones first.
  std::vector<cuda_style> row_forms() const {
    std::vector<cuda_style> forms{
        style_of_share(cuda_share::thread, 64), style_of_share(cuda_share::thread, 128),
        style_of_share(cuda_share::warp, 128),  style_of_share(cuda_share::warp, 256),
        style_of_share(cuda_share::warp, 512),  style_of_share(cuda_share::block, 64),
        style_of_share(cuda_share::block, 128), style_of_share(cuda_share::block, 256),
        style_of_share(cuda_share::block, 1024)};
    for (const int block : {128, 256, 512}) {
      forms.push_back(style_of_share(cuda_share::block, block));
      forms.back().tree = true;
    }
    return forms;
  }

  void split_and_passes(const std::vector<cuda_share>& shares) {
    for (const cuda_share share : shares) {
      if (has_before() || has_after()) add_plan(pass_plan::split, style_of_share(share));
      add_plan(pass_plan::passes, style_of_share(share));
    }
  }

  void reduction() {
    for (const cuda_style& form : row_forms())
      add(form);
    for (const cuda_share share : {cuda_share::thread, cuda_share::warp, cuda_share::block}) {
      add_doubles(style_of_share(share, 128));
      add_promises(style_of_share(share));
      for (const int block : {128, 256}) {
        add_vector(style_of_share(share, block));
        add_unrolled(style_of_share(share, block));
      }
    }
    split_and_passes({cuda_share::thread, cuda_share::warp, cuda_share::block});
  }

  void normalisation() {
    for (cuda_style form : row_forms()) {
      for (const bool hoist : {false, true}) {
        form.hoist = hoist && core() != step_kind::centre;
        if (hoist != form.hoist) continue;
        keeps(form, false);
      }
    }
    add_doubles(style_of_share(cuda_share::block, 128));
    add_doubles(style_of_share(cuda_share::thread, 128));
    for (const cuda_share share : {cuda_share::thread, cuda_share::warp, cuda_share::block}) {
      cuda_style form = style_of_share(share, share == cuda_share::block ? 128 : 256);
      form.hoist = core() != step_kind::centre;
      keeps(form, true);
    }
    if (core() == step_kind::softmax && needs_no_shift(what_)) {
      for (const cuda_share share : {cuda_share::thread, cuda_share::warp, cuda_share::block}) {
        cuda_style form = style_of_share(share);
        form.unshifted = true;
        add(form);
        form.hoist = true;
        add_vector(form);
      }
    }
    split_and_passes({cuda_share::thread, cuda_share::warp, cuda_share::block});
  }

  /// The places where a row can be kept, plainly or wide.
  void keeps(cuda_style form, bool wide) {
    for (const cuda_keep keep : {cuda_keep::again, cuda_keep::out, cuda_keep::shared}) {
      if (keep == cuda_keep::out && !has_before()) continue;
      if (keep == cuda_keep::shared && form.share != cuda_share::block) continue;
      form.keep = keep;
      wide ? add_vector(form) : add(form);
      if (wide) add_unrolled(form);
    }
  }

  void scan() {
    for (const int block : {32, 64, 128, 256})
      add(style_of_share(cuda_share::thread, block));
    for (const int block : {64, 128, 256, 512})
      add_promises(style_of_share(cuda_share::warp, block));
    for (const int block : {64, 128, 256, 512, 1024})
      add(style_of_share(cuda_share::block, block));
    add_promises(style_of_share(cuda_share::block, 128));
    add_doubles(style_of_share(cuda_share::thread, 64));
    add_doubles(style_of_share(cuda_share::warp, 256));
    add_unrolled(style_of_share(cuda_share::thread, 64));
    split_and_passes({cuda_share::thread, cuda_share::warp, cuda_share::block});
  }

  void stencil() {
    for (const int block : {64, 128, 512, 1024})
      add(style_of_share(cuda_share::element, block));
    add_promises(style_of_share(cuda_share::element));
    add_doubles(style_of_share(cuda_share::element, 128));
    add(style_of_share(cuda_share::stride));
    for (const cuda_share share : {cuda_share::warp, cuda_share::block})
      for (const int block : {128, 256})
        add_promises(style_of_share(share, block));
    for (const int block : {64, 128, 256, 512}) {
      cuda_style form = style_of_share(cuda_share::block, block);
      form.keep = cuda_keep::shared;
      add(form);
      add_vector(form);
    }
    if (core() == step_kind::difference) {
      add(style_of_share(cuda_share::thread, 64));
      add(style_of_share(cuda_share::thread, 128));
    }
    split_and_passes({cuda_share::element});
  }

  void transposition() {
    for (const cuda_share share : {cuda_share::element, cuda_share::column}) {
      for (const int block : {64, 128, 512, 1024})
        add(style_of_share(share, block));
      add_promises(style_of_share(share));
    }
    add_doubles(style_of_share(cuda_share::element, 128));
    for (const int block : {128, 256, 512, 1024}) {
      cuda_style form = style_of_share(cuda_share::element, block);
      form.tiled = true;
      add_promises(form);
      form.padded = true;
      add_promises(form);
    }
    split_and_passes({cuda_share::element, cuda_share::column});
    cuda_style form;
    form.tiled = true;
    form.padded = true;
    if (has_before() || has_after()) add_plan(pass_plan::split, form);
  }

  const composition& what_;
  bool folded_;
  bool fast_;
  std::size_t core_;
  std::vector<cuda_style> styles_;
};

std::string_view name_of(cuda_share share) {
  switch (share) {
    case cuda_share::element:
      return "element";
    case cuda_share::column:
      return "column";
    case cuda_share::stride:
      return "stride";
    case cuda_share::thread:
      return "thread";
    case cuda_share::warp:
      return "warp";
    default:
      return "block";
  }
}

}  // namespace

std::string to_text(const cuda_style& style) {
  style_words text(fmt::format("{} {}", name_of(style.share), style.block));
  text.add(style.plan == pass_plan::fused, "fused");
  text.add(style.plan == pass_plan::split, "split");
  text.add(style.plan == pass_plan::passes, "passes");
  text.add(style.keep == cuda_keep::out, "kept");
  text.add(style.keep == cuda_keep::shared, "shared");
  text.add(style.math == math_kind::doubles, "double");
  text.add(style.math == math_kind::floats, "float");
  text.add(style.math == math_kind::fast, "fast");
  text.add(style.tree, "tree");
  text.add(style.vector, "vector");
  text.add(style.unrolled, "unrolled");
  text.add(style.tiled, "tiled");
  text.add(style.padded, "padded");
  text.add(style.hoist, "hoist");
  text.add(style.branchless, "branchless");
  text.add(style.unshifted, "unshifted");
  text.add(style.folded, "folded");
  text.add(style.restricted, "restrict");
  text.add(style.readonly, "ldg");
  return text.take();
}

std::vector<cuda_style> cuda_styles_of(const composition& what, bool fast_is_safe) {
  return styles_with_folded<cuda_style_list>(what, fast_is_safe);
}

}  // namespace quern::env
