// Requests are checked and weights are kept here; an engine computes.
#include "policy/engine/generator.hpp"

#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "policy/device/library.hpp"
#include "policy/engine/generation_engine.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// The initial weights where they are to be used, if that is elsewhere; the same tensor otherwise.
parameter_arena arena_on(const parameter_arena& initial, at::Device device) {
  if (initial.flat.device() == device) return initial;
  parameter_arena moved = initial.empty_as(initial.flat.scalar_type(), device);
  moved.flat.copy_(initial.flat);
  return moved;
}

/// By the method that is asked for, or the best there is.
base::expected<std::unique_ptr<generation_engine>> make_engine_for(
    const parameter_arena& initial, std::int64_t version, const base::hash128& hash,
    const generator_options& options, const parallel_context& context) {
  const at::Device device = options.device.value_or(initial.flat.device());
  const bool can_be_paged = initial.flat.scalar_type() != at::kDouble;
  if (options.method == generation_method::paged ||
      (options.method == generation_method::automatic && device.is_cuda() && can_be_paged)) {
    auto paged = make_paged_engine(initial, version, hash, options, context);
    if (paged || options.method == generation_method::paged ||
        paged.error().code != errc::unavailable || cuda_policy_kernels())
      return paged;
  }
  return make_slot_engine(arena_on(initial, device), version, hash, options, context);
}

}  // namespace

std::string_view to_string(finish_reason reason) {
  constexpr std::array<std::string_view, 3> names{"stop", "length", "cancelled"};
  return names[static_cast<std::size_t>(reason)];
}

base::status check_request(const generation_request& r, std::int64_t vocabulary,
                           std::int64_t capacity) {
  if (r.prompt.empty())
    return fail(errc::invalid_argument, "request {}: the prompt is empty; give at least one token",
                r.id);
  for (std::int32_t token : r.prompt)
    if (token < 0 || token >= vocabulary)
      return fail(errc::invalid_argument,
                  "request {}: prompt token {} is outside the vocabulary of {}", r.id, token,
                  vocabulary);
  if (static_cast<std::int64_t>(r.prompt.size()) >= capacity)
    return fail(
        errc::invalid_argument,
        "request {}: a prompt of {} tokens leaves no room in a cache of {} positions; shorten it",
        r.id, r.prompt.size(), capacity);
  if (r.max_tokens < 1 && r.given.empty())
    return fail(errc::invalid_argument, "request {}: max_tokens is {}, but must be at least 1",
                r.id, r.max_tokens);
  if (!r.greedy && !(r.temperature > 0 && r.temperature < 1e6))
    return fail(errc::invalid_argument,
                "request {}: temperature is {}, but must be above 0; for the likeliest token ask "
                "for greedy",
                r.id, r.temperature);
  for (std::int32_t token : r.given)
    if (token < 0 || token >= vocabulary)
      return fail(errc::invalid_argument,
                  "request {}: given token {} is outside the vocabulary of {}", r.id, token,
                  vocabulary);
  if (static_cast<std::int64_t>(r.prompt.size() + r.given.size()) > capacity)
    return fail(errc::invalid_argument,
                "request {}: a prompt of {} tokens and a given completion of {} are more than the "
                "cache's {} positions; raise the capacity",
                r.id, r.prompt.size(), r.given.size(), capacity);
  return {};
}

namespace {

/// What is given is all of the completion.
generation_request as_given(const generation_request& asked) {
  generation_request r = asked;
  r.max_tokens = static_cast<std::int32_t>(r.given.size());
  r.stop_ids.clear();
  r.ignore_eos = true;
  return r;
}

}  // namespace

struct generator::state {
  generator_options options;
  parameter_arena staged;
  std::int64_t version = 0;
  base::hash128 hash;
  std::optional<std::pair<std::int64_t, base::hash128>> announced;
  std::unique_ptr<generation_engine> engine;
};

base::expected<std::unique_ptr<generator::state>> generator::prepare(
    const parameter_arena& initial, parameter_arena landing, std::int64_t version,
    const generator_options& options) {
  auto s = std::make_unique<state>();
  s->options = options;
  if (s->options.capacity == 0)
    s->options.capacity = static_cast<std::int32_t>(initial.config.max_positions);
  if (options.valid_tokens < 0 || options.valid_tokens > initial.config.vocab_size)
    return fail(errc::invalid_argument, "valid_tokens is {}, but the vocabulary has {} rows",
                options.valid_tokens, initial.config.vocab_size);
  if (options.valid_tokens == 0) s->options.valid_tokens = initial.config.vocab_size;
  s->version = version;
  s->hash = initial.hash();
  s->staged = std::move(landing);
  return s;
}

base::expected<generator> generator::make(const parameter_arena& initial, std::int64_t version,
                                          const generator_options& options,
                                          const parallel_context& context) {
  // Before the engine, whose pages take most of the memory that is left.
  QUERN_TRY(auto s, prepare(initial, initial.like(), version, options));
  QUERN_TRY(s->engine, make_engine_for(initial, version, s->hash, s->options, context));
  return generator(std::move(s));
}

base::expected<generator> generator::make(parameter_arena&& initial, std::int64_t version,
                                          const generator_options& options,
                                          const parallel_context& context) {
  const parameter_arena own = std::move(initial);
  QUERN_TRY(auto s, prepare(own, own, version, options));
  QUERN_TRY(s->engine, make_engine_for(own, version, s->hash, s->options, context));
  return generator(std::move(s));
}

base::expected<generator> generator::make(const parameter_arena& initial, std::int64_t version,
                                          const generator_options& options,
                                          std::unique_ptr<generation_engine> engine) {
  QUERN_TRY(auto s, prepare(initial, initial.like(), version, options));
  s->engine = std::move(engine);
  return generator(std::move(s));
}

base::status generator::submit(std::span<const generation_request> requests) {
  const state& s = *state_;
  std::unordered_set<std::uint64_t> fresh;
  for (const generation_request& r : requests) {
    QUERN_CHECK(check_request(r, s.options.valid_tokens, s.options.capacity));
    if (s.engine->in_flight(r.id))
      return fail(errc::already_exists, "request {} is in flight already", r.id);
    if (!fresh.insert(r.id).second)
      return fail(errc::invalid_argument, "request {} is given twice", r.id);
  }
  std::vector<generation_request> whole;
  for (const generation_request& r : requests)
    whole.push_back(r.given.empty() ? r : as_given(r));
  s.engine->submit(whole);
  return {};
}

base::status generator::cancel(std::uint64_t id) {
  if (state_->engine->cancel(id)) return {};
  return fail(errc::not_found, "request {} is not in flight", id);
}

std::vector<generation_result> generator::step() {
  return state_->engine->step();
}

std::vector<generation_result> generator::run() {
  std::vector<generation_result> all;
  while (!idle())
    for (generation_result& r : step())
      all.push_back(std::move(r));
  return all;
}

bool generator::idle() const {
  return state_->engine->idle();
}
std::size_t generator::in_flight() const {
  return state_->engine->in_flight();
}

base::status generator::announce(std::int64_t version, const base::hash128& hash, bool rollback) {
  if (version <= state_->version && !rollback)
    return fail(errc::conflict,
                "version {} was announced, but version {} is in use; only a rollback goes back",
                version, state_->version);
  state_->announced = {version, hash};
  return {};
}

parameter_arena generator::landing() const {
  return state_->staged;
}

base::expected<parameter_arena> generator::staging() {
  if (!state_->announced)
    return fail(errc::conflict,
                "no version was announced; announce one before its weights are written");
  return state_->staged;
}

base::status generator::commit(std::optional<base::hash128> known) {
  state& s = *state_;
  if (!s.announced)
    return fail(errc::conflict, "no version was announced; there is nothing to commit");
  const auto [version, expected] = *std::exchange(s.announced, std::nullopt);
  const base::hash128 found = known ? *known : s.staged.hash();
  if (found != expected)
    return fail(errc::corrupt,
                "version {}: the staged weights hash to {}, announced was {}; version {} stays",
                version, base::to_hex(found), base::to_hex(expected), s.version);
  QUERN_CHECK(s.engine->install(s.staged, version, found));
  s.version = version;
  s.hash = found;
  return {};
}

void generator::abort() {
  state_->announced.reset();
}
std::int64_t generator::version() const {
  return state_->version;
}
const base::hash128& generator::weights_hash() const {
  return state_->hash;
}
const generator_counters& generator::counters() const {
  return state_->engine->counters();
}

generator::generator(std::unique_ptr<state> parts) : state_(std::move(parts)) {}
generator::generator(generator&&) noexcept = default;
generator& generator::operator=(generator&&) noexcept = default;
generator::~generator() = default;

}  // namespace quern::policy
