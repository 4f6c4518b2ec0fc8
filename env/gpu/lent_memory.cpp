// The device memory that calls work on.
#include "env/gpu/lent_memory.hpp"

#include <fcntl.h>

#include "env/gpu/check_layer.hpp"

namespace quern::env {

std::optional<region_mapping> mapping_to_make(const region_mapping& has, std::uint64_t making,
                                              bool elsewhere, const region_mapping* other,
                                              const std::function<region_mapping()>& draw) {
  const bool as_other = other != nullptr && other->making != 0;
  if (has.making == making && !elsewhere && (!as_other || has.at == other->at)) return std::nullopt;
  region_mapping where = as_other ? *other : draw();
  where.making = making;
  return where;
}

base::status lent_memory::grow(region& what, std::uint64_t bytes) {
  if (bytes <= what.memory.bytes()) return {};
  // The old region first: two of them might not fit. Runners that have it mapped keep it alive
  // until they map the new one.
  what.memory = {};
  what.making = 0;
  QUERN_TRY(what.memory, context_->allocate(bytes + bytes / 4));
  what.making = ++makings_;
  return {};
}

base::status lent_memory::reserve(const lent_bytes& wanted) {
  const std::lock_guard lock(guard_);
  QUERN_CHECK(grow(inputs_, wanted.inputs));
  QUERN_CHECK(grow(workspace_, wanted.workspace));
  for (auto& output_buffer : outputs_)
    QUERN_CHECK(grow(output_buffer, wanted.outputs));
  return {};
}

std::uint64_t lent_memory::bytes() const {
  std::uint64_t all = inputs_.memory.bytes() + workspace_.memory.bytes();
  for (const auto& output_buffer : outputs_)
    all += output_buffer.memory.bytes();
  return all;
}

region_mapping lent_memory::somewhere() {
  // Anywhere in 16 TiB that drivers leave free, in steps of 2 MiB.
  constexpr std::uint64_t start = std::uint64_t{1} << 44;
  constexpr std::uint64_t step = std::uint64_t{2} << 20;
  const auto draw = [this] {
    return start + addresses_.below((std::uint64_t{1} << 44) / step) * step;
  };
  const std::uint64_t at = draw();
  std::uint64_t writable_at = at;
  while (writable_at == at && is_on(check_layer::read_only))
    writable_at = draw();
  return {0, at, writable_at};
}

std::vector<lent_memory::to_map> lent_memory::not_mapped(const gpu_link& in,
                                                         std::size_t output_buffer, bool elsewhere,
                                                         const gpu_link* other) {
  const std::lock_guard lock(guard_);
  const std::array<const region*, QUERN_REGIONS> regions{&inputs_, &outputs_[output_buffer],
                                                         &workspace_};
  std::vector<to_map> all;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const region& p = *regions[i];
    if (p.making == 0) continue;
    const auto where = mapping_to_make(in.mapped[i], p.making, elsewhere,
                                       other != nullptr ? &other->mapped[i] : nullptr,
                                       [this] { return somewhere(); });
    if (!where) continue;
    // A descriptor of its own: the region may be made anew while the runner maps it.
    all.push_back(
        {i, base::unique_fd(fcntl(p.memory.fd(), F_DUPFD_CLOEXEC, 0)), p.memory.bytes(), *where});
  }
  return all;
}

answered<void> lent_memory::map(gpu_link& to, const std::vector<to_map>& regions) {
  for (const to_map& one : regions) {
    if (!one.file)
      return tl::make_unexpected(
          runner_failure{runner_failure::kind::host,
                         {},
                         "no descriptor is free for the memory that a runner is lent"});
    if (auto done = to.import(static_cast<std::int32_t>(one.region), one.file.get(), one.bytes,
                              one.where.at, one.where.writable_at);
        !done)
      return done;
    to.mapped[one.region] = one.where;
  }
  return {};
}

answered<void> lent_memory::lend(gpu_link& to, std::size_t output_buffer, bool elsewhere) {
  return map(to, not_mapped(to, output_buffer, elsewhere, nullptr));
}

answered<void> lent_memory::lend_as(gpu_link& to, std::size_t output_buffer,
                                    const gpu_link& other) {
  return map(to, not_mapped(to, output_buffer, false, &other));
}

}  // namespace quern::env
