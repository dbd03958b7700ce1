// gfx-probe: what an AMD card says of itself, and a vector sum that tells whether its code object really runs.
// Exit status 0: every device added correctly. 1: a device answered wrongly. 2: no device, or the runtime failed.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kCount = 1 << 16;
constexpr int kBlock = 256;

__global__ void add(const float* left, const float* right, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = left[i] + right[i];
}

bool failed(hipError_t status, const char* what) {
  if (status == hipSuccess) return false;
  std::fprintf(stderr, "gfx-probe: %s: %s\n", what, hipGetErrorString(status));
  return true;
}

// Returns 0, 1 or 2 as the program does.
int probe(int device) {
  hipDeviceProp_t properties;
  if (failed(hipGetDeviceProperties(&properties, device), "properties") || failed(hipSetDevice(device), "select"))
    return 2;
  std::printf("device %d: %s, %s, %d compute units, %zu bytes of LDS per block, wave of %d\n", device,
              properties.name, properties.gcnArchName, properties.multiProcessorCount,
              static_cast<size_t>(properties.sharedMemPerBlock), properties.warpSize);

  std::vector<float> left(kCount), right(kCount), sum(kCount);
  for (int i = 0; i < kCount; ++i) {
    left[i] = static_cast<float>(i);
    right[i] = 0.5f * static_cast<float>(i);
  }
  const size_t bytes = kCount * sizeof(float);
  float *l = nullptr, *r = nullptr, *s = nullptr;
  int result = 2;
  if (!failed(hipMalloc(reinterpret_cast<void**>(&l), bytes), "allocate") &&
      !failed(hipMalloc(reinterpret_cast<void**>(&r), bytes), "allocate") &&
      !failed(hipMalloc(reinterpret_cast<void**>(&s), bytes), "allocate") &&
      !failed(hipMemcpy(l, left.data(), bytes, hipMemcpyHostToDevice), "copy in") &&
      !failed(hipMemcpy(r, right.data(), bytes, hipMemcpyHostToDevice), "copy in")) {
    hipLaunchKernelGGL(add, dim3(kCount / kBlock), dim3(kBlock), 0, 0, l, r, s, kCount);
    if (!failed(hipGetLastError(), "launch") &&
        !failed(hipMemcpy(sum.data(), s, bytes, hipMemcpyDeviceToHost), "copy out")) {
      result = 0;
      for (int i = 0; i < kCount; ++i) {
        if (std::fabs(sum[i] - 1.5f * static_cast<float>(i)) > 1e-3f * (1.0f + sum[i])) {
          std::fprintf(stderr, "gfx-probe: device %d: element %d is %f\n", device, i, sum[i]);
          result = 1;
          break;
        }
      }
    }
  }
  // Memory that was never allocated is a null pointer, which hipFree accepts.
  if (failed(hipFree(l), "free") || failed(hipFree(r), "free") || failed(hipFree(s), "free")) return 2;
  return result;
}

}  // namespace

int main() {
  int count = 0;
  if (failed(hipGetDeviceCount(&count), "count devices")) return 2;
  if (count == 0) {
    std::fprintf(stderr, "gfx-probe: no device\n");
    return 2;
  }
  int worst = 0;
  for (int device = 0; device < count; ++device) {
    const int result = probe(device);
    if (result > worst) worst = result;
  }
  return worst;
}
