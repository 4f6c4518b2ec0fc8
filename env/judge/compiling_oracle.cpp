// TorchScript references in a reference process, compiled and never run.
#include "env/judge/compiling_oracle.hpp"

#include "base/program.hpp"
#include "env/judge/core_lock.hpp"
#include "env/runner/reference_service.hpp"

namespace quern::env {

namespace {

class compiling_oracle final : public reference_oracle {
 public:
  compiling_oracle(std::unique_ptr<reference_service> service, int core)
      : service_(std::move(service)), core_(core) {}

  [[nodiscard]] bool only_compiles() const override { return true; }
  base::status compile(const task& what) override {
    QUERN_CHECK(service_->open(what.reference, core_));
    return {};
  }
  base::expected<std::vector<tensor_bytes>> run(const task&, const task_instance&,
                                                std::span<const tensor_bytes>, bool) override {
    return base::fail(base::errc::internal, "this oracle only compiles");
  }
  base::expected<std::int64_t> time_baseline(const task&, const task_instance&,
                                             std::span<const tensor_bytes>) override {
    return base::fail(base::errc::internal, "this oracle only compiles");
  }

 private:
  std::unique_ptr<reference_service> service_;
  int core_;
};

}  // namespace

base::expected<std::unique_ptr<reference_oracle>> open_compiling_oracle(
    const evaluator_options& options) {
  auto program = options.reference_program;
  if (program.empty()) {
    QUERN_TRY(program, base::sibling_program("quern-torch"));
  }
  const auto mode = options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_TRY(const auto choice, core_choice::choose(options.core));
  QUERN_TRY(auto service, reference_service::start(program, mode));
  return std::make_unique<compiling_oracle>(std::move(service), choice.core());
}

}  // namespace quern::env
