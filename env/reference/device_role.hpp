// Role `reference-gpu` of program quern-torch: references of lanes on a GPU, run by ATen there.
#pragma once

namespace quern::env {

/// `quern-torch reference-gpu LIBRARY`: answers questions (env/runner/gpu_protocol.hpp) on
/// descriptor 3 until the evaluator closes it; the exit status of the process. LIBRARY is
/// libquern_cuda.so; libquern_aten_cuda.so lies beside it. `argv[0]` is the role's name. Nothing of
/// LibTorch may have been used before.
///
/// A resident process, one device and one thread. It does not fork as role `reference` does: a CUDA
/// context does not survive that.
int reference_gpu_main(int argc, char** argv);

}  // namespace quern::env
