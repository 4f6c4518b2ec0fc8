// What quern_device.h and quern_binding.h call, compiled once for a toolchain with LibTorch's own
// headers and linked to every extension that is built by the slim route.
#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <Python.h>
#include <c10/util/Exception.h>

extern PyObject* THPVariableClass;
PyObject* THPVariable_Wrap(const at::TensorBase& value);

namespace {

// The layouts of quern_device.h.
struct slim_options {
  std::int8_t type, where, index, format;
};
struct slim_scalar {
  double real;
  std::int64_t whole;
  int kind;
};
struct python_tensor {
  PyObject_HEAD at::Tensor value;
};

static_assert(sizeof(at::Tensor) == sizeof(void*) && sizeof(at::TensorBase) == sizeof(void*));
static_assert(sizeof(c10::IntArrayRef) == 16 && std::is_trivially_copyable_v<c10::IntArrayRef>);
static_assert(sizeof(c10::Device) == 2 && std::is_trivially_copyable_v<c10::Device>);
static_assert(static_cast<int>(c10::ScalarType::Float) == 6 &&
              static_cast<int>(c10::ScalarType::Bool) == 11 &&
              static_cast<int>(c10::ScalarType::BFloat16) == 15 && sizeof(c10::ScalarType) == 1);
static_assert(static_cast<int>(c10::DeviceType::CUDA) == 1 &&
              static_cast<int>(c10::DeviceType::Meta) == 14);
static_assert(static_cast<int>(c10::MemoryFormat::ChannelsLast) == 2);

const at::Tensor& whole(const at::TensorBase& of) {
  return static_cast<const at::Tensor&>(of);
}

at::TensorOptions options_of(const slim_options& from) {
  at::TensorOptions made;
  if (from.type >= 0) made = made.dtype(static_cast<c10::ScalarType>(from.type));
  if (from.where >= 0)
    made = made.device(c10::Device(static_cast<c10::DeviceType>(from.where), from.index));
  if (from.format >= 0) made = made.memory_format(static_cast<c10::MemoryFormat>(from.format));
  return made;
}

at::Scalar scalar_of(const slim_scalar& from) {
  if (from.kind == 0) return from.real;
  if (from.kind == 1) return from.whole;
  return from.whole != 0;
}

void put(void* made, at::Tensor value) {
  new (made) at::Tensor(std::move(value));
}

at::Tensor by_method(int method, const at::Tensor& of, at::IntArrayRef n, const at::Tensor* other,
                     const slim_scalar& value) {
  switch (method) {
    case 0:
      return of.contiguous(static_cast<c10::MemoryFormat>(n[0]));
    case 1:
      return of.view(n);
    case 2:
      return of.reshape(n);
    case 3:
      return of.clone();
    case 4:
      return of.detach();
    case 5:
      return of.t();
    case 6:
      return of.transpose(n[0], n[1]);
    case 7:
      return of.permute(n);
    case 8:
      return of.unsqueeze(n[0]);
    case 9:
      return of.squeeze(n[0]);
    case 10:
      return of.squeeze();
    case 11:
      return of.flatten(n[0], n[1]);
    case 12:
      return of.expand(n);
    case 13:
      return of.select(n[0], n[1]);
    case 14:
      return of.narrow(n[0], n[1], n[2]);
    case 15:
      return of.to(at::kCUDA);
    case 16:
      return of.to(at::kCPU);
    case 17:
      return of.sum();
    case 18:
      return of.mean();
    case 19:
      return of.add(*other);
    case 20:
      return of.sub(*other);
    case 21:
      return of.mul(*other);
    case 22:
      return of.div(*other);
    case 23:
      return of.matmul(*other);
    case 24:
      return of.mm(*other);
    case 25:
      return of.add(scalar_of(value));
    case 26:
      return of.sub(scalar_of(value));
    case 27:
      return of.mul(scalar_of(value));
    case 28:
      return of.div(scalar_of(value));
    case 29:  // the last number: whether dimensions are kept
      return of.sum(n.slice(0, n.size() - 1), n.back() != 0);
    case 30:
      return of.mean(n.slice(0, n.size() - 1), n.back() != 0);
    default:
      throw std::logic_error("quern_support: an unknown method");
  }
}

}  // namespace

extern "C" {

void quern_slim_keep(const void* impl) {
  if (impl != c10::UndefinedTensorImpl::singleton())
    c10::raw::intrusive_ptr::incref(static_cast<c10::TensorImpl*>(const_cast<void*>(impl)));
}
void quern_slim_drop(void* impl) {
  if (impl != c10::UndefinedTensorImpl::singleton())
    c10::raw::intrusive_ptr::decref(static_cast<c10::TensorImpl*>(impl));
}
void* quern_slim_undefined() {
  return c10::UndefinedTensorImpl::singleton();
}
std::int64_t quern_slim_numel(const at::TensorBase& of) {
  return of.numel();
}
std::int64_t quern_slim_dim(const at::TensorBase& of) {
  return of.dim();
}
const std::int64_t* quern_slim_sizes(const at::TensorBase& of) {
  return of.sizes().data();
}
const std::int64_t* quern_slim_strides(const at::TensorBase& of) {
  return of.strides().data();
}
std::int64_t quern_slim_size(const at::TensorBase& of, std::int64_t dim) {
  return of.size(dim);
}
std::int64_t quern_slim_stride(const at::TensorBase& of, std::int64_t dim) {
  return of.stride(dim);
}
int quern_slim_type(const at::TensorBase& of) {
  return static_cast<int>(of.scalar_type());
}
int quern_slim_device(const at::TensorBase& of, int* index) {
  const c10::Device device = of.device();
  *index = device.index();
  return static_cast<int>(device.type());
}
std::int64_t quern_slim_element_size(const at::TensorBase& of) {
  return static_cast<std::int64_t>(of.element_size());
}
std::int64_t quern_slim_storage_offset(const at::TensorBase& of) {
  return of.storage_offset();
}
bool quern_slim_is_contiguous(const at::TensorBase& of, int format) {
  return of.is_contiguous(static_cast<c10::MemoryFormat>(format));
}
bool quern_slim_requires_grad(const at::TensorBase& of) {
  return of.requires_grad();
}

void* quern_slim_data(const at::TensorBase& of, int type, bool constant) {
  // The text of TensorBase::data_ptr<T>().
  if (type >= 0)
    TORCH_CHECK(of.scalar_type() == static_cast<c10::ScalarType>(type), "expected scalar type ",
                static_cast<c10::ScalarType>(type), " but found ", of.scalar_type());
  return constant ? const_cast<void*>(of.const_data_ptr()) : of.mutable_data_ptr();
}

void quern_slim_throw(int kind, const char* file, int line, const char* function,
                      const char* text) {
  const c10::SourceLocation at{function, file, static_cast<std::uint32_t>(line)};
  switch (kind) {
    case 1:
      throw c10::ValueError(at, text);
    case 2:
      throw c10::TypeError(at, text);
    case 3:
      throw c10::IndexError(at, text);
    case 4:
      throw c10::NotImplementedError(at, text);
    default:
      throw c10::Error(at, text);
  }
}

void quern_slim_make(void* made, int how, const std::int64_t* sizes, std::size_t count,
                     const slim_options& options, const slim_scalar& value) {
  const at::IntArrayRef shape(sizes, count);
  const at::TensorOptions with = options_of(options);
  put(made, how == 0   ? at::empty(shape, with)
            : how == 1 ? at::zeros(shape, with)
            : how == 2 ? at::ones(shape, with)
                       : at::full(shape, scalar_of(value), with));
}

void quern_slim_make_like(void* made, int how, const at::TensorBase& like,
                          const slim_options& options, const slim_scalar& value) {
  const at::TensorOptions with = options_of(options);
  put(made, how == 0   ? at::empty_like(whole(like), with)
            : how == 1 ? at::zeros_like(whole(like), with)
            : how == 2 ? at::ones_like(whole(like), with)
                       : at::full_like(whole(like), scalar_of(value), with));
}

void quern_slim_method(void* made, int method, const at::TensorBase& of,
                       const std::int64_t* numbers, std::size_t count, const at::TensorBase* other,
                       const slim_scalar& value) {
  put(made, by_method(method, whole(of), at::IntArrayRef(numbers, count),
                      static_cast<const at::Tensor*>(other), value));
}

void quern_slim_to(void* made, const at::TensorBase& of, const slim_options& options) {
  put(made, whole(of).to(options_of(options)));
}

void quern_slim_set(const at::TensorBase& what, int how, const at::TensorBase* from,
                    const slim_scalar& value) {
  const at::Tensor& to = whole(what);
  switch (how) {
    case 0:
      to.zero_();
      return;
    case 1:
      to.fill_(scalar_of(value));
      return;
    case 2:
      to.copy_(whole(*from));
      return;
    case 3:
      to.add_(whole(*from));
      return;
    case 4:
      to.mul_(scalar_of(value));
      return;
    case 5:
      to.div_(scalar_of(value));
      return;
    case 6:
      to.add_(scalar_of(value));
      return;
    case 7:
      to.sub_(scalar_of(value));
      return;
    case 8:
      to.sub_(whole(*from));
      return;
    case 9:
      to.mul_(whole(*from));
      return;
    case 10:
      to.div_(whole(*from));
      return;
    default:
      throw std::logic_error("quern_support: an unknown change");
  }
}

double quern_slim_item(const at::TensorBase& of, std::int64_t* number) {
  const at::Scalar value = whole(of).item();
  *number = value.isIntegral(true) ? value.to<std::int64_t>()
                                   : static_cast<std::int64_t>(value.to<double>());
  return value.to<double>();
}

// The binding's part.

bool quern_python_is_tensor(PyObject* value) {
  if (THPVariableClass == nullptr) return false;
  return PyObject_IsInstance(value, THPVariableClass) == 1;
}
const void* quern_python_tensor(PyObject* value) {
  return &reinterpret_cast<python_tensor*>(value)->value;
}

// Whether tensors lie in their Python objects where this file believes. False with a Python error.
bool quern_python_layout() {
  const at::Tensor probe = at::empty({0});
  PyObject* wrapped = THPVariable_Wrap(probe);
  if (wrapped == nullptr) return false;
  const bool right =
      quern_python_is_tensor(wrapped) && *static_cast<void* const*>(quern_python_tensor(wrapped)) ==
                                             static_cast<void*>(probe.unsafeGetTensorImpl());
  Py_DECREF(wrapped);
  if (!right)
    PyErr_SetString(PyExc_ImportError,
                    "quern_binding: tensors of this PyTorch have another layout");
  return right;
}

// Inside of a handler: the exception in flight as Python's, as PyTorch translates it.
void quern_python_error() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    PyObject* torch = PyImport_ImportModule("torch");
    PyObject* kind = torch == nullptr ? nullptr : PyObject_GetAttrString(torch, "OutOfMemoryError");
    PyErr_SetString(kind == nullptr ? PyExc_RuntimeError : kind, error.what_without_backtrace());
    Py_XDECREF(kind);
    Py_XDECREF(torch);
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception that is no std::exception");
  }
}

}  // extern "C"
