// Checked and wrapping arithmetic.
#include "env/lanes/cuda/launch/arithmetic.hpp"

#include <cmath>

#include <fmt/format.h>

namespace quern::env::plan {
namespace {

bool is_wide_unsigned(scalar type) {
  return !is_signed(type) && size_of(type) == 8;
}

// The bits of the low bytes, as a number of this type.
std::int64_t wrapped(scalar type, std::uint64_t bits) {
  if (type == scalar::boolean) return bits != 0 ? 1 : 0;
  const int size = 8 * size_of(type);
  if (size == 64) return static_cast<std::int64_t>(bits);
  bits &= (std::uint64_t{1} << size) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (size - 1);
  if (is_signed(type))
    return static_cast<std::int64_t>(bits ^ sign) - static_cast<std::int64_t>(sign);
  return static_cast<std::int64_t>(bits);
}

// Whether a number in 64 bits (`wide_unsigned`: read without sign) is one of this type.
bool fits(scalar type, std::int64_t word, bool wide_unsigned) {
  if (size_of(type) == 8) {
    const bool beyond = wide_unsigned && word < 0;
    return is_signed(type) ? !beyond : (wide_unsigned || word >= 0);
  }
  if (wide_unsigned && word < 0) return false;
  return wrapped(type, static_cast<std::uint64_t>(word)) == word;
}

fault does_not_fit(const std::string& number, scalar type) {
  return fmt::format("{} does not fit {}", number, name_of(type));
}

fault float_to_integer(double in, scalar to, value& out) {
  const double whole = std::trunc(in);
  const int bits = 8 * size_of(to) - (is_signed(to) ? 1 : 0);
  const double above = std::ldexp(1.0, bits);
  const double below = is_signed(to) ? -above : 0.0;
  // Written so that NaN does not pass.
  if (!(whole >= below && whole < above)) return does_not_fit(fmt::format("{}", in), to);
  out.word[0] = is_wide_unsigned(to) ? static_cast<std::int64_t>(static_cast<std::uint64_t>(whole))
                                     : static_cast<std::int64_t>(whole);
  return {};
}

double as_real(scalar type, std::int64_t word) {
  return is_wide_unsigned(type) ? static_cast<double>(static_cast<std::uint64_t>(word))
                                : static_cast<double>(word);
}

float as_float(scalar type, std::int64_t word) {
  return is_wide_unsigned(type) ? static_cast<float>(static_cast<std::uint64_t>(word))
                                : static_cast<float>(word);
}

template <class Number>
bool compare(operation what, Number left, Number right) {
  switch (what) {
    case operation::equal:
      return left == right;
    case operation::not_equal:
      return left != right;
    case operation::less:
      return left < right;
    case operation::greater:
      return left > right;
    case operation::less_equal:
      return left <= right;
    default:
      return left >= right;
  }
}

template <class Real>
fault real_binary(operation what, Real left, Real right, value& out) {
  switch (what) {
    case operation::add:
      out.real = static_cast<Real>(left + right);
      return {};
    case operation::subtract:
      out.real = static_cast<Real>(left - right);
      return {};
    case operation::multiply:
      out.real = static_cast<Real>(left * right);
      return {};
    case operation::divide:
      out.real = static_cast<Real>(left / right);
      return {};
    case operation::minimum:
      out.real = right < left ? right : left;
      return {};
    case operation::maximum:
      out.real = left < right ? right : left;
      return {};
    default:
      return "this operator has no floating operands";
  }
}

std::string_view sign_of(operation what) {
  switch (what) {
    case operation::add:
      return "+";
    case operation::subtract:
      return "-";
    case operation::multiply:
      return "*";
    case operation::divide:
      return "/";
    default:
      return "%";
  }
}

fault overflow(operation what, scalar type, std::int64_t left, std::int64_t right) {
  return fmt::format("{} {} {} does not fit {}", left, sign_of(what), right, name_of(type));
}

fault unsigned_binary(operation what, scalar type, std::uint64_t left, std::uint64_t right,
                      value& out) {
  std::uint64_t result = 0;
  switch (what) {
    case operation::add:
      result = left + right;
      break;
    case operation::subtract:
      result = left - right;
      break;
    case operation::multiply:
      result = left * right;
      break;
    case operation::divide:
    case operation::remainder:
      if (right == 0) return fmt::format("{} {} 0: division by zero", left, sign_of(what));
      result = what == operation::divide ? left / right : left % right;
      break;
    case operation::bit_and:
      result = left & right;
      break;
    case operation::bit_or:
      result = left | right;
      break;
    case operation::bit_xor:
      result = left ^ right;
      break;
    case operation::minimum:
      result = right < left ? right : left;
      break;
    default:
      result = left < right ? right : left;
      break;
  }
  out.word[0] = wrapped(type, result);
  return {};
}

fault signed_binary(operation what, scalar type, std::int64_t left, std::int64_t right,
                    value& out) {
  std::int64_t result = 0;
  bool beyond = false;
  switch (what) {
    case operation::add:
      beyond = __builtin_add_overflow(left, right, &result);
      break;
    case operation::subtract:
      beyond = __builtin_sub_overflow(left, right, &result);
      break;
    case operation::multiply:
      beyond = __builtin_mul_overflow(left, right, &result);
      break;
    case operation::divide:
    case operation::remainder:
      if (right == 0) return fmt::format("{} {} 0: division by zero", left, sign_of(what));
      // The quotient of the least number by -1 does not fit, and C++ leaves the remainder
      // undefined with it.
      if (right == -1) {
        beyond = __builtin_sub_overflow(std::int64_t{0}, left, &result);
        if (beyond || !fits(type, result, false)) return overflow(what, type, left, right);
        if (what == operation::remainder) result = 0;
      } else {
        result = what == operation::divide ? left / right : left % right;
      }
      break;
    case operation::bit_and:
      result = left & right;
      break;
    case operation::bit_or:
      result = left | right;
      break;
    case operation::bit_xor:
      result = left ^ right;
      break;
    case operation::minimum:
      result = right < left ? right : left;
      break;
    default:
      result = left < right ? right : left;
      break;
  }
  if (beyond || !fits(type, result, false)) return overflow(what, type, left, right);
  out.word[0] = result;
  return {};
}

fault shift(operation what, scalar type, std::int64_t left, scalar right_type, const value& right,
            value& out) {
  const int bits = 8 * size_of(type);
  const bool beyond = is_wide_unsigned(right_type) && right.word[0] < 0;
  if (beyond || right.word[0] < 0 || right.word[0] >= bits) {
    return fmt::format("shift of {} by {}: allowed are 0 to {}", name_of(type),
                       to_text(right_type, right), bits - 1);
  }
  const auto count = static_cast<unsigned>(right.word[0]);
  if (what == operation::shift_right) {
    out.word[0] = is_signed(type)
                      ? left >> count
                      : static_cast<std::int64_t>(static_cast<std::uint64_t>(left) >> count);
    return {};
  }
  const auto moved = static_cast<std::int64_t>(static_cast<std::uint64_t>(left) << count);
  if (!is_signed(type)) {
    out.word[0] = wrapped(type, static_cast<std::uint64_t>(moved));
    return {};
  }
  if (moved >> count != left || !fits(type, moved, false)) {
    return fmt::format("{} << {} does not fit {}", left, count, name_of(type));
  }
  out.word[0] = moved;
  return {};
}

}  // namespace

fault convert_number(scalar from, scalar to, conversion how, const value& in, value& out) {
  out.set = true;
  if (is_floating(from)) {
    const double real = in.real;
    if (to == scalar::double_type) {
      out.real = real;
    } else if (to == scalar::float_type) {
      out.real = static_cast<double>(static_cast<float>(real));
    } else if (to == scalar::boolean) {
      out.word[0] = real != 0 ? 1 : 0;
    } else {
      return float_to_integer(real, to, out);
    }
    return {};
  }
  const std::int64_t word = in.word[0];
  if (to == scalar::double_type) {
    out.real = as_real(from, word);
  } else if (to == scalar::float_type) {
    out.real = static_cast<double>(as_float(from, word));
  } else if (to == scalar::boolean) {
    out.word[0] = word != 0 ? 1 : 0;
  } else {
    const bool wraps = !is_signed(to) && how != conversion::implicit;
    if (!wraps && !fits(to, word, is_wide_unsigned(from))) {
      return does_not_fit(to_text(from, in), to);
    }
    out.word[0] = wrapped(to, static_cast<std::uint64_t>(word));
  }
  return {};
}

fault apply_unary(operation what, scalar type, const value& in, value& out) {
  out.set = true;
  if (what == operation::logical_not) {
    const bool truth = is_floating(type) ? in.real != 0 : in.word[0] != 0;
    out.word[0] = truth ? 0 : 1;
    return {};
  }
  if (is_floating(type)) {
    if (what != operation::negate) return "this operator has no floating operand";
    out.real = -in.real;
    return {};
  }
  const auto bits = static_cast<std::uint64_t>(in.word[0]);
  if (what == operation::complement) {
    out.word[0] = wrapped(type, ~bits);
    return {};
  }
  if (is_signed(type)) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, in.word[0], &result) ||
        !fits(type, result, false)) {
      return fmt::format("-({}) does not fit {}", in.word[0], name_of(type));
    }
    out.word[0] = result;
    return {};
  }
  out.word[0] = wrapped(type, std::uint64_t{0} - bits);
  return {};
}

bool is_comparison(operation what) {
  return what >= operation::equal && what <= operation::greater_equal;
}

fault apply_binary(operation what, scalar type, const value& left, scalar right_type,
                   const value& right, value& out) {
  // Results go to a copy: `out` may be one of the operands.
  value result;
  fault wrong;
  if (is_comparison(what)) {
    bool truth = false;
    if (is_floating(type)) {
      truth = compare(what, left.real, right.real);
    } else if (is_wide_unsigned(type)) {
      truth = compare(what, static_cast<std::uint64_t>(left.word[0]),
                      static_cast<std::uint64_t>(right.word[0]));
    } else {
      truth = compare(what, left.word[0], right.word[0]);
    }
    result.word[0] = truth ? 1 : 0;
  } else if (type == scalar::float_type) {
    wrong =
        real_binary(what, static_cast<float>(left.real), static_cast<float>(right.real), result);
  } else if (type == scalar::double_type) {
    wrong = real_binary(what, left.real, right.real, result);
  } else if (what == operation::shift_left || what == operation::shift_right) {
    wrong = shift(what, type, left.word[0], right_type, right, result);
  } else if (is_signed(type)) {
    wrong = signed_binary(what, type, left.word[0], right.word[0], result);
  } else {
    wrong = unsigned_binary(what, type, static_cast<std::uint64_t>(left.word[0]),
                            static_cast<std::uint64_t>(right.word[0]), result);
  }
  out = result;
  return wrong;
}

std::string to_text(scalar type, const value& what) {
  if (is_floating(type)) return fmt::format("{}", what.real);
  if (type == scalar::boolean) return what.word[0] != 0 ? "true" : "false";
  if (is_wide_unsigned(type)) {
    return fmt::format("{}", static_cast<std::uint64_t>(what.word[0]));
  }
  return fmt::format("{}", what.word[0]);
}

}  // namespace quern::env::plan
