// What a function returns that can fail: a value or an error with a message for a person.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <tl/expected.hpp>

namespace quern::base {

/// The kind of failure; decides the exit code and whether a retry makes sense. Only grows.
enum class errc {
  invalid_argument,  ///< the caller or a file gave a value that is not allowed
  not_found,         ///< a file, task, key or row is not there
  already_exists,    ///< refusing to overwrite
  io,                ///< the operating system refused; the message has its text
  corrupt,           ///< stored data do not pass their own check
  version,           ///< a format version that this build does not know
  conflict,          ///< another owner, incarnation or state than the operation needs
  unavailable,       ///< something this host lacks (a sandbox layer, a GPU), or a peer that is gone
  timeout,           ///< a deadline passed
  exhausted,         ///< a bounded queue, budget or retry count is used up
  internal           ///< an invariant of ours does not hold
};

std::string_view to_string(errc code);

/// `message` names the value, the limit and what to do; it ends without a full stop.
struct error {
  errc code = errc::internal;
  std::string message;
};

template <class T>
using expected = tl::expected<T, error>;
using status = expected<void>;

/// Builds the error arm of any `expected`: `return fail(errc::io, "cannot open {}: {}", path,
/// why);`
template <class... Args>
tl::unexpected<error> fail(errc code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::make_unexpected(error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// The same error with what was being done in front: "reading x.yaml: unknown key 'siz'".
inline tl::unexpected<error> in_context(std::string_view doing, error cause) {
  cause.message = fmt::format("{}: {}", doing, cause.message);
  return tl::make_unexpected(std::move(cause));
}

/// `fail` with the text of errno appended.
tl::unexpected<error> fail_errno(std::string_view doing);

}  // namespace quern::base

#define QUERN_CONCAT_INNER(a, b) a##b
#define QUERN_CONCAT(a, b) QUERN_CONCAT_INNER(a, b)

/// `QUERN_TRY(auto x, f());` binds the value of an expected, or returns its error from this
/// function.
#define QUERN_TRY(lhs, expression) \
  QUERN_TRY_INNER(QUERN_CONCAT(quern_try_, __LINE__), lhs, expression)
#define QUERN_TRY_INNER(temporary, lhs, expression)                           \
  auto temporary = (expression);                                              \
  if (!temporary) return ::tl::make_unexpected(std::move(temporary).error()); \
  lhs = std::move(*temporary)

/// `QUERN_CHECK(f());` returns the error of a status or expected from this function.
#define QUERN_CHECK(expression)                                      \
  do {                                                               \
    if (auto quern_check_ = (expression); !quern_check_)             \
      return ::tl::make_unexpected(std::move(quern_check_).error()); \
  } while (false)
