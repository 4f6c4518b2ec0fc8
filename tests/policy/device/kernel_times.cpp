// Times of the kernels of generation on this GPU, each over many calls on one stream: what a step
// is made of. Not a test.
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "policy/device/library.hpp"

namespace {

using namespace quern::policy;

constexpr std::int32_t page_positions = 64;

/// Microseconds of one call, queued behind each other.
double time_of(const std::function<std::int32_t()>& call) {
  constexpr int warm = 5, repeat = 50;
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  const c10::Stream stream = guard.getStream(guard.getDevice());
  c10::Event begin(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT),
      end(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  for (int i = 0; i < warm + repeat; ++i) {
    if (i == warm) begin.record(stream);
    if (const std::int32_t code = call(); code != 0) {
      std::printf("error %d\n", code);
      return NAN;
    }
  }
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end) * 1000 / repeat;
}

void print_time(const std::string& what, double us, double bytes) {
  std::printf("%-56s %8.2f us  %7.0f GB/s\n", what.c_str(), us, bytes / us / 1e3);
  std::fflush(stdout);
}

const auto half = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
const auto words = at::TensorOptions().dtype(at::kInt).device(at::kCUDA);
const auto singles = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);

template <class T>
T* at_(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

void attention_times(const quern_policy_kernels& k, quern_heads shape, std::int32_t rows,
                     std::int32_t length) {
  const std::int32_t width = length / page_positions + 1, pages = rows * width,
                     splits = length / quern_split + 1, heads = shape.kv_heads * shape.group;
  const at::Tensor keys = at::randn({pages, shape.kv_heads, page_positions, shape.dim}, half),
                   values = at::randn_like(keys), q = at::randn({rows, heads, shape.dim}, half),
                   out = at::empty_like(q), tables = at::randperm(pages, words),
                   slot = at::arange(rows, words), given = at::full({rows}, length - 1, words),
                   token = at::zeros({rows}, words), position = at::zeros({rows}, words),
                   state = at::zeros({rows * quern_slot_words}, words),
                   items = at::zeros({1 + 2 * rows * splits}, words),
                   first = at::zeros({rows}, words),
                   partial = at::empty({rows * splits * heads * (shape.dim + 2)}, singles),
                   counters = at::zeros({rows * shape.kv_heads}, words);
  const quern_attention_plan plan{at_<std::int32_t>(items), at_<std::int32_t>(first)};
  const auto begin = [&] {
    return k.begin_pass(rows, at_<std::int32_t>(slot), at_<std::int32_t>(given),
                        at_<std::int32_t>(token), at_<std::int32_t>(state),
                        at_<std::int32_t>(position), at_<std::int32_t>(token), plan, nullptr);
  };
  print_time("begin_pass, rows " + std::to_string(rows), time_of(begin), 0);
  const quern_pages paged{keys.mutable_data_ptr(), values.mutable_data_ptr(),
                          at_<std::int32_t>(tables), page_positions, width};
  const double us = time_of([&] {
    return k.paged_attention(quern_bf16, shape,
                             {rows, at_<std::int32_t>(slot), at_<std::int32_t>(position)}, paged,
                             plan, {at_<float>(partial), at_<std::int32_t>(counters)},
                             q.const_data_ptr(), out.mutable_data_ptr(), nullptr);
  });
  print_time("paged_attention, heads " + std::to_string(shape.kv_heads) + " x " +
                 std::to_string(shape.group) + " x " + std::to_string(shape.dim) + ", rows " +
                 std::to_string(rows) + ", context " + std::to_string(length),
             us, 4.0 * rows * length * shape.kv_heads * shape.dim);
}

void sample_time(const quern_policy_kernels& k, std::int32_t rows) {
  const std::int64_t columns = 151936, chunks = (columns + quern_chunk - 1) / quern_chunk;
  const at::Tensor logits = at::randn({rows, columns}, singles), slot = at::arange(rows, words),
                   state = at::ones({rows, quern_slot_words}, words),
                   room = at::zeros({rows, chunks, 4}, singles),
                   counters = at::zeros({rows}, words), out = at::zeros({rows, 4}, words);
  state.select(1, quern_slot_limit).fill_(1 << 30);
  state.select(1, quern_slot_greedy).zero_();
  state.select(1, quern_slot_stops).zero_();
  state.select(1, quern_slot_inverse_temperature).fill_(0x3f800000);
  const quern_sampling what{rows,    nullptr, at_<std::int32_t>(slot), at_<float>(logits),
                            columns, columns, at_<float>(room),        at_<std::int32_t>(counters),
                            nullptr};
  print_time("sample, rows " + std::to_string(rows), time_of([&] {
               return k.sample(what, at_<std::int32_t>(state), at_<quern_sampled>(out), nullptr);
             }),
             4.0 * rows * columns);
}

void layer_times(const quern_policy_kernels& k, std::int32_t rows, std::int32_t width,
                 std::int32_t inner) {
  const at::Tensor x = at::randn({rows, width}, half), delta = at::randn_like(x),
                   w = at::randn({width}, half), y = at::empty_like(x),
                   gate_up = at::randn({rows, 2 * inner}, half),
                   act = at::empty({rows, inner}, half);
  const std::string size = ", rows " + std::to_string(rows) + ", width ";
  print_time("add_rms_norm" + size + std::to_string(width), time_of([&] {
               return k.add_rms_norm(quern_bf16, rows, width, 1e-6F, delta.const_data_ptr(),
                                     x.mutable_data_ptr(), w.const_data_ptr(), y.mutable_data_ptr(),
                                     nullptr, nullptr);
             }),
             8.0 * rows * width);
  print_time("swiglu" + size + std::to_string(inner), time_of([&] {
               return k.swiglu(quern_bf16, rows, inner, gate_up.const_data_ptr(),
                               act.mutable_data_ptr(), nullptr);
             }),
             6.0 * rows * inner);
}

void product_time(std::int64_t rows, std::int64_t in, std::int64_t out, bool to_float) {
  const at::Tensor x = at::randn({rows, in}, half), w = at::randn({out, in}, half);
  at::Tensor y = at::empty({rows, out}, to_float ? singles : half);
  print_time("product " + std::to_string(rows) + " x " + std::to_string(in) + " x " +
                 std::to_string(out) + (to_float ? " to float32" : ""),
             time_of([&] {
               if (to_float)
                 at::mm_out(y, x, w.t(), at::kFloat);
               else
                 at::mm_out(y, x, w.t());
               return 0;
             }),
             2.0 * out * in);
}

void few_rows_times(const quern_policy_kernels& k, std::int32_t width, std::int32_t inner) {
  struct matrix {
    std::int32_t in, out;
  };
  for (const matrix m : {matrix{width, width}, matrix{inner, width}, matrix{width, 2 * inner}}) {
    const at::Tensor x = at::randn({1, m.in}, half), w = at::randn({m.out, m.in}, half),
                     y = at::empty({1, m.out}, half);
    const std::string size = " 1 x " + std::to_string(m.in) + " x " + std::to_string(m.out);
    const double bytes = 2.0 * m.in * m.out;
    print_time("few_rows_product" + size, time_of([&] {
                 return k.few_rows_product(quern_bf16, 1, m.out, m.in, x.const_data_ptr(),
                                           w.const_data_ptr(), nullptr, y.mutable_data_ptr(),
                                           nullptr);
               }),
               bytes);
    if (m.out != 2 * inner) continue;
    print_time("few_rows_swiglu" + size, time_of([&] {
                 return k.few_rows_swiglu(quern_bf16, 1, inner, m.in, x.const_data_ptr(),
                                          w.const_data_ptr(), y.mutable_data_ptr(), nullptr);
               }),
               bytes);
  }
}

}  // namespace

int main() {
  ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  const auto table = cuda_policy_kernels();
  if (!at::hasCUDA() || !table) {
    std::printf("no GPU or no kernels for it%s%s\n", table ? "" : ": ",
                table ? "" : table.error().message.c_str());
    return 0;
  }
  few_rows_times(**table, 896, 4864);
  few_rows_times(**table, 1536, 8960);
  for (std::int32_t rows : {1, 64, 256}) {
    attention_times(**table, {2, 7, 64}, rows, 576);
    attention_times(**table, {2, 6, 128}, rows, 576);
    attention_times(**table, {2, 7, 64}, rows, 4096);
    sample_time(**table, rows);
    layer_times(**table, rows, 896, 4864);
    product_time(rows, 896, 1152, false);
    product_time(rows, 896, 896, false);
    product_time(rows, 896, 9728, false);
    product_time(rows, 4864, 896, false);
    product_time(rows, 896, 151936, true);
  }
  return 0;
}
