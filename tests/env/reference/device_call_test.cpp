// References on a device as far as no device is needed: what is asked of one is checked, results
// are kept as a graph needs it, and a process that cannot open a device says why.
#include "env/reference/device_call.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "base/program.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/device/part_build.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/gpu/runpath.hpp"
#include "env/reference/captured_call.hpp"
#include "env/sandbox/child.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

/// f32[2, 3] in the region of inputs, f32[3] and i64[1] in slots of the outputs.
runner::gpu_call_request right_call() {
  runner::gpu_call_request call;
  call.inputs = 1;
  call.outputs = 2;
  const auto place = [](std::uint32_t region, dtype type, std::uint64_t offset,
                        std::uint64_t stride, std::vector<std::int64_t> shape) {
    runner::tensor_place p;
    p.file = region;
    p.type = static_cast<std::uint32_t>(type);
    p.offset = offset;
    p.stride = stride;
    p.rank = static_cast<std::uint32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), p.shape.begin());
    return p;
  };
  call.tensors[0] = place(QUERN_INPUTS, dtype::f32, 256, 0, {2, 3});
  call.tensors[1] = place(QUERN_OUTPUTS, dtype::f32, 512, 1024, {3});
  call.tensors[2] = place(QUERN_OUTPUTS, dtype::i64, 768, 1024, {1});
  return call;
}

/// Just large enough for right_call() in slots 0 to 2.
constexpr mapped_regions right_regions{{{0x10000, 256 + 24}, {0x20000, 768 + 2 * 1024 + 8}, {}}};

quern_order in_slot(std::int32_t slot) {
  quern_order order{};
  order.slot = slot;
  return order;
}

bool refused(const base::status& got, std::string_view words) {
  CAPTURE(words);
  REQUIRE_FALSE(got.has_value());
  INFO(got.error().message);
  return got.error().code == base::errc::invalid_argument &&
         test::contains(got.error().message, words);
}

}  // namespace

TEST_CASE("a call that can be carried out is accepted, each fault of one is named") {
  CHECK(check_call(right_call()).has_value());
  auto call = right_call();
  call.outputs = runner::max_tensors;
  CHECK(refused(check_call(call), "33 tensors"));
  // Sums that wrap around are not small.
  call.inputs = 0xFFFFFFFF;
  CHECK(refused(check_call(call), "tensors"));
  call = right_call();
  call.tensors[1].type = 7;
  CHECK(refused(check_call(call), "tensor 1 has type 7"));
  call = right_call();
  call.tensors[0].rank = 9;
  CHECK(refused(check_call(call), "tensor 0 has no shape"));
  call = right_call();
  call.tensors[0].shape[1] = -1;
  CHECK(refused(check_call(call), "tensor 0 has no shape"));
  call = right_call();
  call.tensors[2].file = QUERN_REGIONS;
  CHECK(refused(check_call(call), "tensor 2 is in region 3"));
  call = right_call();
  call.tensors[2].stride = 1028;
  CHECK(refused(check_call(call), "stride 1028"));
  // Four bytes are enough for f32, not for the f64 that is delivered.
  call = right_call();
  call.tensors[1].offset = 516;
  CHECK(check_call(call).has_value());
  call.in_f64 = 1;
  CHECK(refused(check_call(call), "offset 516"));
}

TEST_CASE("under a graph inputs may not move") {
  auto call = right_call();
  call.tensors[0].stride = 256;
  CHECK(check_call(call).has_value());
  call.under_graph = 1;
  CHECK(refused(check_call(call), "input 0 moves"));
  call.tensors[0].stride = 0;
  CHECK(check_call(call).has_value());
}

TEST_CASE("tensors lie inside their regions in every slot") {
  const auto call = right_call();
  const std::vector<quern_order> orders{in_slot(2), in_slot(0)};
  CHECK(check_places(call, orders, right_regions).has_value());
  CHECK(check_places(call, {}, right_regions).has_value());
  const std::vector<quern_order> beyond{in_slot(0), in_slot(3)};
  CHECK(refused(check_places(call, beyond, right_regions), "slot 3"));
  const std::vector<quern_order> far{in_slot(0x7FFFFFFF)};
  CHECK(refused(check_places(call, far, right_regions), "slot 2147483647"));
  const std::vector<quern_order> negative{in_slot(-1)};
  CHECK(refused(check_places(call, negative, right_regions), "slot -1"));
  for (const std::size_t region : {QUERN_INPUTS, QUERN_OUTPUTS}) {
    auto smaller = right_regions;
    smaller[region].bytes -= 1;
    CHECK(refused(check_places(call, orders, smaller), "does not lie inside"));
    smaller[region] = {};
    CHECK(refused(check_places(call, orders, smaller), "does not lie inside"));
  }
  // f64 takes twice the room: the integer behind it still fits, the floats of slot 2 do not.
  auto wide = call;
  wide.in_f64 = 1;
  CHECK(check_places(wide, orders, right_regions).has_value());
  wide.tensors[1].shape[0] = 34;
  CHECK(refused(check_places(wide, orders, right_regions), "tensor 1"));
  wide.in_f64 = 0;
  CHECK(check_places(wide, orders, right_regions).has_value());
}

TEST_CASE("sizes that overflow 64 bits are too large, not small") {
  auto call = right_call();
  call.tensors[1].rank = 4;
  call.tensors[1].shape = {1LL << 31, 1LL << 31, 1, 1};
  const std::vector<quern_order> orders{in_slot(0)};
  CHECK(refused(check_places(call, orders, right_regions), "tensor 1"));
  call = right_call();
  call.tensors[1].stride = 1ULL << 63;
  CHECK(refused(check_places(call, {{in_slot(2)}}, right_regions), "tensor 1"));
  call = right_call();
  call.tensors[0].offset = ~0ULL - 255;
  CHECK(refused(check_places(call, orders, right_regions), "tensor 0"));
}

TEST_CASE("views are where the slot is") {
  auto call = right_call();
  std::vector<tensor_view> views;
  view_inputs(call, 2, right_regions, views);
  REQUIRE(views.size() == 1);
  CHECK(views[0].data == reinterpret_cast<void*>(0x10000 + 256));
  CHECK(views[0].shape == std::vector<std::int64_t>{2, 3});
  view_outputs(call, 2, right_regions, views);
  REQUIRE(views.size() == 2);
  CHECK(views[0].data == reinterpret_cast<void*>(0x20000 + 512 + 2048));
  CHECK(views[0].type == dtype::f32);
  CHECK(views[1].type == dtype::i64);
  call.in_f64 = 1;
  view_inputs(call, 0, right_regions, views);
  CHECK(views[0].type == dtype::f32);
  view_outputs(call, 0, right_regions, views);
  CHECK(views[0].type == dtype::f64);
  CHECK(views[1].type == dtype::i64);
}

TEST_CASE("a result can be copied out again and again, delivered once, and forgotten") {
  auto twice = script::compile("def forward(x):\n    return x * 2\n").value();
  float x[2] = {1, 2};
  float y[2] = {0, 0};
  const std::vector<tensor_view> in{{dtype::f32, {2}, x}};
  const std::vector<tensor_view> out{{dtype::f32, {2}, y}};
  std::string why;
  REQUIRE(twice.call(in, 0, false, why));
  for (int i = 0; i < 2; ++i) {
    y[1] = 0;
    CHECK(twice.copy_out(out, 0, false).fault_kind == result_fault::none);
    CHECK(y[1] == 4);
  }
  CHECK(twice.deliver(out, 0, false).fault_kind == result_fault::none);
  // What was delivered is gone: there are 0 tensors now.
  CHECK(twice.deliver(out, 0, false).fault_kind == result_fault::wrong_shape);
  REQUIRE(twice.call(in, 0, false, why));
  twice.forget();
  CHECK(twice.copy_out(out, 0, false).fault_kind == result_fault::failed);
}

TEST_CASE("the folders of LibTorch are read from the program that links it") {
  const auto program = test::program_dir() / "quern-torch";
  const auto folders = torch_library_folders(program);
  REQUIRE_MESSAGE(folders.has_value(), (folders ? "" : folders.error().message));
  REQUIRE_FALSE(folders->empty());
  CHECK(std::filesystem::exists(folders->front() / "libtorch_cpu.so"));
  for (const auto& folder : *folders)
    CHECK(folder.is_absolute());
  CHECK_FALSE(torch_library_folders(test::program_dir() / "no such program").has_value());
}

TEST_CASE("folders of LibTorch that are links come with what they point to") {
  namespace fs = std::filesystem;
  const auto made = base::temp_folder::make().value();
  const fs::path real = fs::canonical(made.path()) / "real",
                 seen = fs::canonical(made.path()) / "seen";
  fs::create_directories(real / "torch/lib");
  fs::create_directories(real / "nvidia");
  fs::create_directories(seen);
  std::ofstream(real / "torch/lib/libtorch_cpu.so") << "";
  fs::create_directory_symlink(real / "torch", seen / "torch");
  fs::create_directory_symlink(real / "nvidia", seen / "nvidia");
  // The program with another run path.
  auto bytes = base::read_file(test::program_dir() / "quern-torch").value();
  const auto old = run_path_of(bytes, "/").at(0).string();
  const auto at = bytes.find(old);
  REQUIRE(at != std::string::npos);
  const std::string path("$ORIGIN/torch/lib\0", 18);
  REQUIRE(old.size() >= path.size());
  bytes.replace(at, path.size(), path);
  REQUIRE(base::write_file_atomic(seen / "program", bytes).has_value());
  const auto folders = torch_library_folders(seen / "program").value();
  const auto has = [&](const fs::path& one) {
    return std::find(folders.begin(), folders.end(), one) != folders.end();
  };
  CHECK(has(seen / "torch/lib"));
  CHECK(has(seen / "nvidia"));
  CHECK(has(real / "nvidia"));
}

TEST_CASE("a damaged program has no run path, and nothing is read beyond it") {
  const auto bytes = base::read_file(test::program_dir() / "quern-torch").value();
  const auto whole = run_path_of(bytes, "/somewhere");
  REQUIRE_FALSE(whole.empty());
  CHECK(run_path_of("", "/").empty());
  CHECK(run_path_of("\x7f"
                    "ELF",
                    "/")
            .empty());
  CHECK(run_path_of("#!/bin/sh\n", "/").empty());
  // Cut anywhere: the same answer or none.
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 997) {
    const std::string part = bytes.substr(0, size);
    const auto found = run_path_of(part, "/somewhere");
    const bool same_or_none = found.empty() || found == whole;
    CHECK(same_or_none);
  }
  // The headers full of nonsense.
  for (std::size_t at = 0; at < 2048; at += 3) {
    std::string wrong = bytes.substr(0, std::size_t{1} << 16);
    std::memset(wrong.data() + at, 0xFF, 8);
    (void)run_path_of(wrong, "/somewhere");
  }
}

TEST_CASE("a reference process that cannot open a device says why") {
  if (has_nvidia_driver()) return test::skip("an NVIDIA driver is loaded here");
  const auto library = test::program_dir() / "libquern_cuda.so";
  if (!std::filesystem::exists(library)) return test::skip("this build has no CUDA part");
  gpu_reference_start how;
  how.program = test::program_dir() / "quern-torch";
  how.library = library;
  how.memory_bytes = std::int64_t{4} << 30;
  how.open_wall_s = 100;
  auto children = spawner::create(sandbox_mode::best_effort).value();
  const auto confined = gpu_reference_process::start(*children, how);
  REQUIRE_FALSE(confined.has_value());
  CAPTURE(confined.error().message);
  CHECK(confined.error().code == base::errc::unavailable);
  CHECK(test::contains(confined.error().message, "LibTorch"));
  CHECK_FALSE(test::contains(confined.error().message, "it ended"));

  // A library that is none, and a program that is none.
  auto wrong = how;
  wrong.library = "/no/such/libquern_cuda.so";
  const auto missing = gpu_reference_process::start(*children, wrong);
  REQUIRE_FALSE(missing.has_value());
  CHECK(test::contains(missing.error().message, "/no/such/libquern_cuda.so"));
  wrong.program = "/no/such/quern-torch";
  CHECK_FALSE(gpu_reference_process::start(*children, wrong).has_value());
}

TEST_CASE("no graph is made by a library of another build, and the message names both builds") {
  captured_call graph(base::program_folder() / "other_build", 0);
  bool called = false;
  const auto made = graph.capture([&](std::string&) { return called = true; });
  CHECK_FALSE(called);
  CHECK_FALSE(graph.ready());
  REQUIRE_FALSE(made.has_value());
  INFO(made.error().message);
  CHECK(made.error().code == base::errc::unavailable);
  CHECK(test::contains(made.error().message, "other_build/libquern_aten_cuda.so"));
  CHECK(test::contains(made.error().message, "0123456789abcdef"));
  CHECK(test::contains(made.error().message, aten_part_build()));
}
