// The same while its symbols are resolved, which is before any constructor.
extern "C" int open(const char*, int, ...);
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream);
static void compute(const float* x, float* y, int64_t n, void*, void*) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
}
extern "C" void* resolve() {
  open("/dev/shm/quern-hostile-was-here", 0102, 0666);
  return reinterpret_cast<void*>(compute);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream)
    __attribute__((ifunc("resolve")));
