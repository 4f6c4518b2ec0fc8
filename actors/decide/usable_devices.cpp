#include "actors/decide/usable_devices.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace quern::actors {

std::vector<std::int64_t> usable_devices(const host_offer& offer, std::string_view lane,
                                         std::string_view device_class) {
  std::vector<std::int64_t> usable;
  for (const device_offer& device : offer.devices) {
    const auto& lanes = lanes_of(offer, device);
    if (device.device_class == device_class &&
        std::find(lanes.begin(), lanes.end(), lane) != lanes.end())
      usable.push_back(device.id);
  }
  return usable;
}

std::string classes_text(const host_offer& offer) {
  std::set<std::string> classes;
  for (const device_offer& device : offer.devices)
    classes.insert(fmt::format("{} (lanes {})", device.device_class,
                               fmt::join(lanes_of(offer, device), ", ")));
  return fmt::format("{}", fmt::join(classes, ", "));
}

}  // namespace quern::actors
