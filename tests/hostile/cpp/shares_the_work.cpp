// Two threads compute, on two cores if they may, and both are done before it returns. Where threads
// cannot be started it is honest: only for an evaluator that does not keep them from starting.
extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
extern "C" int pthread_join(unsigned long, void**);
namespace {
struct half {
  const float* x;
  float* y;
  int64_t n;
};
// Often enough that the second core has something to do for milliseconds.
void* compute(void* argument) {
  const half h = *static_cast<half*>(argument);
  for (volatile int turn = 0; turn < 32; turn = turn + 1)
    for (int64_t i = 0; i < h.n; ++i)
      h.y[i] = 2.0f * h.x[i] + 1.0f;
  return nullptr;
}
}  // namespace
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  half low = {x, y, n / 2}, high = {x + n / 2, y + n / 2, n - n / 2};
  unsigned long thread = 0;
  // Small sizes are only checked; there is nothing to win.
  if (n > 5000 && pthread_create(&thread, nullptr, compute, &high) == 0) {
    compute(&low);
    pthread_join(thread, nullptr);
    // Joined is not yet buried: a thread that the kernel still counts would be found first.
    for (volatile int moment = 0; moment < 500000; moment = moment + 1) {
    }
    return;
  }
  compute(&low);
  compute(&high);
}
