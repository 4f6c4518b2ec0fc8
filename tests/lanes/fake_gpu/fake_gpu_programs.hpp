// Programs of Quern whose lane pytorch finds devices that are none, and the devices.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

/// For as long as this lives. They lie in the build folder: a sandbox shows no temporary one.
class fake_gpu_programs {
 public:
  /// `name`: of the folder, and of the devices, which those of other names do not wait for.
  explicit fake_gpu_programs(const std::string& name);
  fake_gpu_programs(const fake_gpu_programs&) = delete;
  fake_gpu_programs& operator=(const fake_gpu_programs&) = delete;
  ~fake_gpu_programs();

  [[nodiscard]] std::string quern() const { return (folder_ / "quern").string(); }
  /// NAME=VALUE, for each process of these programs.
  [[nodiscard]] std::vector<std::string> environment() const;
  /// Of every device here, as env::device_turn::open takes it.
  [[nodiscard]] const std::string& bus_id() const { return bus_id_; }

 private:
  std::string bus_id_;
  std::filesystem::path folder_;
  base::temp_folder share_;
};

}  // namespace quern::test
