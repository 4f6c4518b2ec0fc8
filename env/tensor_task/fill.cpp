// Content of input tensors by distribution.
#include "env/tensor_task/fill.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "env/tensor_task/content_check.hpp"
#include "env/tensor_task/elements.hpp"

namespace quern::env {

namespace {

/// Quantile of the standard normal distribution. P. J. Acklam's rational approximation, relative
/// error below 1.2e-9.
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01, -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00};
  constexpr double low = 0.02425;
  if (p < low || p > 1 - low) {
    const double q = std::sqrt(-2 * std::log(std::min(p, 1 - p)));
    const double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                     ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return p < low ? x : -x;
  }
  const double q = p - 0.5;
  const double r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

/// The upper 24 bits as a number in the open interval (0, 1); the lower 8 are left for choices.
double open_unit(std::uint32_t bits) {
  return ((bits >> 8) + 0.5) * 0x1p-24;
}

/// 32 addressed bits for each element.
class element_bits {
 public:
  explicit element_bits(base::random_address where) : where_(where) {}
  std::uint32_t operator()(std::int64_t element) {
    const auto position = static_cast<std::uint64_t>(element) / 4;
    if (position != position_) {
      block_ = base::random_block(where_, position);
      position_ = position;
    }
    return block_[static_cast<std::size_t>(element % 4)];
  }

 private:
  base::random_address where_;
  std::uint64_t position_ = std::numeric_limits<std::uint64_t>::max();
  std::array<std::uint32_t, 4> block_{};
};

/// What the value of one element may depend on.
struct element {
  std::uint32_t bits;   // its own random bits
  std::uint32_t first;  // those of the tensor's first element: one draw for the whole tensor
  std::int64_t at;      // its index, and the length of the last dimension
  std::int64_t row;
};

/// (j + u) / row for element j of a row: ascending along it.
double ascending_unit(const element& one, double u) {
  return (static_cast<double>(one.at % one.row) + u) / static_cast<double>(one.row);
}

double floating_value(distribution kind, const element& one) {
  const double u = open_unit(one.bits);
  const std::uint32_t choice = one.bits & 0xFF;
  switch (kind) {
    case distribution::uniform:
      return 2 * u - 1;
    case distribution::large:
      return 64 * normal_quantile(u);
    case distribution::sparse:
      return choice < 26 ? normal_quantile(u) : 0.0;
    case distribution::sorted:
      return normal_quantile(ascending_unit(one, u));
    case distribution::constant:
      return (one.first & 1 ? -1.0 : 1.0) * (0.25 + 1.75 * open_unit(one.first));
    case distribution::positive:
      return 0.5 + u;
    case distribution::special:
      if (choice < 4) return std::numeric_limits<double>::infinity();
      if (choice < 8) return -std::numeric_limits<double>::infinity();
      if (choice < 12) return std::numeric_limits<double>::quiet_NaN();
      return normal_quantile(u);
    default:
      return normal_quantile(u);
  }
}

std::int64_t integer_value(distribution kind, const element& one, std::int64_t below) {
  const auto scaled = [&](double u) {
    return std::min(below - 1, static_cast<std::int64_t>(u * static_cast<double>(below)));
  };
  const double u = (one.bits + 0.5) * 0x1p-32;
  switch (kind) {
    case distribution::sparse:
      return (one.bits & 0xFF) < 26 ? scaled(u) : 0;
    case distribution::sorted:
      return scaled(ascending_unit(one, u));
    case distribution::constant:
      return scaled((one.first + 0.5) * 0x1p-32);
    default:
      return scaled(u);
  }
}

/// A subnormal number: the sign and a mantissa in the lower half of its range, so that the factor
/// of refresh_input keeps it subnormal. `Bits` is the unsigned type of the format, `mantissa` its
/// number of mantissa bits.
template <class Bits>
Bits denormal_bits(const element& one, int mantissa) {
  const auto sign = static_cast<Bits>(static_cast<Bits>(one.bits >> 31) << (8 * sizeof(Bits) - 1));
  const auto fraction = static_cast<std::uint64_t>(one.bits & 0x7FFFFFFF) << 33 >> (65 - mantissa);
  return static_cast<Bits>(sign | static_cast<Bits>(fraction) | 1);
}

/// Writes make(element) to every element of a tensor of T.
template <class T, class F>
void write_each(const tensor_layout& layout, base::random_address where, std::span<std::byte> out,
                F make) {
  T* data = reinterpret_cast<T*>(out.data());
  element_bits bits(where);
  element one{0, bits(0), 0, layout.shape.empty() ? 1 : layout.shape.back()};
  for (; one.at < layout.elements; ++one.at) {
    one.bits = bits(one.at);
    data[one.at] = static_cast<T>(make(one));
  }
}

}  // namespace

base::status check_content(const tensor_layout& layout, distribution kind, std::size_t bytes) {
  if (bytes != static_cast<std::size_t>(layout.bytes)) {
    return base::fail(base::errc::invalid_argument, "tensor '{}' has {} bytes, the buffer {}",
                      layout.name, layout.bytes, bytes);
  }
  if (is_floating(layout.type)) return {};
  if (!has_integer_form(kind)) {
    return base::fail(base::errc::invalid_argument, "tensor '{}' is {} and cannot be '{}'",
                      layout.name, name_of(layout.type), name_of(kind));
  }
  if (layout.below < 1) {
    return base::fail(base::errc::invalid_argument,
                      "tensor '{}' is {} and its layout has no 'below'", layout.name,
                      name_of(layout.type));
  }
  return {};
}

base::status fill_input(const tensor_layout& layout, distribution kind, content_address where,
                        std::span<std::byte> out) {
  QUERN_CHECK(check_content(layout, kind, out.size()));
  const auto address = base::random_address::of(where.seed, "inputs", {where.input, where.round});
  visit_element(layout.type, [&](auto type) {
    using T = decltype(type);
    if constexpr (!is_floating_element<T>) {
      write_each<T>(layout, address, out,
                    [&](const element& one) { return integer_value(kind, one, layout.below); });
    } else if (kind == distribution::denormal) {
      write_each<element_bits_of<T>>(layout, address, out, [](const element& one) {
        return denormal_bits<element_bits_of<T>>(one, mantissa_bits<T>);
      });
    } else {
      write_each<T>(layout, address, out, [&](const element& one) {
        return element_from<T>(static_cast<value_type_of<T>>(floating_value(kind, one)));
      });
    }
  });
  return {};
}

base::expected<std::vector<tensor_bytes>> make_inputs(const task_instance& at,
                                                      std::span<const distribution> kinds,
                                                      std::uint64_t seed, std::uint32_t round) {
  std::vector<tensor_bytes> result;
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    tensor_bytes bytes(static_cast<std::size_t>(at.inputs[i].bytes));
    QUERN_CHECK(
        fill_input(at.inputs[i], kinds[i], {seed, static_cast<std::uint32_t>(i), round}, bytes));
    result.push_back(std::move(bytes));
  }
  return result;
}

}  // namespace quern::env
