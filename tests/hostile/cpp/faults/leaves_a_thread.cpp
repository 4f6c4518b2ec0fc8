// Right, and leaves a thread behind that does nothing yet. Where threads cannot be started it is
// honest: only for an evaluator that does not keep them from starting.
extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
extern "C" int usleep(unsigned);
namespace {
void* wait_for_ever(void*) {
  for (;;)
    usleep(1000000);
}
}  // namespace
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
  unsigned long thread = 0;
  pthread_create(&thread, nullptr, wait_for_ever, nullptr);
}
