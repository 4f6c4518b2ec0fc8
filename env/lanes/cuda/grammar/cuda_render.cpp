// Choice of the family's writer of CUDA kernels.
#include "env/grammar/canonical.hpp"
#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

std::string written_cuda(cuda_writer to, const composition& what) {
  const std::size_t core = structural_index(what);
  if (core == what.steps.size()) {
    write_cuda_elementwise(to);
    return to.finish();
  }
  switch (class_of(what.steps[core].kind)) {
    case step_class::normalisation:
      write_cuda_normalisation(to);
      break;
    case step_class::scan:
      write_cuda_scan(to);
      break;
    case step_class::stencil:
      write_cuda_stencil(to);
      break;
    case step_class::reduction:
      write_cuda_reduction(to);
      break;
    default:
      write_cuda_transposition(to);
  }
  return to.finish();
}

}  // namespace

std::string render_cuda_kernel(const composition& subject, const cuda_style& style,
                               kernel_error error, const composition* computed) {
  const composition& meant = computed != nullptr ? *computed : subject;
  const composition what = style.folded ? canonical_form(meant) : meant;
  return written_cuda(cuda_writer(subject, what, style, error), what);
}

std::string render_cuda_plain(const composition& what) {
  cuda_style style;
  style.plan = pass_plan::passes;
  style.tree = true;
  const std::size_t core = structural_index(what);
  if (core < what.steps.size()) {
    const step_class group = class_of(what.steps[core].kind);
    if (group == step_class::reduction || group == step_class::normalisation)
      style.share = cuda_share::block;
    if (group == step_class::scan) style.share = cuda_share::thread;
  }
  return written_cuda(cuda_writer(what, what, style, kernel_error::none), what);
}

bool cuda_text_has(const composition& what, const cuda_style& style, kernel_error error) {
  return render_cuda_kernel(what, style, error) != render_cuda_kernel(what, style);
}

}  // namespace quern::env
