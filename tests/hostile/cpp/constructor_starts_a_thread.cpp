// Has a helper before it is called, and is honest where it gets none.
extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
extern "C" int usleep(unsigned);
static void* wait_for_ever(void*) {
  for (;;)
    usleep(1000000);
}
__attribute__((constructor)) static void act() {
  unsigned long thread = 0;
  pthread_create(&thread, nullptr, wait_for_ever, nullptr);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
}
