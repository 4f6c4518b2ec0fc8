// Calling a candidate's entries, whose prototypes are known only as a number of arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "env/runner/protocol.hpp"

namespace quern::env::runner {

// Pointers and int64 values travel alike in the C calling convention, so a call with n arguments is
// a call of a function of n words, whatever its prototype says.
inline constexpr std::size_t max_words = max_tensors + max_sizes + 2;
using words = std::array<std::uint64_t, max_words>;

template <std::size_t>
using word = std::uint64_t;

template <std::size_t... I>
void call_with(void* entry, const words& a, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(word<I>...)>(entry)(a[I]...);
}

template <std::size_t N>
void call_n(void* entry, const words& a) {
  call_with(entry, a, std::make_index_sequence<N>());
}

template <std::size_t... I>
constexpr auto make_call_table(std::index_sequence<I...>) {
  return std::array<void (*)(void*, const words&), sizeof...(I)>{&call_n<I>...};
}
inline constexpr auto word_calls = make_call_table(std::make_index_sequence<max_words + 1>());

template <std::size_t... I>
std::int64_t ask_with(void* entry, const std::array<std::int64_t, max_sizes>& a,
                      std::index_sequence<I...>) {
  return reinterpret_cast<std::int64_t (*)(word<I>...)>(entry)(static_cast<std::uint64_t>(a[I])...);
}

template <std::size_t N>
std::int64_t ask_n(void* entry, const std::array<std::int64_t, max_sizes>& a) {
  return ask_with(entry, a, std::make_index_sequence<N>());
}

template <std::size_t... I>
constexpr auto make_ask_table(std::index_sequence<I...>) {
  return std::array<std::int64_t (*)(void*, const std::array<std::int64_t, max_sizes>&),
                    sizeof...(I)>{&ask_n<I>...};
}
inline constexpr auto size_questions = make_ask_table(std::make_index_sequence<max_sizes + 1>());

}  // namespace quern::env::runner
