#include "lanes/toy/toy_judge.hpp"

#include <algorithm>

#include "env/judge/evaluation_request.hpp"
#include "lanes/toy/toy_body.hpp"
#include "lanes/toy/toy_lane.hpp"

namespace quern::env {

namespace {

class toy_judge final : public candidate_judge {
 public:
  toy_judge(const env::lane& of, std::string device_class)
      : lane_(of), class_(std::move(device_class)) {}

  verdict evaluate(const evaluation_request& request) override {
    ++seconds_.evaluations;
    verdict v;
    v.task = task_id(*request.subject);
    v.source = base::to_hex(lane_.identity(request.source));
    v.protocol = request.protocol;
    v.device_class = class_;
    v.env = environment_;
    if (request.subject->lane != &lane_) {
      v.detail = "a task of another lane";
      return v;
    }
    const toy_body& toy = toy_of(*request.subject);
    if (lower_case(request.source).find(toy.word) == std::string::npos) {
      v.kind = verdict_kind::compile_error;
      v.detail = "it names no " + toy.word;
      return v;
    }
    v.kind = verdict_kind::ok;
    if (request.verify_only) return v;
    const auto lines = std::count(request.source.begin(), request.source.end(), '\n');
    v.speedup_e2 = 100 * toy.lines / std::max<std::int64_t>(lines, 1);
    v.confirmed = true;
    return v;
  }
  void warm_up() override {}
  void compile_ahead(const evaluation_request&) override {}
  [[nodiscard]] const env::lane& lane() const override { return lane_; }
  [[nodiscard]] const std::string& device_class() const override { return class_; }
  [[nodiscard]] const std::string& environment() const override { return environment_; }
  [[nodiscard]] stage_seconds stages() const override { return seconds_; }

 private:
  const env::lane& lane_;
  std::string class_;
  std::string environment_ = std::string(32, '0');
  stage_seconds seconds_;
};

}  // namespace

base::expected<std::unique_ptr<candidate_judge>> open_toy_judge(const lane& of,
                                                                const evaluator_options& options) {
  QUERN_TRY(std::string device_class, of.device_class(options.gpu));
  return std::make_unique<toy_judge>(of, std::move(device_class));
}

}  // namespace quern::env
