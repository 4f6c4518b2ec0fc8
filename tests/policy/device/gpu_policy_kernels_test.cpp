// The CUDA kernels against the scalar ones, over shapes that the models have and shapes that are
// awkward. Every case has a control: the same comparison with one parameter wrong must fail.
#include "policy/device/kernel_pairs.hpp"

using namespace quern;
using namespace quern::policy;
using namespace quern::test;

namespace {

constexpr at::ScalarType both_types[] = {at::kFloat, at::kBFloat16};

}  // namespace

TEST_CASE("addition and RMSNorm") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : both_types)
    for (std::int32_t width : {20, 192, 896, 1536, 3584, 12000})
      for (std::int32_t rows : {1, 3, 257}) {
        for (bool added : {false, true}) {
          const auto with = [&](float eps) {
            return [=](const kernel_side& s) {
              const at::Tensor x = s.numbers({rows, width}, type, 1), y = at::empty_like(x),
                               delta = added ? s.numbers({rows, width}, type, 2) : at::Tensor(),
                               w = s.numbers({width}, type, 3), rstd = s.zeros({rows}, at::kFloat);
              succeed(s, s.kernels.add_rms_norm(element_of(type), rows, width, eps, data_of(delta),
                                                data_of(x), data_of(w), data_of(y), floats_of(rstd),
                                                nullptr));
              return std::vector<at::Tensor>{x, y, rstd};
            };
          };
          compare(name_of(added ? "add_rms_norm" : "rms_norm", type, {rows, width}),
                  tolerance_of(type), with(1e-6F), with(0.3F));
        }
      }
}

namespace {

/// Sizes of rows and addresses that are loaded in packs, and such that are not.
struct row_place {
  std::int64_t width, behind;  ///< the second: elements behind an aligned address
};

/// dx and dw of `rows` rows of a batch, from `first` on.
std::vector<at::Tensor> norm_gradients(const kernel_side& s, at::ScalarType type, row_place place,
                                       std::int64_t first, std::int32_t rows,
                                       std::uint64_t seed = 2) {
  const std::int64_t width = place.width, all = 1111;
  const auto part = [&](std::uint64_t from) {
    return moved(s.numbers({all, width}, type, from).narrow(0, first, rows), place.behind);
  };
  const at::Tensor dy = part(1), x = part(seed), dx = part(4),
                   w = moved(s.numbers({width}, type, 3), place.behind),
                   rstd = s.numbers({all}, at::kFloat, 5).abs().add_(0.5).narrow(0, first, rows),
                   dw = s.numbers({width}, at::kFloat, 6),
                   room = s.zeros({quern_partials, width}, at::kFloat);
  succeed(s, s.kernels.rms_norm_backward(element_of(type), rows, static_cast<std::int32_t>(width),
                                         data_of(dy), data_of(x), data_of(w), floats_of(rstd),
                                         data_of(dx), floats_of(dw), floats_of(room), nullptr));
  return {dx, dw};
}

/// d_gate_up, and the same made in place.
std::vector<at::Tensor> swiglu_gradients(const kernel_side& s, at::ScalarType type, row_place place,
                                         std::int64_t first, std::int64_t rows,
                                         std::uint64_t seed = 1) {
  const std::int64_t width = place.width, all = 130;
  const auto part = [&](std::int64_t columns, std::uint64_t from) {
    return moved(s.numbers({all, columns}, type, from).narrow(0, first, rows), place.behind);
  };
  const at::Tensor gate_up = part(2 * width, seed), d_act = part(width, 3),
                   apart = moved(at::zeros_like(gate_up), place.behind);
  for (const at::Tensor& to : {apart, gate_up})
    succeed(s, s.kernels.swiglu_backward(element_of(type), rows, width, data_of(d_act),
                                         data_of(gate_up), data_of(to), nullptr));
  return {apart, gate_up};
}

}  // namespace

TEST_CASE("gradient of RMSNorm") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : both_types)
    for (const row_place place :
         {row_place{20, 0}, {21, 0}, {896, 0}, {896, 1}, {897, 0}, {3584, 0}})
      for (std::int32_t rows : {1, 300, 1111}) {
        const auto with = [&](std::uint64_t seed) {
          return
              [=](const kernel_side& s) { return norm_gradients(s, type, place, 0, rows, seed); };
        };
        compare(name_of("rms_norm_backward", type, {rows, place.width, place.behind}),
                type == at::kFloat ? 1e-4 : 2e-2, with(2), with(7));
      }
}

TEST_CASE("SwiGLU and its gradient") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : both_types)
    for (const row_place place :
         {row_place{28, 0}, {30, 0}, {31, 0}, {4864, 0}, {4864, 1}, {8960, 0}})
      for (std::int64_t rows : {1L, 130L}) {
        const auto with = [&](std::uint64_t seed) {
          return [=](const kernel_side& s) {
            const at::Tensor gate_up = moved(s.numbers({rows, 2 * place.width}, type, seed),
                                             place.behind),
                             act = moved(s.zeros({rows, place.width}, type), place.behind);
            succeed(s, s.kernels.swiglu(element_of(type), rows, place.width, data_of(gate_up),
                                        data_of(act), nullptr));
            auto all = swiglu_gradients(s, type, place, 0, rows, seed);
            all.push_back(act);
            return all;
          };
        };
        compare(name_of("swiglu", type, {rows, place.width, place.behind}), tolerance_of(type),
                with(1), with(2));
      }
}

TEST_CASE("gradients of a row have the same bits alone and in company, in packs and one by one") {
  if (!go_on_with_kernels()) return;
  const kernel_side gpu(**cuda_policy_kernels(), at::kCUDA);
  for (at::ScalarType type : both_types)
    for (std::int64_t width : {20L, 896L, 1537L}) {
      CAPTURE(width);
      const auto norm = [&](std::int64_t first, std::int32_t rows, std::int64_t behind) {
        return norm_gradients(gpu, type, {width, behind}, first, rows).front().to(at::kCPU);
      };
      const auto swiglu = [&](std::int64_t first, std::int64_t rows) {
        return swiglu_gradients(gpu, type, {width, 0}, first, rows).front().to(at::kCPU);
      };
      const at::Tensor norms = norm(0, 1111, 0), gates = swiglu(0, 130);
      CHECK(norm(0, 1111, 1).equal(norms));
      for (std::int64_t row : {0L, 77L, 129L}) {
        CHECK(norm(row, 1, 0).equal(norms.narrow(0, row, 1)));
        CHECK(swiglu(row, 1).equal(gates.narrow(0, row, 1)));
      }
      CHECK_FALSE(norm(78, 1, 0).equal(norms.narrow(0, 77, 1)));
    }
}

namespace {

struct head_inputs {
  quern_heads shape;
  at::Tensor q_norm, k_norm, cos, sin;
  quern_head_steps steps(float eps = 1e-6F) const {
    return {data_of(q_norm), data_of(k_norm), eps, floats_of(cos), floats_of(sin)};
  }
};

constexpr std::int64_t positions_known = 300;

head_inputs heads_on(const kernel_side& s, quern_heads shape, bool norms, at::ScalarType type) {
  head_inputs h{shape, {}, {}, {}, {}};
  if (norms) {
    h.q_norm = s.numbers({shape.dim}, type, 31);
    h.k_norm = s.numbers({shape.dim}, type, 32);
  }
  const at::Tensor angle = s.numbers({positions_known, shape.dim / 2}, at::kFloat, 33);
  h.cos = at::cos(angle);
  h.sin = at::sin(angle);
  return h;
}

const std::vector<quern_heads> head_shapes{{2, 3, 8},   {1, 1, 2},   {2, 7, 64}, {2, 6, 128},
                                           {8, 4, 128}, {8, 2, 128}, {3, 2, 96}, {1, 2, 256}};

}  // namespace

TEST_CASE("head norms and rotation for training, and their gradient") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : both_types)
    for (const quern_heads& shape : head_shapes)
      for (bool norms : {false, true}) {
        const std::int32_t rows = 301;
        const auto with = [&](std::int64_t shift) {
          return [=](const kernel_side& s) {
            const head_inputs h = heads_on(s, shape, norms, type);
            const auto [kv, group, dim] = shape;
            const std::int64_t width = std::int64_t{kv} * (group + 2) * dim;
            std::vector<std::int64_t> places;
            for (std::int64_t r = 0; r < rows; ++r)
              places.push_back((r * 7 + shift) % positions_known);
            const at::Tensor qkv = s.numbers({rows, width}, type, 1), positions = s.longs(places),
                             q = s.zeros({kv, rows, group, dim}, type),
                             k = s.zeros({kv, rows, dim}, type), v = s.zeros({kv, rows, dim}, type),
                             rstd = s.zeros({rows, (group + 1) * kv}, at::kFloat);
            const auto* at_ = positions.const_data_ptr<std::int64_t>();
            succeed(s, s.kernels.split_heads(element_of(type), shape, h.steps(), rows, data_of(qkv),
                                             at_, data_of(q), data_of(k), data_of(v),
                                             floats_of(rstd), nullptr));
            const at::Tensor dq = s.numbers({kv, rows, group, dim}, type, 2),
                             dk = s.numbers({kv, rows, dim}, type, 3),
                             dv = s.numbers({kv, rows, dim}, type, 4), dqkv = at::empty_like(qkv),
                             dq_norm = s.zeros({dim}, at::kFloat),
                             dk_norm = s.zeros({dim}, at::kFloat),
                             room = s.zeros({quern_partials, 2 * dim}, at::kFloat);
            succeed(s, s.kernels.split_heads_backward(
                           element_of(type), shape, h.steps(), rows, data_of(dq), data_of(dk),
                           data_of(dv), data_of(qkv), floats_of(rstd), at_, data_of(dqkv),
                           floats_of(dq_norm), floats_of(dk_norm), floats_of(room), nullptr));
            return std::vector<at::Tensor>{q, k, v, rstd, dqkv, dq_norm, dk_norm};
          };
        };
        compare(name_of(norms ? "split_heads, norms" : "split_heads", type,
                        {shape.kv_heads, shape.group, shape.dim}),
                type == at::kFloat ? 2e-4 : 2e-2, with(0), with(1));
      }
}

TEST_CASE("softmax over tiles and its gradient") {
  if (!go_on_with_kernels()) return;
  for (std::int64_t columns : {5L, 257L, 3000L})
    for (std::int64_t group : {1L, 7L}) {
      const auto with = [&](float scale) {
        return [=](const kernel_side& s) {
          const std::int64_t rows = 40 * group, first = 3;
          const at::Tensor scores = s.numbers({rows, columns}, at::kFloat, 1), p = scores.clone(),
                           again = scores.clone(), lse = s.zeros({rows}, at::kFloat),
                           dp = s.numbers({rows, columns}, at::kFloat, 2),
                           delta = s.numbers({rows}, at::kFloat, 3);
          succeed(s, s.kernels.softmax_tile(rows, columns, group, first, scale, floats_of(p),
                                            floats_of(lse), nullptr));
          succeed(s, s.kernels.softmax_tile_backward(rows, columns, group, first, scale,
                                                     floats_of(again), floats_of(dp),
                                                     floats_of(lse), floats_of(delta), nullptr));
          return std::vector<at::Tensor>{p, lse, again, dp};
        };
      };
      compare(name_of("softmax_tile", at::kFloat, {columns, group}), 2e-5, with(0.125F),
              with(0.13F));
    }
}

TEST_CASE("log-softmax of rows and its gradient") {
  if (!go_on_with_kernels()) return;
  struct size {
    std::int64_t columns, valid;
  };
  for (const size& n :
       {size{61, 61}, size{512, 300}, size{8192, 8192}, size{8195, 8193}, size{151936, 151665}}) {
    const auto with = [&](float temperature) {
      return [=](const kernel_side& s) {
        const std::int64_t rows = 6;
        const at::Tensor z = s.numbers({rows, n.columns}, at::kFloat, 1).mul_(4);
        std::vector<std::int64_t> targets;
        for (std::int64_t r = 0; r < rows; ++r)
          targets.push_back((r * 1237) % n.valid);
        const at::Tensor target = s.longs(targets),
                         inverse = s.floats({1, 1 / temperature, 2, 0.5, 1.25, 1}),
                         log_prob = s.zeros({rows}, at::kFloat), entropy = at::zeros_like(log_prob),
                         lse = at::zeros_like(log_prob),
                         gradient = s.numbers({rows}, at::kFloat, 2), out = at::zeros_like(z),
                         narrow = at::zeros_like(z, at::kBFloat16);
        const auto* ids = target.const_data_ptr<std::int64_t>();
        succeed(s, s.kernels.log_softmax_rows(rows, n.columns, n.valid, floats_of(z), ids,
                                              floats_of(inverse), floats_of(log_prob),
                                              floats_of(entropy), floats_of(lse), nullptr));
        for (const at::Tensor& to : {out, narrow})
          succeed(s, s.kernels.log_softmax_gradient(element_of(to.scalar_type()), rows, n.columns,
                                                    n.valid, floats_of(z), ids, floats_of(inverse),
                                                    floats_of(lse), floats_of(gradient),
                                                    data_of(to), nullptr));
        CHECK(narrow.equal(out.to(at::kBFloat16)));
        return std::vector<at::Tensor>{log_prob, entropy, lse, out, narrow.to(at::kFloat)};
      };
    };
    const auto narrow_is_coarse = [&](float temperature) {
      return [=](const kernel_side& s) {
        auto all = with(temperature)(s);
        all.pop_back();
        return all;
      };
    };
    compare(name_of("log_softmax", at::kFloat, {n.columns, n.valid}), 3e-5, narrow_is_coarse(1),
            narrow_is_coarse(1.1F));
    compare(name_of("log_softmax, bf16 gradient", at::kFloat, {n.columns, n.valid}), 1.2e-2,
            with(1), with(1.6F));
  }
}

TEST_CASE("AdamW") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType gradients : both_types)
    for (std::int64_t count : {1L, 1000003L}) {
      const auto with = [&](float rate, float skip) {
        return [=](const kernel_side& s) {
          const at::Tensor w = s.numbers({count}, at::kFloat, 1),
                           g = s.numbers({count}, gradients, 2),
                           m = s.numbers({count}, at::kFloat, 3).mul_(0.1),
                           v = s.numbers({count}, at::kFloat, 4).square_(),
                           narrow = s.zeros({count}, at::kBFloat16), divisor = s.floats({2.5F}),
                           bad = s.floats({skip});
          const quern_adamw how{
              rate, 0.9F, 0.95F, 1e-8F, 0.1F, 0.271F, 0.1426F, floats_of(divisor), floats_of(bad)};
          succeed(
              s, s.kernels.adamw(how, count, floats_of(w), element_of(gradients), data_of(g),
                                 floats_of(m), floats_of(v), quern_bf16, data_of(narrow), nullptr));
          CHECK(narrow.to(at::kFloat)
                    .equal(skip != 0 ? at::zeros_like(w) : w.to(at::kBFloat16).to(at::kFloat)));
          return std::vector<at::Tensor>{w, m, v};
        };
      };
      compare(name_of("adamw", gradients, {count}), 1e-5, with(1e-2F, 0), with(2e-2F, 0));
      compare(name_of("adamw, skipped", gradients, {count}), 0, with(1e-2F, 1), with(1e-2F, 0));
    }
}

TEST_CASE("edits, rows of a pass, rows taken, pages copied") {
  if (!go_on_with_kernels()) return;
  const auto pass = [&](std::int32_t active) {
    return [=](const kernel_side& s) {
      const std::int32_t slots = 700, rows = 1300;
      const at::Tensor state = s.zeros({slots, quern_slot_words}, at::kInt);
      std::vector<std::int32_t> edits, slot, position, token;
      for (std::int32_t i = 0; i < slots; ++i) {
        const std::int32_t base = i * quern_slot_words;
        edits.insert(edits.end(), {base + quern_slot_active, i % 5 == 0 ? 0 : active});
        edits.insert(edits.end(), {base + quern_slot_token, 1000 + i});
        edits.insert(edits.end(), {base + quern_slot_position, i * 3});
      }
      for (std::int32_t r = 0; r < rows; ++r) {
        slot.push_back(r % 11 == 3 ? -1 : r % slots);
        position.push_back(r < slots ? -1 : r);
        token.push_back(r < slots ? -1 : 7 * r);
      }
      const at::Tensor list = s.integers(edits), slot_of = s.integers(slot),
                       given = s.integers(position), tokens = s.integers(token),
                       where = s.zeros({rows}, at::kInt), what = s.zeros({rows}, at::kInt),
                       first = s.zeros({rows}, at::kInt),
                       items = s.zeros({1 + 2 * rows * 10}, at::kInt);
      succeed(s, s.kernels.apply_edits(words_of(state), words_of(list),
                                       static_cast<std::int32_t>(edits.size() / 2), nullptr));
      succeed(s, s.kernels.begin_pass(rows, words_of(slot_of), words_of(given), words_of(tokens),
                                      words_of(state), words_of(where), words_of(what),
                                      {words_of(items), words_of(first)}, nullptr));
      return std::vector<at::Tensor>{state, where, what, first, items};
    };
  };
  compare("begin_pass", 0, pass(1), pass(0));
  for (at::ScalarType type : both_types)
    for (std::int32_t width : {7, 20, 896}) {
      const auto taken = [&](std::int32_t shift) {
        return [=](const kernel_side& s) {
          const at::Tensor table = s.numbers({50, width}, type, 1),
                           index = s.integers({3, -1, 49, shift, 3}),
                           out = s.zeros({5, width}, type);
          succeed(s, s.kernels.take_rows(element_of(type), 5, width, data_of(table),
                                         words_of(index), data_of(out), nullptr));
          return std::vector<at::Tensor>{out};
        };
      };
      compare(name_of("take_rows", type, {width}), 0, taken(0), taken(1));
    }
  const auto copied = [&](std::int32_t from) {
    return [=](const kernel_side& s) {
      const at::Tensor pool = s.numbers({6, 9, 4, 100}, at::kFloat, 1);
      const at::Tensor pairs = s.integers({from, 1, 8, 0});
      succeed(s,
              s.kernels.copy_pages(data_of(pool), 9 * 1600, 6, 1600, words_of(pairs), 2, nullptr));
      return std::vector<at::Tensor>{pool};
    };
  };
  compare("copy_pages", 0, copied(3), copied(4));
}

TEST_CASE("sizes out of range are refused before anything is queued") {
  if (!go_on_with_kernels()) return;
  const quern_policy_kernels& k = **cuda_policy_kernels();
  CHECK(k.add_rms_norm(quern_f32, 1, 12001, 1, nullptr, nullptr, nullptr, nullptr, nullptr,
                       nullptr) != 0);
  CHECK(k.swiglu(2, 1, 8, nullptr, nullptr, nullptr) != 0);
  CHECK(k.copy_pages(nullptr, 16, 1, 8, nullptr, 1, nullptr) != 0);
  CHECK(k.paged_attention(quern_bf16, {1, 1, 64}, {1, nullptr, nullptr},
                          {nullptr, nullptr, nullptr, 16, 1}, {}, {}, nullptr, nullptr,
                          nullptr) != 0);
  CHECK(k.sample({1, nullptr, nullptr, nullptr, 10, 11, nullptr, nullptr, nullptr}, nullptr,
                 nullptr, nullptr) != 0);
  CHECK(k.swiglu(quern_f32, 0, 8, nullptr, nullptr, nullptr) == 0);  // nothing to do is no error
}
