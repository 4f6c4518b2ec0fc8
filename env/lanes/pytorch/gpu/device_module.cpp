// A Python process with a GPU and one module.
#include "env/lanes/pytorch/gpu/device_module.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr question_limits lending_limits{60, 60};
/// A region that is this many times as large as what is asked for, and so large, is given back.
constexpr std::uint64_t kept_beyond = 4, kept_bytes = std::uint64_t{4} << 30;
/// Regions below the latter have multiples of the former, so that few tasks need larger ones.
constexpr std::uint64_t region_step = std::uint64_t{64} << 20,
                        large_region = std::uint64_t{1} << 30;

base::status show_to_others(const fs::path& path) {
  std::error_code failed;
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read,
                  failed);
  if (failed)
    return base::fail(base::errc::io, "making {} readable: {}", path.string(), failed.message());
  return {};
}

template <class Body>
std::span<const std::byte> body_of(const Body& body) {
  return std::as_bytes(std::span(&body, 1));
}

answered<void> settled(answered<runner::reply> reply) {
  if (!reply) return tl::make_unexpected(std::move(reply).error());
  return {};
}

/// Nanoseconds from one look at the core to the next: once to twice as many, by chance, or calls a
/// little longer than others would have a look more each.
constexpr base::nanoseconds_t look_ns = 100'000;

/// From the first preparation to the last answer, less pauses; `ask` gets the number of each.
/// `look`: between some of them, which counts: what a call left to the device goes on meanwhile.
template <class Ask>
answered<base::nanoseconds_t> ask_each(int questions, call_times* each, const core_look& look,
                                       const call_preparation& prepare, const Ask& ask) {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  auto end = begin, looked = begin;
  base::nanoseconds_t paused = 0;
  for (int i = 0; i < questions; ++i) {
    if (look && each != nullptr && end - looked > look_ns + looked % look_ns) {
      each->looks.push_back(look());
      looked = end;
    }
    if (prepare) paused += prepare(static_cast<std::size_t>(i));
    const answered<base::nanoseconds_t> took = ask(i);
    end = clock.now_ns();
    if (!took) return took;
    if (each != nullptr) each->calls.push_back(*took);
  }
  return end - begin - paused;
}

runner::tensor_place place_of(const tensor_layout& layout, std::int32_t region,
                              const slot_layout& slots, std::size_t tensor) {
  runner::tensor_place place;
  place.file = static_cast<std::uint32_t>(region);
  place.type = static_cast<std::uint32_t>(layout.type);
  place.offset = slots.offset(tensor);
  place.stride = slots.stride();
  place.rank = static_cast<std::uint32_t>(layout.shape.size());
  std::ranges::copy(layout.shape, place.shape.begin());
  return place;
}

}  // namespace

base::expected<std::string> device_module::put(std::string_view name, const std::string& text) {
  const fs::path path = fs::path(child().folder()) / name;
  QUERN_CHECK(base::write_file_atomic(path, text));
  QUERN_CHECK(show_to_others(path));
  return path.string();
}

base::status device_module::put_file(std::string_view name, const std::string& from) {
  const fs::path path = fs::path(child().folder()) / name;
  std::error_code failed;
  fs::copy_file(from, path, failed);
  if (failed)
    return base::fail(base::errc::io, "copying {} to {}: {}", from, path.string(),
                      failed.message());
  return show_to_others(path);
}

answered<void> device_module::import(std::int32_t region, const device_allocation& memory,
                                     std::uint64_t hint) {
  const runner::gpu_import_request request{region, 0, memory.bytes(), hint, 0};
  return settled(child().link().ask(runner::command::gpu_import, body_of(request), memory.fd(),
                                    lending_limits, nullptr));
}

answered<void> device_module::plan(const runner::gpu_call_request& call) {
  return settled(
      child().link().ask(runner::command::gpu_call, body_of(call), -1, lending_limits, nullptr));
}

answered<void> device_module::wake() {
  return settled(child().link().flush(lending_limits));
}

answered<base::nanoseconds_t> device_module::run(int calls, question_limits limits,
                                                 call_times* each, const core_look& look,
                                                 const call_preparation& prepare) {
  constexpr double least_s = 0.01;  // of a call, whatever is left of the limit
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  return ask_each(calls, each, look, prepare, [&](int call) {
    const double passed_s = static_cast<double>(clock.now_ns() - begin) * 1e-9;
    question_limits left = limits;
    left.cpu_s = left.wall_s = std::max(least_s, limits.wall_s - passed_s);
    auto done = child().link().run(call, call + 1, left);
    if (!done && done.error().failure_kind == runner_failure::kind::timeout && calls > 1)
      done.error().text += fmt::format(
          ", which is what was left of {:.1f} s for {} calls of a window", limits.wall_s, calls);
    return done;
  });
}

answered<base::nanoseconds_t> device_module::deliver(int calls, question_limits limits,
                                                     call_times* each,
                                                     const call_preparation& prepare) {
  return ask_each(calls, each, {}, prepare, [&](int) -> answered<base::nanoseconds_t> {
    base::nanoseconds_t took = 0;
    const auto done = child().link().ask(runner::command::gpu_deliver, {}, -1, limits, &took);
    if (!done) return tl::make_unexpected(done.error());
    return took;
  });
}

runner::gpu_call_request module_places::call() const {
  runner::gpu_call_request request;
  request.inputs = static_cast<std::uint32_t>(at.inputs.size());
  request.outputs = static_cast<std::uint32_t>(at.outputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < at.inputs.size(); ++i)
    request.tensors[next++] = place_of(at.inputs[i], QUERN_INPUTS, inputs, i);
  for (std::size_t o = 0; o < at.outputs.size(); ++o)
    request.tensors[next++] = place_of(at.outputs[o], QUERN_OUTPUTS, outputs, o);
  return request;
}

runner::gpu_call_request module_places::content() const {
  runner::gpu_call_request request;
  request.inputs = static_cast<std::uint32_t>(at.inputs.size());
  for (std::size_t i = 0; i < at.inputs.size(); ++i)
    request.tensors[i] = place_of(at.inputs[i], QUERN_OUTPUTS, inputs, i);
  return request;
}

base::status module_memory::grow(device_allocation& region, std::uint64_t slot_bytes, int slots) {
  std::uint64_t bytes = std::max<std::uint64_t>(slot_bytes, 1) * static_cast<std::uint64_t>(slots);
  if (bytes < large_region) bytes = (bytes + region_step - 1) / region_step * region_step;
  const bool too_large = region.bytes() > kept_bytes && region.bytes() / kept_beyond > bytes;
  if (!region.empty() && bytes <= region.bytes() && !too_large) return {};
  region = {};  // first: two of them might not fit
  ++making_;
  QUERN_TRY(region, context_.allocate(bytes));
  return {};
}

base::status module_memory::reserve(const module_places& places, int slots, int ahead,
                                    std::uint64_t weights) {
  QUERN_CHECK(grow(staging_, places.inputs.stride(), slots + ahead));
  for (device_allocation* region : {&candidate_inputs_, &reference_inputs_})
    QUERN_CHECK(grow(*region, places.inputs.stride(), slots));
  for (device_allocation* region : {&candidate_, &reference_, &snapshot_})
    QUERN_CHECK(grow(*region, places.outputs.stride(), slots));
  for (device_allocation* region : {&weights_, &candidate_weights_})
    QUERN_CHECK(grow(*region, weights, 1));
  weight_bytes_ = weights;
  if (!flush_.empty()) return {};
  const std::uint64_t bytes = 2 * context_.facts().l2_bytes;
  QUERN_TRY(flush_, context_.allocate(bytes));
  context_.set(flush_.address(), bytes, 0);
  return {};
}

base::status module_memory::pin(std::uint64_t bytes) {
  if (pinned_.bytes().size() >= bytes) return {};
  pinned_ = {};
  QUERN_TRY(pinned_, context_.pin(bytes));
  return {};
}

std::uint64_t module_memory::somewhere() {
  // Anywhere in 16 TiB that drivers leave free, in steps of 2 MiB.
  constexpr std::uint64_t start = std::uint64_t{1} << 44, step = std::uint64_t{2} << 20;
  return start + addresses_.below(start / step) * step;
}

answered<void> module_memory::lend_to_content(device_module& to, const module_places& places) {
  if (auto done = to.import(QUERN_OUTPUTS, staging_, somewhere()); !done) return done;
  return to.plan(places.content());
}

answered<void> module_memory::lend_to_reference(device_module& to, const module_places& places) {
  if (auto done = to.import(QUERN_INPUTS, reference_inputs_, somewhere()); !done) return done;
  if (auto done = to.import(QUERN_OUTPUTS, reference_, somewhere()); !done) return done;
  if (auto done = to.import(weights_region, weights_, somewhere()); !done) return done;
  return to.plan(places.call());
}

base::status module_memory::lend_to_candidate(device_module& to, const module_places& places) {
  // A candidate can write in both, also when its verdict stands, and behind what its task uses.
  context_.set(candidate_.address(), candidate_.bytes(), 0);
  context_.set(candidate_weights_.address(), candidate_weights_.bytes(), 0);
  if (weight_bytes_ > 0)
    context_.copy(candidate_weights_.address(), weights_.address(), weight_bytes_);
  if (const auto done = context_.wait(); !done) return tl::make_unexpected(done.error());
  answered<void> done = to.import(QUERN_INPUTS, candidate_inputs_, somewhere());
  if (done) done = to.import(QUERN_OUTPUTS, candidate_, somewhere());
  if (done && weight_bytes_ > 0) done = to.import(weights_region, candidate_weights_, somewhere());
  if (done) done = to.plan(places.call());
  if (done) return {};
  return base::fail(base::errc::unavailable, "lending memory: {}", done.error().text);
}

}  // namespace quern::env
