// Chunked output projection with log-softmax and its gradient.
#include "policy/engine/log_probs.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "policy/engine/attention.hpp"
#include "policy/engine/loss_rows.hpp"
#include "policy/engine/ops.hpp"
#include "policy/engine/products.hpp"

namespace quern::policy {
namespace {

std::vector<double> to_host(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kCPU, at::kDouble).contiguous();
  const double* p = values.const_data_ptr<double>();
  return {p, p + values.numel()};
}

}  // namespace

void output_head::run(const at::Tensor& hidden, const at::Tensor& head, const micro_batch& batch,
                      std::span<const training_sequence> sequences,
                      const std::function<void(const head_chunk&)>& visit, at::Tensor* d_hidden,
                      at::Tensor* d_head) {
  const auto on_host = [&](const head_rows& chunk) {
    const std::vector<double> log_probs = to_host(chunk.log_probs),
                              entropies = to_host(chunk.entropies);
    std::vector<double> gradients(d_hidden ? log_probs.size() : 0);
    visit({static_cast<std::size_t>(chunk.first), log_probs, entropies, gradients});
    return d_hidden ? upload(gradients, hidden.device()).to(chunk.log_probs.scalar_type())
                    : at::Tensor();
  };
  run_rows(hidden, head, batch, sequences, on_host, d_hidden, d_head);
}

void output_head::run_rows(const at::Tensor& hidden, const at::Tensor& head,
                           const micro_batch& batch, std::span<const training_sequence> sequences,
                           const std::function<at::Tensor(const head_rows&)>& visit,
                           at::Tensor* d_hidden, at::Tensor* d_head) {
  const std::int64_t vocabulary = head.size(0), valid = valid_ > 0 ? valid_ : vocabulary,
                     width = head.size(1);
  const auto total = static_cast<std::int64_t>(batch.predictions.size());
  for (std::int64_t first = 0; first < total; first += chunk_) {
    const std::int64_t n = std::min(chunk_, total - first);
    std::vector<std::int64_t> rows, targets;
    std::vector<double> scales;
    for (std::int64_t i = first; i < first + n; ++i) {
      const prediction& p = batch.predictions[static_cast<std::size_t>(i)];
      const training_sequence& s = sequences[static_cast<std::size_t>(p.sequence)];
      rows.push_back(p.row);
      targets.push_back(s.tokens[static_cast<std::size_t>(p.token)]);
      scales.push_back(1 / s.temperature);
    }
    const at::Tensor row = upload(rows, hidden.device()), target = upload(targets, hidden.device());
    const at::TensorOptions wide = wide_options(hidden);
    const at::Tensor scale = upload(scales, hidden.device()).to(wide);
    at::Tensor input = take(inputs_, {n, width}, hidden),
               logits = take(logits_, {n, vocabulary}, wide);
    at::index_select_out(input, hidden, 0, row);
    wide_product(logits, input, head.t());
    at::Tensor log_prob = at::empty({n}, wide), entropy = at::empty({n}, wide),
               lse = at::empty({n}, wide);
    ops::log_softmax_rows(logits, target, scale, valid, log_prob, entropy, lse);

    const at::Tensor gradient = visit({first, log_prob, entropy});
    if (!d_hidden) continue;
    at::Tensor d_logits = hidden.scalar_type() == logits.scalar_type()
                              ? logits
                              : at::empty({n, vocabulary}, hidden.options());
    ops::log_softmax_gradient(logits, target, scale, lse, gradient, valid, d_logits);
    at::Tensor d_input = take(d_inputs_, {n, width}, wide);
    wide_product(d_input, d_logits, head);
    d_hidden->index_add_(0, row, d_input);
    add_product(*d_head, d_logits.t(), input);
  }
}

}  // namespace quern::policy
