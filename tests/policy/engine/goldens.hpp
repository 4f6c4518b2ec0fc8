// The golden models: weights, prompts and what transformers made of them
// (tests/golden/policy/models).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/generator.hpp"
#include "policy/weights/safetensors.hpp"
#include "support/test.hpp"

namespace quern::test {

struct golden {
  std::filesystem::path dir;
  policy::parameter_arena arena;
  base::json expected;
  policy::safetensors_reader tensors;

  /// How far a logit may be from transformers': twice what two of its own attention back-ends
  /// (eager and sdpa, float32, one thread) differ by at most for the prompts of any golden
  /// model, 1.1e-5. One model's own figure is of four prompts on one processor, and 0.7 to 1.1e-5
  /// by chance: on a processor whose products sum in another order a right model can be 1.5e-5
  /// away.
  double tolerance = 0;
  /// The same for the root mean square over all prompts, which hardly depends on chance: the
  /// model's own figure, 1.1 to 1.4e-6.
  double rms_tolerance() const { return 2 * expected["attention_backends_rms"].get<double>(); }
  std::vector<std::vector<std::int64_t>> prompts() const { return expected["prompts"]; }
  at::Tensor logits(std::size_t i) const {
    const policy::tensor_view* view = tensors.find("logits." + std::to_string(i));
    REQUIRE(view != nullptr);
    at::Tensor result = at::empty(view->shape, at::kFloat);
    std::memcpy(result.mutable_data_ptr(), view->data.data(), view->data.size());
    return result;
  }
};

inline std::vector<golden> load_goldens() {
  std::vector<golden> result;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests/golden/policy/models")) {
    golden g;
    g.dir = entry.path();
    auto arena = policy::parameter_arena::load(g.dir);
    REQUIRE_MESSAGE(arena, g.dir.string() << ": " << (arena ? "" : arena.error().message));
    g.arena = *arena;
    g.expected = base::parse_json(base::read_file(g.dir / "expected.json").value()).value();
    g.tensors = policy::safetensors_reader::open_file(g.dir / "expected.safetensors").value();
    result.push_back(std::move(g));
  }
  REQUIRE(result.size() >= 6);
  double backends = 0;
  for (const golden& g : result)
    backends = std::max(backends, g.expected["attention_backends"].get<double>());
  for (golden& g : result)
    g.tolerance = 2 * backends;
  return result;
}

/// The greedy completions that are expected, as requests with ids 0, 1, ...
inline std::vector<policy::generation_request> greedy_requests(const golden& g) {
  std::vector<policy::generation_request> requests;
  for (const auto& run : g.expected["greedy"]) {
    policy::generation_request r;
    r.id = requests.size();
    r.prompt = run["prompt"].get<std::vector<std::int32_t>>();
    r.max_tokens = static_cast<std::int32_t>(run["tokens"].size());
    r.greedy = true;
    r.ignore_eos = true;
    requests.push_back(std::move(r));
  }
  return requests;
}

/// The tokens of the greedy completion `id`.
inline std::vector<std::int32_t> greedy_tokens(const golden& g, std::uint64_t id) {
  return g.expected["greedy"][id]["tokens"].get<std::vector<std::int32_t>>();
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble).sub(b.to(at::kDouble))).abs().max().item<double>();
}

/// Of all entries of pairs of equal shapes.
inline double rms_difference(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs) {
  double squares = 0, count = 0;
  for (const auto& [a, b] : pairs) {
    squares += a.to(at::kDouble).sub(b.to(at::kDouble)).square().sum().item<double>();
    count += static_cast<double>(a.numel());
  }
  return std::sqrt(squares / count);
}

}  // namespace quern::test
