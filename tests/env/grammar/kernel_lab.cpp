// dlopen of generated kernels.
#include "env/grammar/kernel_lab.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <dlfcn.h>
#include <fmt/format.h>

#include "env/lanes/cpp/screen/prelude.hpp"
#include "env/tensor_task/fill.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::test {

namespace {

constexpr const char* flags = "-std=c++20 -O3 -march=native -fno-math-errno -shared -fPIC -w";

/// Kernels share a file: their names get a number.
std::string numbered(std::string source, std::size_t index) {
  for (const std::string name : {"kernel(", "workspace_bytes(", "fexp("}) {
    const std::string stem = name.substr(0, name.size() - 1);
    for (std::size_t at = 0; (at = source.find(name, at)) != std::string::npos;) {
      const std::string with = fmt::format("{}_{}(", stem, index);
      source.replace(at, name.size(), with);
      at += with.size();
    }
  }
  return source;
}

using workspace_function = std::int64_t (*)(std::int64_t, std::int64_t);

template <class... Pointers>
void invoke(void* kernel, float* y, std::int64_t n, std::int64_t m, void* work, Pointers... in) {
  reinterpret_cast<void (*)(Pointers..., float*, std::int64_t, std::int64_t, void*, void*)>(kernel)(
      in..., y, n, m, work, nullptr);
}

std::vector<float> poisoned(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count),
                            std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

base::expected<std::unique_ptr<kernel_lab>> kernel_lab::build(
    const env::composition& subject, std::span<const std::string> sources) {
  QUERN_TRY(auto folder, base::temp_folder::make("quern-lab"));
  std::string text = env::prelude_text();
  for (std::size_t k = 0; k < sources.size(); ++k)
    text += numbered(sources[k], k);
  std::unique_ptr<kernel_lab> lab(new kernel_lab());
  lab->subject_ = subject;
  lab->folder_ = std::make_unique<base::temp_folder>(std::move(folder));
  const auto source = lab->folder_->path() / "kernels.cpp";
  const auto library = lab->folder_->path() / "kernels.so";
  const auto log = lab->folder_->path() / "log";
  QUERN_CHECK(base::write_file_atomic(source, text));
  const auto command = fmt::format("g++ {} {} -o {} > {} 2>&1", flags, source.string(),
                                   library.string(), log.string());
  if (std::system(command.c_str()) != 0) {
    QUERN_TRY(const auto why, base::read_file(log));
    return base::fail(base::errc::internal, "{} does not compile: {}", env::to_text(subject), why);
  }
  lab->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (lab->library_ == nullptr) return base::fail(base::errc::internal, "{}", dlerror());
  for (std::size_t k = 0; k < sources.size(); ++k) {
    lab->kernels_.push_back(dlsym(lab->library_, fmt::format("kernel_{}", k).c_str()));
    lab->workspaces_.push_back(dlsym(lab->library_, fmt::format("workspace_bytes_{}", k).c_str()));
    if (lab->kernels_.back() == nullptr)
      return base::fail(base::errc::internal, "kernel {} of {} has no entry", k,
                        env::to_text(subject));
  }
  return lab;
}

kernel_lab::~kernel_lab() {
  if (library_ != nullptr) dlclose(library_);
}

void kernel_lab::call(std::size_t index, const env::composition_inputs& in, float* y,
                      void* work) const {
  const bool row = uses_row(subject_);
  const bool tensor = uses_tensor(subject_);
  void* kernel = kernels_[index];
  const float* x = in.x.data();
  const float* w = in.w.data();
  const float* t = in.t.data();
  if (row && tensor) return invoke(kernel, y, in.n, in.m, work, x, w, t);
  if (row) return invoke(kernel, y, in.n, in.m, work, x, w);
  if (tensor) return invoke(kernel, y, in.n, in.m, work, x, t);
  invoke(kernel, y, in.n, in.m, work, x);
}

std::vector<float> kernel_lab::run(std::size_t index, const env::composition_inputs& in) const {
  auto y = poisoned(env::output_elements(subject_, in.n, in.m));
  std::vector<float> work;
  if (workspaces_[index] != nullptr) {
    const auto bytes = reinterpret_cast<workspace_function>(workspaces_[index])(in.n, in.m);
    work = poisoned((bytes + 3) / 4);
  }
  call(index, in, y.data(), work.data());
  return y;
}

double kernel_lab::time_us(std::size_t index, const env::composition_inputs& in, int calls) const {
  auto y = poisoned(env::output_elements(subject_, in.n, in.m));
  auto work = poisoned(in.n * (in.m + 2) + 64);
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k < calls; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    call(index, in, y.data(), work.data());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

lab_inputs make_inputs(const env::task& of, std::int64_t n, std::int64_t m,
                       std::span<const env::distribution> kinds, std::uint64_t seed) {
  lab_inputs made{n, m, {}, {}, {}};
  const std::vector<std::int64_t> sizes{n, m};
  const auto at = env::instantiate(of, sizes).value();
  for (std::size_t k = 0; k < at.inputs.size(); ++k) {
    auto& values = at.inputs[k].name == "x" ? made.x : at.inputs[k].name == "w" ? made.w : made.t;
    values.resize(static_cast<std::size_t>(at.inputs[k].elements));
    const env::content_address where{seed, static_cast<std::uint32_t>(k), 0};
    if (!env::fill_input(at.inputs[k], kinds[k], where, std::as_writable_bytes(std::span(values))))
      std::abort();
  }
  return made;
}

std::vector<lab_inputs> judged_inputs(const env::task& of, std::uint64_t seed) {
  std::vector<lab_inputs> made;
  for (const auto& sizes : env::tensors_of(of).hidden_sizes) {
    for (int round = 0; round < env::hidden_rounds(of); ++round)
      made.push_back(make_inputs(of, sizes[0], sizes[1], env::hidden_distributions(of, round),
                                 seed + made.size()));
    made.push_back(
        make_inputs(of, sizes[0], sizes[1], env::timed_distributions(of), seed + made.size()));
  }
  return made;
}

std::size_t count_wrong(const env::task& of, std::span<const double> want,
                        std::span<const float> got) {
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const double limit = of.tolerance.atol + of.tolerance.rtol * std::fabs(want[k]);
    if (!(std::fabs(static_cast<double>(got[k]) - want[k]) <= limit)) ++wrong;
  }
  return wrong;
}

}  // namespace quern::test
