// Choice of the family's writer.
#include "env/lanes/cpp/grammar/render.hpp"

#include "env/grammar/canonical.hpp"
#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

std::string written(kernel_writer to, const composition& what) {
  const std::size_t core = structural_index(what);
  if (core == what.steps.size()) {
    write_elementwise(to);
    return to.finish();
  }
  switch (class_of(what.steps[core].kind)) {
    case step_class::normalisation:
      write_normalisation(to);
      break;
    case step_class::scan:
      write_scan(to);
      break;
    case step_class::stencil:
      write_stencil(to);
      break;
    case step_class::reduction:
      write_reduction(to);
      break;
    default:
      write_transposition(to);
  }
  return to.finish();
}

}  // namespace

std::string render_kernel(const composition& subject, const kernel_style& style, kernel_error error,
                          const composition* computed) {
  const composition& meant = computed != nullptr ? *computed : subject;
  const composition what = style.folded ? canonical_form(meant) : meant;
  return written(kernel_writer(subject, what, style, error), what);
}

std::string render_plain(const composition& what) {
  kernel_style style;
  style.plan = pass_plan::passes;
  style.math = math_kind::doubles;
  return written(kernel_writer(what, what, style, kernel_error::none, true), what);
}

}  // namespace quern::env
