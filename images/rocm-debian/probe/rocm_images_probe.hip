// rocm_images_probe: what an AMD card says of itself, and whether code that was compiled for it really runs there.
//
// A Python module of three functions. None of them needs torch, and importing it needs no card.
//   devices()              -> list of dicts; empty where there is no card
//   vector_add(device, n)  -> the largest difference to what the processor adds up, 0.0 where all is well
//   lds(device)            -> how many bytes of LDS a workgroup asked for, wrote and read back: all it may have
// What the HIP runtime refuses is a RuntimeError with its words.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <memory>
#include <vector>

namespace {

constexpr unsigned kBlock = 256;
constexpr long kMost = 1L << 28;

__global__ void add(const float* left, const float* right, float* sum, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = left[i] + right[i];
}

// Every thread fills its share of the LDS and reads that of its mirror image, so that a write that went elsewhere,
// or into memory that another workgroup has, is seen.
__global__ void fill(unsigned words, unsigned* wrong) {
  extern __shared__ unsigned block[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) block[i] = i * 2654435761u + blockIdx.x;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
    const unsigned other = words - 1 - i;
    if (block[other] != other * 2654435761u + blockIdx.x) atomicAdd(wrong, 1u);
  }
}

bool failed(hipError_t status, const char* what) {
  if (status == hipSuccess) return false;
  PyErr_Format(PyExc_RuntimeError, "%s: %s", what, hipGetErrorString(status));
  return true;
}

struct Free {
  // Memory that cannot be given back ends with the process.
  void operator()(void* memory) const { static_cast<void>(hipFree(memory)); }
};
template <typename T>
using OnCard = std::unique_ptr<T, Free>;

// Returns null, with an exception set, where the card has no room.
template <typename T>
OnCard<T> allocate(size_t count) {
  void* memory = nullptr;
  if (failed(hipMalloc(&memory, count * sizeof(T)), "allocate")) return nullptr;
  return OnCard<T>(static_cast<T*>(memory));
}

PyObject* devices(PyObject*, PyObject*) {
  int count = 0;
  const hipError_t status = hipGetDeviceCount(&count);
  if (status == hipErrorNoDevice) count = 0;
  else if (failed(status, "count the devices")) return nullptr;
  PyObject* found = PyList_New(0);
  if (found == nullptr) return nullptr;
  for (int number = 0; number < count; ++number) {
    hipDeviceProp_t told;
    PyObject* device = nullptr;
    if (!failed(hipGetDeviceProperties(&told, number), "ask for the properties"))
      device = Py_BuildValue("{s:s,s:s,s:i,s:i,s:n,s:n}", "name", told.name, "target", told.gcnArchName,
                             "compute_units", told.multiProcessorCount, "wave", told.warpSize, "lds_per_block",
                             static_cast<Py_ssize_t>(told.sharedMemPerBlock), "memory",
                             static_cast<Py_ssize_t>(told.totalGlobalMem));
    const bool kept = device != nullptr && PyList_Append(found, device) == 0;
    Py_XDECREF(device);
    if (!kept) {
      Py_DECREF(found);
      return nullptr;
    }
  }
  return found;
}

PyObject* vector_add(PyObject*, PyObject* arguments) {
  int device = 0;
  long count = 0;
  if (!PyArg_ParseTuple(arguments, "il", &device, &count)) return nullptr;
  if (count < 1 || count > kMost) {
    PyErr_Format(PyExc_ValueError, "expected a count from 1 to %ld, got %ld", kMost, count);
    return nullptr;
  }
  std::vector<float> left(count), right(count), sum(count);
  for (long i = 0; i < count; ++i) {
    left[i] = static_cast<float>(i % 1024);
    right[i] = 0.5f * static_cast<float>(i % 4096);
  }
  if (failed(hipSetDevice(device), "choose the device")) return nullptr;
  const size_t bytes = count * sizeof(float);
  OnCard<float> l = allocate<float>(count), r, s;
  if (l) r = allocate<float>(count);
  if (r) s = allocate<float>(count);
  if (!s || failed(hipMemcpy(l.get(), left.data(), bytes, hipMemcpyHostToDevice), "copy to the card") ||
      failed(hipMemcpy(r.get(), right.data(), bytes, hipMemcpyHostToDevice), "copy to the card"))
    return nullptr;
  const unsigned blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
  hipLaunchKernelGGL(add, dim3(blocks), dim3(kBlock), 0, 0, l.get(), r.get(), s.get(), static_cast<unsigned>(count));
  if (failed(hipGetLastError(), "start the kernel") ||
      failed(hipMemcpy(sum.data(), s.get(), bytes, hipMemcpyDeviceToHost), "copy from the card"))
    return nullptr;
  double worst = 0.0;
  for (long i = 0; i < count; ++i) {
    const double difference = std::fabs(static_cast<double>(sum[i]) - (static_cast<double>(left[i]) + right[i]));
    if (!(difference <= worst)) worst = difference;  // not-a-number as well
  }
  return PyFloat_FromDouble(worst);
}

PyObject* lds(PyObject*, PyObject* arguments) {
  int device = 0, bytes = 0;
  if (!PyArg_ParseTuple(arguments, "i", &device)) return nullptr;
  if (failed(hipSetDevice(device), "choose the device") ||
      failed(hipDeviceGetAttribute(&bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device), "ask for the LDS"))
    return nullptr;
  OnCard<unsigned> counter = allocate<unsigned>(1);
  unsigned wrong = 0;
  if (!counter || failed(hipMemset(counter.get(), 0, sizeof wrong), "clear a counter")) return nullptr;
  const unsigned words = static_cast<unsigned>(bytes) / sizeof(unsigned);
  hipLaunchKernelGGL(fill, dim3(64), dim3(kBlock), static_cast<unsigned>(bytes), 0, words, counter.get());
  if (failed(hipGetLastError(), "start the kernel") ||
      failed(hipMemcpy(&wrong, counter.get(), sizeof wrong, hipMemcpyDeviceToHost), "copy from the card"))
    return nullptr;
  if (wrong != 0) {
    PyErr_Format(PyExc_RuntimeError, "%u words of LDS were read back wrongly", wrong);
    return nullptr;
  }
  return PyLong_FromLong(bytes);
}

PyMethodDef kMethods[] = {
    {"devices", devices, METH_NOARGS, "Return what the HIP runtime tells of every card."},
    {"vector_add", vector_add, METH_VARARGS, "Add up n numbers on a device; return the largest difference."},
    {"lds", lds, METH_VARARGS, "Use all the LDS that a workgroup may have on a device; return its bytes."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "rocm_images_probe", "What an AMD card is, and whether it computes.",
                       0, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_rocm_images_probe() { return PyModuleDef_Init(&kModule); }
