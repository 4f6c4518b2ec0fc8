#include "actors/workers/weight_receiver.hpp"

#include <limits>
#include <utility>

namespace quern::actors {

base::expected<std::unique_ptr<weight_receiver>> weight_receiver::make(weight_source from,
                                                                       device_share share,
                                                                       news told) {
  policy::layout learner;
  learner.ranks = from.ranks;
  QUERN_TRY(const auto source,
            policy::make_catalogue(from.model, policy::weight_dtype::f32, learner));
  QUERN_TRY(const auto own, policy::make_catalogue(from.model, policy::weight_dtype::f32));
  QUERN_TRY(auto plan, policy::make_plan(source, own));
  return std::unique_ptr<weight_receiver>(
      new weight_receiver(std::move(from), std::move(plan), std::move(share), std::move(told)));
}

weight_receiver::weight_receiver(weight_source from, policy::transfer_plan plan, device_share share,
                                 news told)
    : from_(std::move(from)),
      plan_(std::move(plan)),
      share_(std::move(share)),
      told_(std::move(told)),
      thread_([this] { run(); }) {}

weight_receiver::~weight_receiver() {
  inbox().stop();
  end_.end();
  thread_.join();
}

void weight_receiver::run() {
  base::status result;
  try {
    result = receive_all();
  } catch (const std::exception& e) {
    result = base::fail(base::errc::unavailable, "{}", e.what());
  }
  const bool unasked = !end_.ended();
  end_.end();
  if (!result && unasked) told_(result.error().message);
}

base::status weight_receiver::receive_all() {
  QUERN_TRY(const auto link, end_.open({from_.address, 1, 2, {}, from_.host}, from_.device,
                                       std::numeric_limits<base::nanoseconds_t>::max()));
  QUERN_CHECK(link->agree(plan_, from_.type));
  {
    const device_share::hold turn(share_);
    QUERN_CHECK(link->warm_up(from_.version));
  }
  while (const auto room = inbox().wait_for_room()) {
    QUERN_TRY(const weights_version version, link->ask());
    base::hash128 hash;
    {
      const device_share::hold turn(share_);
      at::Tensor flat = room->flat;
      QUERN_CHECK(link->receive(plan_, flat, version));
      hash = room->hash();
    }
    inbox().arrived(version, hash);
    told_("");
  }
  return {};
}

}  // namespace quern::actors
