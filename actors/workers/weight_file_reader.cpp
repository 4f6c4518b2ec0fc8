#include "actors/workers/weight_file_reader.hpp"

#include <utility>

#include "actors/workers/element_type.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {

weight_file_reader::weight_file_reader(source from, device_share share, news told)
    : from_(std::move(from)),
      share_(std::move(share)),
      told_(std::move(told)),
      tried_(from_.version),
      thread_([this] { run(); }) {}

weight_file_reader::~weight_file_reader() {
  inbox().stop();
  thread_.join();
}

void weight_file_reader::run() {
  try {
    while (const auto room = inbox().wait_for_room())
      fetch(*room);
  } catch (const std::exception& e) {
    told_(e.what());
  }
}

void weight_file_reader::fetch(const policy::parameter_arena& room) {
  auto ready = inbox().wait_for_newer(tried_);
  while (ready) {
    const weights_ready wanted = *ready;
    tried_ = wanted.version;
    auto found = read(wanted, room);
    if (found && *found != wanted.hash) {
      ready = inbox().wait_for_newer(wanted.version, from_.patience);
      if (ready) continue;
    }
    if (found)
      inbox().arrived(wanted.version, *found);
    else
      inbox().failed(wanted.version, found.error());
    told_("");
    return;
  }
}

base::expected<base::hash128> weight_file_reader::read(const weights_ready& ready,
                                                       const policy::parameter_arena& room) {
  const bool direct = room.flat.is_cpu() && room.flat.scalar_type() == from_.type;
  if (!direct && !staged_) staged_ = room.empty_as(from_.type, at::kCPU);
  const policy::parameter_arena& read = direct ? room : *staged_;
  QUERN_CHECK(
      policy::read_weights(from_.folder, ready.file, file_type_of(from_.type),
                           {static_cast<std::byte*>(read.flat.data_ptr()), read.flat.nbytes()}));
  const device_share::hold turn(share_);
  if (!direct) room.flat.copy_(read.flat);
  return room.hash();
}

}  // namespace quern::actors
