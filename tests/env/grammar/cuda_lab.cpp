// Launch plans carried out by contexts of the processor.
#include "env/grammar/cuda_lab.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <dlfcn.h>
#include <fmt/format.h>

#include "env/grammar/task_maker.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"

namespace quern::test {

namespace {

/// What stands before the kernels: the part of CUDA that they use, and the turns of threads.
constexpr const char* shim = R"(
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#include <ucontext.h>
#define __global__ static
#define __device__ static
#define __restrict__
#define __shared__ static
struct uint3 { unsigned x, y, z; };
struct float4 { float x, y, z, w; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;
namespace lab {
struct fiber { ucontext_t context; uint3 place; bool done; };
static std::vector<fiber> fibers;
static std::vector<char> stacks;
static ucontext_t home;
static int self;
static void (*body)(void**);
static void** arguments;
static char* dynamic_memory;
static double slot[1024];
static int arrived, left;
static void give_way() { swapcontext(&fibers[self].context, &home); threadIdx = fibers[self].place; }
// A barrier of `of` threads that counts rounds.
struct gate { int count = 0; long round = 0; };
static gate block_gate, warp_gates[32];
static long progress;
static void meet(gate& at, int of) {
  const long round = at.round;
  ++progress;
  if (++at.count == of) { at.count = 0; ++at.round; }
  while (at.round == round) give_way();
}
static int threads() { return blockDim.x * blockDim.y * blockDim.z; }
static int rank() { return threadIdx.x + blockDim.x * threadIdx.y; }
static void entry() { body(arguments); fibers[self].done = true; ++progress; }
template <class T> T exchange(T value, int from) {
  const int me = rank();
  gate& at = warp_gates[me / 32];
  slot[me] = value;
  meet(at, 32);
  const T got = static_cast<T>(slot[me / 32 * 32 + from]);
  meet(at, 32);
  return got;
}
static bool run_block(bool backward) {
  const int count = threads();
  for (int k = 0; k < count; ++k) {
    fiber& one = fibers[k];
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = stacks.data() + k * 32768L;
    one.context.uc_stack.ss_size = 32768;
    one.context.uc_link = &home;
    one.place = {k % blockDim.x, k / blockDim.x, 0};
    one.done = false;
    makecontext(&one.context, entry, 0);
  }
  block_gate = gate();
  for (gate& one : warp_gates) one = gate();
  for (int alive = count; alive > 0;) {
    const long before = progress;
    alive = 0;
    for (int k = 0; k < count; ++k) {
      self = backward ? count - 1 - k : k;
      if (fibers[self].done) continue;
      threadIdx = fibers[self].place;
      swapcontext(&home, &fibers[self].context);
      alive += fibers[self].done ? 0 : 1;
    }
    if (alive > 0 && progress == before) return false;
  }
  return true;
}
}  // namespace lab
static void __syncthreads() { lab::meet(lab::block_gate, lab::threads()); }
template <class T> T __shfl_xor_sync(unsigned, T value, int by) {
  return lab::exchange(value, (lab::rank() % 32) ^ by);
}
template <class T> T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = lab::rank() % 32;
  return lab::exchange(value, lane >= by ? lane - by : lane);
}
template <class T> T __shfl_sync(unsigned, T value, int from) { return lab::exchange(value, from); }
template <class T> T __ldg(const T* p) { return *p; }
static float lab_expf(float v) { return expf(v); }
#define __expf lab_expf
static float __fdividef(float a, float b) { return a / b; }
extern "C" bool lab_launch(void (*body)(void**), const unsigned* grid, const unsigned* block,
                           unsigned shared, void** arguments, bool backward) {
  lab::body = body;
  lab::arguments = arguments;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  if (lab::fibers.empty()) { lab::fibers.resize(1024); lab::stacks.resize(1024 * 32768L); }
  std::vector<char> memory(shared + 64, 0x7f);
  lab::dynamic_memory = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  for (unsigned y = 0; y < gridDim.y; ++y)
    for (unsigned x = 0; x < gridDim.x; ++x) {
      blockIdx = {x, y, 0};
      if (!lab::run_block(backward)) return false;
    }
  return true;
}
)";

constexpr std::string_view dynamic_array = "extern __shared__ float r[];";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// The device source in a namespace of its own, and an entry for each kernel that takes its
/// arguments as the driver does.
std::string unit_text(const env::launch_plan& plan, std::size_t index) {
  std::string text = fmt::format("namespace v{} {{\n", index);
  text += replaced(plan.device_source(), dynamic_array, "float* r = (float*)lab::dynamic_memory;");
  text += "\n}\n";
  const auto& kernels = plan.kernels();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    text += fmt::format("extern \"C\" void call_{}_{}(void** a) {{ v{}::{}(", index, k, index,
                        kernels[k].name);
    for (std::size_t p = 0; p < kernels[k].parameters.size(); ++p)
      text += fmt::format("{}*({}*)a[{}]", p == 0 ? "" : ", ", kernels[k].parameters[p].type, p);
    text += "); }\n";
  }
  return text;
}

/// Floats: a thread without guard goes on for a block of rows.
constexpr std::size_t margin = 1 << 17;

/// Floats with a margin on both sides that must stay as it is.
class guarded {
 public:
  explicit guarded(std::size_t count, float mark) : mark_(mark), values_(count + 2 * margin, mark) {
    std::fill_n(begin(), count, std::numeric_limits<float>::quiet_NaN());
    count_ = count;
  }
  float* begin() { return values_.data() + margin; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(float); }
  [[nodiscard]] std::vector<float> content() {
    return {begin(), begin() + static_cast<std::ptrdiff_t>(count_)};
  }
  [[nodiscard]] bool touched() const {
    const auto is_mark = [this](float v) { return v == mark_; };
    return !std::all_of(values_.begin(), values_.begin() + margin, is_mark) ||
           !std::all_of(values_.end() - margin, values_.end(), is_mark);
  }

 private:
  float mark_;
  std::vector<float> values_;
  std::size_t count_ = 0;
};

/// Margins of what is read and of what is written differ: what is read beyond the end and then
/// written there would not be seen.
constexpr float mark_of_inputs = 3.25F, mark_of_outputs = 12345.5F;

guarded copy_of(std::span<const float> values) {
  guarded made(values.size(), mark_of_inputs);
  std::copy(values.begin(), values.end(), made.begin());
  return made;
}

}  // namespace

base::expected<std::unique_ptr<cuda_lab>> cuda_lab::build(const env::composition& subject,
                                                          std::span<const std::string> sources) {
  QUERN_TRY(auto folder, base::temp_folder::make("quern-lab"));
  std::unique_ptr<cuda_lab> lab(new cuda_lab());
  lab->subject_ = subject;
  lab->folder_ = std::make_unique<base::temp_folder>(std::move(folder));
  env::task shell = env::bare_task(subject);
  shell.lane = &env::cuda_lane;
  std::string text = shim;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    auto plan = env::parse_launch_plan(sources[k], env::signature_of(shell));
    if (!plan)
      return base::fail(base::errc::internal, "no launch plan: {}\n{}",
                        env::to_string(plan.error()), sources[k]);
    text += unit_text(*plan, k);
    lab->plans_.push_back(std::move(*plan));
  }
  const auto source = lab->folder_->path() / "kernels.cpp";
  const auto library = lab->folder_->path() / "kernels.so";
  const auto log = lab->folder_->path() / "log";
  QUERN_CHECK(base::write_file_atomic(source, text));
  const auto command = fmt::format(
      "g++ -std=c++20 -O1 -ffp-contract=off -fno-strict-aliasing -shared -fPIC -w {} "
      "-o {} > {} 2>&1",
      source.string(), library.string(), log.string());
  if (std::system(command.c_str()) != 0) {
    QUERN_TRY(const auto why, base::read_file(log));
    return base::fail(base::errc::internal, "{} does not compile: {}", env::to_text(subject), why);
  }
  lab->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (lab->library_ == nullptr) return base::fail(base::errc::internal, "{}", dlerror());
  return lab;
}

cuda_lab::~cuda_lab() {
  if (library_ != nullptr) dlclose(library_);
}

cuda_lab::outcome cuda_lab::run(std::size_t index, const env::composition_inputs& in,
                                bool backward) const {
  outcome made;
  const env::launch_plan& plan = plans_[index];
  const std::vector<std::int64_t> sizes{in.n, in.m};
  const auto workspace_bytes = plan.workspace(sizes);
  if (!workspace_bytes) return {{}, false, workspace_bytes.error().message};
  std::vector<guarded> inputs;
  inputs.push_back(copy_of(in.x));
  if (uses_row(subject_)) inputs.push_back(copy_of(in.w));
  if (uses_tensor(subject_)) inputs.push_back(copy_of(in.t));
  guarded y(static_cast<std::size_t>(env::output_elements(subject_, in.n, in.m)), mark_of_outputs);
  guarded work(static_cast<std::size_t>((*workspace_bytes + 3) / 4), mark_of_outputs);
  env::plan_call call;
  call.sizes = sizes;
  for (const guarded& input : inputs)
    call.input_bytes.push_back(static_cast<std::int64_t>(input.bytes()));
  call.output_bytes.push_back(static_cast<std::int64_t>(y.bytes()));
  call.workspace_bytes = *workspace_bytes;
  const auto steps = plan.steps(call);
  if (!steps) return {{}, false, steps.error().message};
  using launcher =
      bool (*)(void (*)(void**), const unsigned*, const unsigned*, unsigned, void**, bool);
  const auto launch = reinterpret_cast<launcher>(dlsym(library_, "lab_launch"));
  for (const env::launch_step& step : *steps) {
    const auto* one = std::get_if<env::kernel_launch>(&step);
    if (one == nullptr) return {{}, false, "a step that is no launch"};
    const auto name = fmt::format("call_{}_{}", index, one->kernel);
    const auto body = reinterpret_cast<void (*)(void**)>(dlsym(library_, name.c_str()));
    std::vector<std::array<unsigned char, 8>> values(one->arguments.size());
    std::vector<void*> arguments;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (const auto* scalar = std::get_if<env::plan_scalar>(&one->arguments[k])) {
        values[k] = scalar->bytes;
      } else {
        const auto& to = std::get<env::plan_pointer>(one->arguments[k]);
        guarded& buffer = to.buffer == env::plan_buffer::input    ? inputs[to.index]
                          : to.buffer == env::plan_buffer::output ? y
                                                                  : work;
        const void* address = reinterpret_cast<char*>(buffer.begin()) + to.offset;
        std::memcpy(values[k].data(), &address, sizeof address);
      }
      arguments.push_back(values[k].data());
    }
    if (!launch(body, one->grid.data(), one->block.data(), one->shared_bytes, arguments.data(),
                backward)) {
      made.problem = "threads wait for ever";
      break;
    }
  }
  made.y = y.content();
  made.overrun = y.touched() || work.touched();
  for (const guarded& input : inputs)
    made.overrun = made.overrun || input.touched();
  return made;
}

}  // namespace quern::test
