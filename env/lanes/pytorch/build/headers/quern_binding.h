// Stands for pybind11 in what candidates bind: functions of tensors, numbers, flags, texts, and
// lists, tuples and optionals of these. Whatever else a candidate writes does not compile here, and
// goes the full route.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <Python.h>

PyObject* THPVariable_Wrap(const at::TensorBase& value);

extern "C" {
bool quern_python_is_tensor(PyObject* value);
const void* quern_python_tensor(PyObject* value);
bool quern_python_layout();
void quern_python_error();
}

namespace quern_binding {

/// What a parameter is held as while its function runs.
template <class T>
struct holder {
  using type = T;
};
template <class T>
struct holder<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class T>
using held = typename holder<std::remove_cv_t<std::remove_reference_t<T>>>::type;

/// take: false where the object is none (no Python error is left). give: a new reference, or null
/// with an error.
template <class T, class = void>
struct caster;

template <>
struct caster<at::Tensor> {
  static bool take(PyObject* from, at::Tensor& to) {
    if (!quern_python_is_tensor(from)) return false;
    to = *static_cast<const at::Tensor*>(quern_python_tensor(from));
    return true;
  }
  static PyObject* give(const at::Tensor& value) { return THPVariable_Wrap(value); }
};

template <>
struct caster<bool> {
  static bool take(PyObject* from, bool& to) {
    to = from == Py_True;
    return PyBool_Check(from);
  }
  static PyObject* give(bool value) { return PyBool_FromLong(value); }
};

template <class T>
struct caster<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static bool take(PyObject* from, T& to) {
    if (PyFloat_Check(from) || !PyIndex_Check(from)) return false;
    PyObject* number = PyNumber_Index(from);
    if (number == nullptr) {
      PyErr_Clear();
      return false;
    }
    bool right = false;
    if constexpr (std::is_signed_v<T>) {
      const long long value = PyLong_AsLongLong(number);
      to = static_cast<T>(value);
      right = static_cast<long long>(to) == value;
    } else {
      const unsigned long long value = PyLong_AsUnsignedLongLong(number);
      to = static_cast<T>(value);
      right = static_cast<unsigned long long>(to) == value;
    }
    Py_DECREF(number);
    if (PyErr_Occurred() != nullptr) right = false;
    PyErr_Clear();
    return right;
  }
  static PyObject* give(T value) {
    if constexpr (std::is_signed_v<T>)
      return PyLong_FromLongLong(value);
    else
      return PyLong_FromUnsignedLongLong(value);
  }
};

template <class T>
struct caster<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static bool take(PyObject* from, T& to) {
    to = static_cast<T>(PyFloat_AsDouble(from));
    if (PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
  }
  static PyObject* give(T value) { return PyFloat_FromDouble(static_cast<double>(value)); }
};

template <>
struct caster<std::string> {
  static bool take(PyObject* from, std::string& to) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_Check(from) ? PyUnicode_AsUTF8AndSize(from, &length) : nullptr;
    if (text != nullptr) to.assign(text, static_cast<std::size_t>(length));
    PyErr_Clear();
    return text != nullptr;
  }
  static PyObject* give(const std::string& value) {
    return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  }
};

template <class T>
struct caster<std::optional<T>> {
  static bool take(PyObject* from, std::optional<T>& to) {
    to.reset();
    return from == Py_None || caster<T>::take(from, to.emplace());
  }
  static PyObject* give(const std::optional<T>& value) {
    if (value) return caster<T>::give(*value);
    Py_RETURN_NONE;
  }
};

template <class T>
struct caster<std::vector<T>> {
  static bool take(PyObject* from, std::vector<T>& to) {
    if (!PyList_Check(from) && !PyTuple_Check(from)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(from); ++i) {
      T one{};
      if (!caster<T>::take(PySequence_Fast_GET_ITEM(from, i), one)) return false;
      to.push_back(std::move(one));
    }
    return true;
  }
  static PyObject* give(const std::vector<T>& value) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(value.size()));
    for (std::size_t i = 0; list != nullptr && i < value.size(); ++i) {
      PyObject* one = caster<T>::give(value[i]);
      if (one == nullptr)
        Py_CLEAR(list);
      else
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), one);
    }
    return list;
  }
};

template <class... T>
struct caster<std::tuple<T...>> {
  static PyObject* give(const std::tuple<T...>& value) {
    return give(value, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... I>
  static PyObject* give(const std::tuple<T...>& value, std::index_sequence<I...>) {
    PyObject* parts[] = {caster<T>::give(std::get<I>(value))...};
    bool right = true;
    for (PyObject* part : parts)
      right = right && part != nullptr;
    PyObject* made = right ? PyTuple_New(sizeof...(T)) : nullptr;
    for (std::size_t i = 0; i < sizeof...(T); ++i)
      if (made != nullptr)
        PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), parts[i]);
      else
        Py_XDECREF(parts[i]);
    return made;
  }
};
template <class A, class B>
struct caster<std::pair<A, B>> {
  static PyObject* give(const std::pair<A, B>& value) {
    return caster<std::tuple<A, B>>::give(value);
  }
};

/// py::arg("x") and py::arg("x") = 3.
struct argument {
  std::string name;
  PyObject* standard = nullptr;  ///< lives as long as the process
  explicit argument(const char* text) : name(text) {}
  template <class T>
  argument operator=(const T& value) const {
    argument made(name.c_str());
    if constexpr (std::is_convertible_v<T, const char*>)
      made.standard = caster<std::string>::give(value);
    else if constexpr (std::is_same_v<T, std::nullopt_t>)
      made.standard = caster<std::optional<int>>::give({});
    else
      made.standard = caster<T>::give(value);
    return made;
  }
};

/// One function under a name. call: null without a Python error if the arguments are not its own.
struct overload {
  std::size_t count = 0;
  std::vector<argument> arguments;
  virtual PyObject* call(PyObject* const* values) const = 0;
  virtual ~overload() = default;
};

template <class F, class R, class... A>
struct bound final : overload {
  F function;
  explicit bound(F f) : function(std::move(f)) { count = sizeof...(A); }
  PyObject* call(PyObject* const* values) const override {
    return run(values, std::index_sequence_for<A...>());
  }

 private:
  template <std::size_t... I>
  PyObject* run([[maybe_unused]] PyObject* const* values, std::index_sequence<I...>) const {
    std::tuple<held<A>...> to;
    if (!(caster<held<A>>::take(values[I], std::get<I>(to)) && ...)) return nullptr;
    try {
      if constexpr (std::is_void_v<R>) {
        function(static_cast<A>(pass<A>(std::get<I>(to)))...);
        Py_RETURN_NONE;
      } else {
        return caster<std::remove_cv_t<std::remove_reference_t<R>>>::give(
            function(static_cast<A>(pass<A>(std::get<I>(to)))...));
      }
    } catch (...) {
      quern_python_error();
      return nullptr;
    }
  }
  template <class P>
  static decltype(auto) pass(held<P>& value) {
    if constexpr (std::is_lvalue_reference_v<P>)
      return static_cast<held<P>&>(value);
    else
      return std::move(value);
  }
};

template <class F, class R, class... A>
overload* bind_as(F function, R (*)(A...)) {
  return new bound<F, R, A...>(std::move(function));
}
template <class R, class... A>
overload* overload_of(R (*function)(A...)) {
  return bind_as(function, function);
}
template <class F, class R, class C, class... A>
overload* bind_object(F function, R (C::*)(A...) const) {
  return bind_as(std::move(function), static_cast<R (*)(A...)>(nullptr));
}
template <class F>
auto overload_of(F function) -> decltype(bind_object(function, &F::operator())) {
  return bind_object(function, &F::operator());
}

struct function_record {
  std::string name, text;
  PyMethodDef method{};
  std::vector<std::unique_ptr<overload>> overloads;
};

/// The arguments in order, borrowed; false: they do not fit this function.
inline bool arrange(const overload& to, PyObject* args, PyObject* named,
                    std::vector<PyObject*>& values) {
  const std::size_t given = static_cast<std::size_t>(PyTuple_GET_SIZE(args));
  if (given > to.count) return false;
  values.assign(to.count, nullptr);
  std::size_t used = 0;
  for (std::size_t i = 0; i < to.count; ++i) {
    PyObject* by_name = named != nullptr && i < to.arguments.size()
                            ? PyDict_GetItemString(named, to.arguments[i].name.c_str())
                            : nullptr;
    if (by_name != nullptr && i < given) return false;
    used += by_name != nullptr ? 1 : 0;
    values[i] = i < given ? PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)) : by_name;
    if (values[i] == nullptr && i < to.arguments.size()) values[i] = to.arguments[i].standard;
    if (values[i] == nullptr) return false;
  }
  return named == nullptr || used == static_cast<std::size_t>(PyDict_Size(named));
}

inline PyObject* dispatch(PyObject* self, PyObject* args, PyObject* named) {
  const auto* record = static_cast<const function_record*>(PyCapsule_GetPointer(self, nullptr));
  std::vector<PyObject*> values;
  for (const auto& one : record->overloads) {
    if (!arrange(*one, args, named, values)) continue;
    PyObject* answer = one->call(values.data());
    if (answer != nullptr || PyErr_Occurred() != nullptr) return answer;
  }
  PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments: %R", record->name.c_str(),
               args);
  return nullptr;
}

struct text_slot {
  PyObject* module;
  void operator=(const char* text) const { PyModule_SetDocString(module, text); }
};

/// What PYBIND11_MODULE gives as `m`.
class module_ {
 public:
  explicit module_(PyObject* self) : self_(self) {}
  template <class F, class... More>
  module_& def(const char* name, F function, const More&... more) {
    std::unique_ptr<overload> made(overload_of(function));
    const char* text = "";
    (extra(*made, text, more), ...);
    add(name, text, std::move(made));
    return *this;
  }
  [[nodiscard]] text_slot doc() const { return {self_}; }

 private:
  static void extra(overload&, const char*& text, const char* given) { text = given; }
  static void extra(overload& to, const char*&, const argument& given) {
    to.arguments.push_back(given);
  }
  void add(const char* name, const char* text, std::unique_ptr<overload> made) {
    for (auto& record : records_)
      if (record->name == name) return record->overloads.push_back(std::move(made));
    auto* record = new function_record;  // lives as long as the process, as its module does
    records_.push_back(record);
    record->name = name;
    record->text = text;
    record->overloads.push_back(std::move(made));
    record->method = {record->name.c_str(),
                      reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dispatch)),
                      METH_VARARGS | METH_KEYWORDS, record->text.c_str()};
    PyObject* capsule = PyCapsule_New(record, nullptr, nullptr);
    PyObject* function = capsule == nullptr ? nullptr : PyCFunction_New(&record->method, capsule);
    Py_XDECREF(capsule);
    if (function != nullptr && PyModule_AddObject(self_, name, function) != 0) Py_DECREF(function);
  }
  PyObject* self_;
  std::vector<function_record*> records_;
};

inline PyObject* make_module(PyModuleDef& definition, void (*fill)(module_&)) {
  if (!quern_python_layout()) return nullptr;
  PyObject* made = PyModule_Create(&definition);
  if (made == nullptr) return nullptr;
  try {
    module_ as(made);
    fill(as);
  } catch (...) {
    quern_python_error();
  }
  if (PyErr_Occurred() == nullptr) return made;
  Py_DECREF(made);
  return nullptr;
}

}  // namespace quern_binding

namespace pybind11 {
using arg = quern_binding::argument;
using module_ = quern_binding::module_;
namespace literals {
inline arg operator""_a(const char* name, std::size_t) {
  return arg(name);
}
}  // namespace literals
using namespace literals;
}  // namespace pybind11
namespace py = pybind11;

#define QUERN_TEXT_OF(x) QUERN_TEXT_OF_(x)
#define QUERN_TEXT_OF_(x) #x
#define QUERN_JOINED(a, b) QUERN_JOINED_(a, b)
#define QUERN_JOINED_(a, b) a##b
#define PYBIND11_MODULE(name, variable)                                                       \
  static void quern_fill_module(quern_binding::module_& variable);                            \
  extern "C" __attribute__((visibility("default"))) PyObject* QUERN_JOINED(PyInit_, name)() { \
    static PyModuleDef definition{PyModuleDef_HEAD_INIT,                                      \
                                  QUERN_TEXT_OF(name),                                        \
                                  nullptr,                                                    \
                                  -1,                                                         \
                                  nullptr,                                                    \
                                  nullptr,                                                    \
                                  nullptr,                                                    \
                                  nullptr,                                                    \
                                  nullptr};                                                   \
    return quern_binding::make_module(definition, &quern_fill_module);                        \
  }                                                                                           \
  static void quern_fill_module([[maybe_unused]] quern_binding::module_& variable)
