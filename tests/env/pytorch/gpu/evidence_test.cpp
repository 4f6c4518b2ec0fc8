// Whose kernels are, by names as profiles show them, and what evidence a suite refuses.
#include "env/lanes/pytorch/gpu/kernel_names.hpp"
#include "env/lanes/pytorch/gpu/module_evidence.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/task/lane_on_gpus.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::contains;

namespace {

std::string kind_text(std::string_view name) {
  return std::string(name_of(kind_of_kernel(name)));
}

evidence_report seen_in(const std::string& kernels, bool is_fp32 = true, bool graphs = false) {
  const auto parsed = parse_evidence(
      R"json({"layers": 0, "aliases_output": false, "late_builds": 0, "graphs": )json" +
          std::string(graphs ? "true" : "false") + R"json(, "kernels": )json" + kernels + "}",
      is_fp32);
  CAPTURE(parsed ? "" : parsed.error().message);
  REQUIRE(parsed);
  return *parsed;
}

}  // namespace

TEST_CASE("whose a kernel is") {
  const std::vector<std::pair<std::string_view, std::string_view>> rows{
      {"ampere_sgemm_128x64_tn", "cublas"},
      {"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1", "cublas"},
      {"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_tn_align4>(cutlass_80)",
       "cublas"},
      {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "cublas"},
      {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>(float)", "cublas"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>(float)", "cublas"},
      {"sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_simt_small", "cudnn"},
      {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1>(float)", "cudnn"},
      {"void implicit_convolve_sgemm<float, float, 128, 5, 5>(int, int)", "cudnn"},
      {"void regular_fft<256u, EPT<8u>, 32u>(float)", "other_library"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
       "torch"},
      {"void at_cuda_detail::cub::DeviceReduceKernel<float>(float)", "torch"},
      {"void pytorch_flash::flash_fwd_kernel<float>(float)", "torch"},
      {"triton_poi_fused_relu_0", "compiled"},
      {"Memcpy DtoD (Device -> Device)", "copy"},
      {"Memset (Device)", "copy"},
      {"finish(float const*, float const*, float*, int)", "own"},
      {"void my_kernel<c10::Half>(c10::Half const*)", "own"},
      {"void cutlass::Kernel<cutlass::gemm::kernel::Gemm<float>>(int)", "own"},
      {"maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt", "cudnn"},
      {"void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(float)", "cudnn"},
      {"hopper_gemm_kernel(float const*, float const*, float*, int)", "own"},
      {"void sm90_tma_matmul<128, 128>(float const*, float*)", "own"},
      {"winograd_input_transform(float const*, float*, int)", "own"},
      {"nchwToNhwc_kernel(float const*, float*, int, int)", "own"},
      {"_triton_kernel_of_mine", "own"}};
  for (const auto& [name, kind] : rows) {
    CAPTURE(name);
    CHECK(kind_text(name) == kind);
  }
}

TEST_CASE("types that a name shows") {
  using types = std::vector<std::string>;
  CHECK(narrow_types_of("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n") == types{"tf32"});
  CHECK(narrow_types_of("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>") ==
        types{"tf32"});
  CHECK(narrow_types_of("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn") ==
        types{"fp16"});
  CHECK(narrow_types_of("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n") == types{"bf16"});
  CHECK(narrow_types_of("nvjet_hsh_128x256_64x4") == types{"fp16"});
  CHECK(narrow_types_of("void mine<__nv_bfloat16>()") == types{"bf16"});
  CHECK(narrow_types_of("void mine<c10::Float8_e4m3fn>()") == types{"fp8"});
  CHECK(narrow_types_of("mine(__half const*, float*)") == types{"fp16"});
  CHECK(narrow_types_of("void cutlass::Kernel<Gemm<cutlass::half_t, float>>(int)") ==
        types{"fp16"});
  // A name of somebody's own says nothing, what stands behind it does.
  CHECK(narrow_types_of("rotate_half_kernel(float const*, float const*, float*, int)").empty());
  CHECK(narrow_types_of("void apply<rotate_half_op>(float*)").empty());
  CHECK(narrow_types_of("to_bf16_and_back(float*)").empty());
  // The control: f32 shows none.
  CHECK(narrow_types_of("ampere_sgemm_128x64_tn").empty());
  CHECK(narrow_types_of("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n").empty());
  CHECK(narrow_types_of("void at::native::vectorized_elementwise_kernel<4, float>").empty());
}

TEST_CASE("evidence is added up by whose kernels are, and its longest kernels are kept") {
  std::string many = "[";
  for (int i = 0; i < 30; ++i)
    many += fmt::format(R"json(["mine_{}(float*)", 2, {}],)json", i, 100 + i);
  const evidence_report seen = seen_in(many + R"json(["ampere_sgemm_128x64_tn", 1, 7000]])json");
  CHECK(seen.kernels.size() == max_kernels);
  CHECK(seen.kernels.front().name == "ampere_sgemm_128x64_tn");
  CHECK(seen.ns_by_kind.at("cublas") == 7000);
  CHECK(seen.device_ns == 7000 + 30 * 100 + 29 * 15);
  CHECK(seen.graphs == false);
  CHECK(seen_in("[]").device_ns == 0);
}

TEST_CASE("an answer that is no evidence is refused") {
  for (
      const char* text :
      {"", "3", "{}", R"json({"aliases_output": true})json",
       R"json({"aliases_output": 1, "late_builds": 0})json",
       R"json({"aliases_output": true, "late_builds": -1})json",
       R"json({"aliases_output": true, "late_builds": 0})json",
       R"json({"aliases_output": true, "late_builds": 0, "graphs": false, "kernels": [["x", 1]]})json",
       R"json({"aliases_output": true, "late_builds": 0, "graphs": false, "kernels": [[1, 1, 1]]})json",
       R"json({"aliases_output": true, "late_builds": 0, "graphs": false, "kernels": [["x", 1, -1]]})json",
       R"json({"aliases_output": true, "late_builds": 0, "kernels": []})json"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_evidence(text, true));
  }
  const auto unknown =
      parse_evidence(R"json({"aliases_output": true, "late_builds": 2, "unknown": ""})json", true);
  REQUIRE(unknown);
  CHECK_FALSE(unknown->unknown.empty());
  CHECK(unknown->late_builds == 2);
}

TEST_CASE("a policy refuses what evidence shows, only where it goes by evidence") {
  constexpr suite_policy strict{.by_evidence = true};
  constexpr suite_policy open{
      .library_calls = true, .lower_precision = true, .graphs = true, .by_evidence = true};
  const auto reason = [](const evidence_report& seen, const suite_policy& policy) {
    const finding f = held_against(seen, policy);
    CHECK((f.ok() || f.kind == verdict_kind::rejected_static));
    CHECK(contains(f.detail, f.reason));
    return f.reason;
  };
  const evidence_report library =
      seen_in(R"json([["ampere_sgemm_128x64_tn", 1, 10], ["mine", 1, 90]])json");
  const evidence_report torch =
      seen_in(R"json([["at::native::relu", 1, 60], ["mine", 1, 40]])json");
  const evidence_report some_torch =
      seen_in(R"json([["at::native::relu", 1, 40], ["mine", 1, 60]])json");
  const evidence_report narrow = seen_in(R"json([["void mine<__half>()", 1, 10]])json");
  const evidence_report graph = seen_in(R"json([["mine", 1, 10]])json", true, true);
  CHECK(reason(library, strict) == "library_calls");
  CHECK(reason(torch, strict) == "library_calls");
  CHECK(reason(narrow, strict) == "lower_precision");
  CHECK(reason(graph, strict) == "graphs");
  CHECK(reason(some_torch, strict).empty());
  for (const auto* one : {&library, &torch, &narrow, &graph}) {
    CHECK(reason(*one, open).empty());
    CHECK(reason(*one, suite_policy{}).empty());
  }
  // Half precision is what a task of half precision asks for.
  CHECK(reason(seen_in(R"json([["void mine<__half>()", 1, 10]])json", false), strict).empty());
  evidence_report unknown;
  unknown.unknown = "no CUPTI";
  CHECK(reason(unknown, strict).empty());
}

TEST_CASE("prompts state what a suite that goes by evidence refuses, and nothing else") {
  const auto rules = [](const suite_policy& policy) {
    std::string text;
    for (const std::string& one : pytorch_lane.on_gpus_too->restrictions(policy))
      text += one + " ";
    return text;
  };
  const std::string strict = rules({.by_evidence = true});
  for (const char* word : {"cuBLAS", "narrower type", "CUDA graph"}) {
    CHECK(contains(strict, word));
    CHECK_FALSE(contains(rules({}), word));
  }
  const std::string open = rules({.library_calls = true, .graphs = true, .by_evidence = true});
  CHECK_FALSE(contains(open, "cuBLAS"));
  CHECK(contains(open, "narrower type"));
}
