// Scalar interpreters of compositions, one template for all three arithmetics.
#include "env/grammar/interpret.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace quern::env {

namespace {

template <class T>
class machine {
 public:
  machine(const composition_inputs& inputs, bool fast)
      : inputs_(inputs), fast_(fast), n_(inputs.n), m_(inputs.m), h_(inputs.x.size()) {
    for (std::size_t k = 0; k < h_.size(); ++k)
      h_[k] = static_cast<T>(inputs.x[k]);
  }

  void apply(const composition_step& step) {
    switch (class_of(step.kind)) {
      case step_class::scalar:
        scalar(step);
        break;
      case step_class::row:
        for (std::int64_t i = 0; i < n_; ++i)
          with_row(step.kind, row(i));
        break;
      case step_class::tensor:
        for (std::size_t k = 0; k < h_.size(); ++k)
          h_[k] = with_tensor(step.kind, h_[k], k);
        break;
      case step_class::transposition:
        transpose();
        break;
      default:
        for (std::int64_t i = 0; i < n_; ++i)
          along_row(step.kind, i);
        if (class_of(step.kind) == step_class::reduction) h_.resize(static_cast<std::size_t>(n_));
    }
  }

  std::vector<double> result() const { return {h_.begin(), h_.end()}; }

 private:
  T exponential(T v) const {
    if constexpr (std::is_same_v<T, float>)
      if (fast_) return fast_exp(v);
    return std::exp(v);
  }

  /// The step is chosen once and not for each element: drawing tasks spends its time here.
  void scalar(const composition_step& step) {
    const T c = static_cast<T>(step.constant);
    const T one = 1;
    const auto each = [&](auto value) {
      for (T& h : h_)
        h = value(h);
    };
    switch (step.kind) {
      case step_kind::relu:
        return each([](T h) { return h > 0 ? h : 0; });
      case step_kind::clip:
        return each([&](T h) { return std::min(std::max(h, -one), one); });
      case step_kind::abs:
        return each([](T h) { return std::fabs(h); });
      case step_kind::negate:
        return each([](T h) { return -h; });
      case step_kind::square:
        return each([](T h) { return h * h; });
      case step_kind::root:
        return each([&](T h) { return std::sqrt(std::fabs(h) + one); });
      case step_kind::softsign:
        return each([&](T h) { return h / (std::fabs(h) + one); });
      case step_kind::sigmoid:
        return each([&](T h) { return one / (one + exponential(-h)); });
      case step_kind::tanh:
        return each(
            [&](T h) { return fast_ ? one - 2 / (one + exponential(2 * h)) : std::tanh(h); });
      case step_kind::silu:
        return each([&](T h) { return h / (one + exponential(-h)); });
      case step_kind::decay:
        return each([&](T h) { return exponential(-std::fabs(h)); });
      case step_kind::scale:
        return each([&](T h) { return h * c; });
      default:
        return each([&](T h) { return h + c; });
    }
  }

  T with_tensor(step_kind kind, T h, std::size_t k) const {
    const T t = static_cast<T>(inputs_.t[k]);
    if (kind == step_kind::times_tensor) return h * t;
    if (kind == step_kind::plus_tensor) return h + t;
    return std::max(h, t);
  }

  void with_row(step_kind kind, T* h) const {
    for (std::int64_t j = 0; j < m_; ++j) {
      const T w = static_cast<T>(inputs_.w[static_cast<std::size_t>(j)]);
      h[j] = kind == step_kind::times_row ? h[j] * w : h[j] + w;
    }
  }

  T* row(std::int64_t i) { return h_.data() + i * m_; }

  template <class F>
  T sum(const T* h, F term) const {
    T s = 0;
    for (std::int64_t j = 0; j < m_; ++j)
      s += term(h[j]);
    return s;
  }

  void along_row(step_kind kind, std::int64_t i) {
    T* h = row(i);
    const T count = static_cast<T>(m_);
    const T eps = static_cast<T>(norm_eps);
    const auto itself = [](T v) { return v; };
    const auto square = [](T v) { return v * v; };
    const auto divide = [&](T by) { std::for_each(h, h + m_, [&](T& v) { v /= by; }); };
    const auto centre = [&] {
      const T mean = sum(h, itself) / count;
      std::for_each(h, h + m_, [&](T& v) { v -= mean; });
    };
    switch (kind) {
      case step_kind::centre:
        return centre();
      case step_kind::rms:
        return divide(std::sqrt(sum(h, square) / count + eps));
      case step_kind::l1:
        return divide(sum(h, [](T v) { return std::fabs(v); }) / count + eps);
      case step_kind::layer_norm:
        centre();
        return divide(std::sqrt(sum(h, square) / count + eps));
      case step_kind::softmax: {
        const T top = *std::max_element(h, h + m_);
        std::for_each(h, h + m_, [&](T& v) { v = exponential(v - top); });
        return divide(sum(h, itself));
      }
      case step_kind::running_sum:
        for (std::int64_t j = 1; j < m_; ++j)
          h[j] += h[j - 1];
        return;
      case step_kind::running_max:
        for (std::int64_t j = 1; j < m_; ++j)
          h[j] = std::max(h[j], h[j - 1]);
        return;
      case step_kind::difference:
        for (std::int64_t j = m_ - 1; j > 0; --j)
          h[j] -= h[j - 1];
        return;
      case step_kind::smooth:
        return smooth(h);
      case step_kind::row_max:
        h_[static_cast<std::size_t>(i)] = *std::max_element(h, h + m_);
        return;
      case step_kind::row_mean:
        h_[static_cast<std::size_t>(i)] = sum(h, itself) / count;
        return;
      default:  // row_sum: element i of the shrunken result is never ahead of row i
        h_[static_cast<std::size_t>(i)] = sum(h, itself);
    }
  }

  void smooth(T* h) const {
    T before = 0;
    for (std::int64_t j = 0; j < m_; ++j) {
      const T here = h[j];
      h[j] = before + here + (j + 1 < m_ ? h[j + 1] : 0);
      before = here;
    }
  }

  void transpose() {
    std::vector<T> turned(h_.size());
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j < m_; ++j)
        turned[static_cast<std::size_t>(j * n_ + i)] = h_[static_cast<std::size_t>(i * m_ + j)];
    h_ = std::move(turned);
  }

  const composition_inputs& inputs_;
  bool fast_;
  std::int64_t n_;
  std::int64_t m_;
  std::vector<T> h_;
};

template <class T>
std::vector<double> run(const composition& what, const composition_inputs& inputs, bool fast) {
  machine<T> on(inputs, fast);
  for (const composition_step& step : what.steps)
    on.apply(step);
  return on.result();
}

}  // namespace

std::int64_t output_elements(const composition& what, std::int64_t n, std::int64_t m) {
  const std::size_t at = structural_index(what);
  const bool reduced =
      at < what.steps.size() && class_of(what.steps[at].kind) == step_class::reduction;
  return reduced ? n : n * m;
}

std::vector<double> interpret(const composition& what, const composition_inputs& inputs,
                              arithmetic how) {
  if (how == arithmetic::exact) return run<double>(what, inputs, false);
  return run<float>(what, inputs, how == arithmetic::fast);
}

float fast_exp(float v) {
  v = (v - 80 + std::fabs(v + 80)) / 128;
  v = 1 + v * (1 + v * (0.5F + v / 6));
  for (int k = 0; k < 6; ++k)
    v *= v;
  return v;
}

}  // namespace quern::env
