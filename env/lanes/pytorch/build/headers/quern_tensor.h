// Part of quern_device.h: the class Tensor.
#pragma once

namespace at {

/// LibTorch's layout: one counted pointer, never null.
class TensorBase {
 protected:
  c10::TensorImpl* impl_;

 public:
  QUERN_SLIM_MEMBER TensorBase() : impl_(static_cast<c10::TensorImpl*>(quern_slim_undefined())) {}
  QUERN_SLIM_MEMBER TensorBase(const TensorBase& other) : impl_(other.impl_) {
    quern_slim_keep(impl_);
  }
  QUERN_SLIM_MEMBER TensorBase(TensorBase&& other) noexcept : impl_(other.impl_) {
    other.impl_ = static_cast<c10::TensorImpl*>(quern_slim_undefined());
  }
  QUERN_SLIM_MEMBER ~TensorBase() { quern_slim_drop(impl_); }
  QUERN_SLIM_MEMBER TensorBase& operator=(const TensorBase& other) {
    quern_slim_keep(other.impl_);
    quern_slim_drop(impl_);
    impl_ = other.impl_;
    return *this;
  }
  QUERN_SLIM_MEMBER TensorBase& operator=(TensorBase&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  QUERN_SLIM_MEMBER bool defined() const { return impl_ != quern_slim_undefined(); }
  QUERN_SLIM_MEMBER bool is_same(const TensorBase& other) const { return impl_ == other.impl_; }
  QUERN_SLIM_MEMBER std::int64_t numel() const { return quern_slim_numel(*this); }
  QUERN_SLIM_MEMBER std::int64_t dim() const { return quern_slim_dim(*this); }
  QUERN_SLIM_MEMBER std::int64_t ndimension() const { return dim(); }
  QUERN_SLIM_MEMBER IntArrayRef sizes() const {
    return {quern_slim_sizes(*this), static_cast<std::size_t>(dim())};
  }
  QUERN_SLIM_MEMBER IntArrayRef strides() const {
    return {quern_slim_strides(*this), static_cast<std::size_t>(dim())};
  }
  QUERN_SLIM_MEMBER std::int64_t size(std::int64_t at) const { return quern_slim_size(*this, at); }
  QUERN_SLIM_MEMBER std::int64_t stride(std::int64_t at) const {
    return quern_slim_stride(*this, at);
  }
  QUERN_SLIM_MEMBER ScalarType scalar_type() const {
    return static_cast<ScalarType>(quern_slim_type(*this));
  }
  QUERN_SLIM_MEMBER OldType type() const { return {scalar_type(), is_cuda()}; }
  QUERN_SLIM_MEMBER TypeMeta dtype() const { return {scalar_type()}; }
  QUERN_SLIM_MEMBER Device device() const {
    int index = -1;
    const int type = quern_slim_device(*this, &index);
    return Device(static_cast<DeviceType>(type), static_cast<DeviceIndex>(index));
  }
  QUERN_SLIM_MEMBER std::int64_t get_device() const { return device().index(); }
  QUERN_SLIM_MEMBER bool is_cuda() const { return device().is_cuda(); }
  QUERN_SLIM_MEMBER bool is_cpu() const { return device().is_cpu(); }
  QUERN_SLIM_MEMBER bool is_floating_point() const {
    const ScalarType type = scalar_type();
    return type == kFloat || type == kDouble || type == kHalf || type == kBFloat16;
  }
  QUERN_SLIM_MEMBER TensorOptions options() const {
    return TensorOptions(scalar_type()).device(device());
  }
  QUERN_SLIM_MEMBER std::size_t element_size() const {
    return static_cast<std::size_t>(quern_slim_element_size(*this));
  }
  QUERN_SLIM_MEMBER std::size_t itemsize() const { return element_size(); }
  QUERN_SLIM_MEMBER std::size_t nbytes() const {
    return static_cast<std::size_t>(numel()) * element_size();
  }
  QUERN_SLIM_MEMBER std::int64_t storage_offset() const { return quern_slim_storage_offset(*this); }
  QUERN_SLIM_MEMBER bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return quern_slim_is_contiguous(*this, static_cast<int>(format));
  }
  QUERN_SLIM_MEMBER bool requires_grad() const { return quern_slim_requires_grad(*this); }
  QUERN_SLIM_MEMBER void* data_ptr() const { return quern_slim_data(*this, -1, false); }
  QUERN_SLIM_MEMBER const void* const_data_ptr() const { return quern_slim_data(*this, -1, true); }
  QUERN_SLIM_MEMBER void* mutable_data_ptr() const { return quern_slim_data(*this, -1, false); }
  template <class T>
  QUERN_SLIM_MEMBER T* mutable_data_ptr() const {
    return static_cast<T*>(
        quern_slim_data(*this, static_cast<int>(CppTypeToScalarType<T>::value), false));
  }
  template <class T>
  QUERN_SLIM_MEMBER const std::remove_const_t<T>* const_data_ptr() const {
    using bare = std::remove_const_t<T>;
    return static_cast<const bare*>(
        quern_slim_data(*this, static_cast<int>(CppTypeToScalarType<bare>::value), true));
  }
  template <class T>
  QUERN_SLIM_MEMBER T* data_ptr() const {
    using bare = std::remove_const_t<T>;
    return static_cast<T*>(quern_slim_data(
        *this, static_cast<int>(CppTypeToScalarType<bare>::value), std::is_const_v<T>));
  }
};

class Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  QUERN_SLIM_MEMBER Tensor& operator=(const Tensor& other) & {
    TensorBase::operator=(other);
    return *this;
  }
  QUERN_SLIM_MEMBER Tensor& operator=(Tensor&& other) & noexcept {
    TensorBase::operator=(std::move(other));
    return *this;
  }
  QUERN_SLIM_MEMBER ~Tensor() {}
  /// The result of a function of quern_support.cpp that makes a tensor in the place that it is
  /// given.
  template <class Make>
  static QUERN_SLIM_MEMBER Tensor quern_slim_made(const Make& make) {
    Tensor made;  // undefined, which is not counted
    void* place = nullptr;
    make(&place);
    made.impl_ = static_cast<c10::TensorImpl*>(place);
    return made;
  }
  QUERN_SLIM_MEMBER Tensor quern_slim_call(int method, IntArrayRef numbers = {},
                                           const TensorBase* other = nullptr,
                                           const Scalar& value = 0) const {
    return quern_slim_made([&](void* to) {
      quern_slim_method(to, method, *this, numbers.data(), numbers.size(), other, value);
    });
  }
  QUERN_SLIM_MEMBER Tensor contiguous(MemoryFormat as = MemoryFormat::Contiguous) const {
    return quern_slim_call(0, static_cast<std::int64_t>(as));
  }
  QUERN_SLIM_MEMBER Tensor view(IntArrayRef sizes) const { return quern_slim_call(1, sizes); }
  QUERN_SLIM_MEMBER Tensor reshape(IntArrayRef sizes) const { return quern_slim_call(2, sizes); }
  QUERN_SLIM_MEMBER Tensor clone() const { return quern_slim_call(3); }
  QUERN_SLIM_MEMBER Tensor detach() const { return quern_slim_call(4); }
  QUERN_SLIM_MEMBER Tensor t() const { return quern_slim_call(5); }
  QUERN_SLIM_MEMBER Tensor transpose(std::int64_t a, std::int64_t b) const {
    return quern_slim_call(6, {a, b});
  }
  QUERN_SLIM_MEMBER Tensor permute(IntArrayRef order) const { return quern_slim_call(7, order); }
  QUERN_SLIM_MEMBER Tensor unsqueeze(std::int64_t at) const { return quern_slim_call(8, at); }
  QUERN_SLIM_MEMBER Tensor squeeze(std::int64_t at) const { return quern_slim_call(9, at); }
  QUERN_SLIM_MEMBER Tensor squeeze() const { return quern_slim_call(10); }
  QUERN_SLIM_MEMBER Tensor flatten(std::int64_t from = 0, std::int64_t to = -1) const {
    return quern_slim_call(11, {from, to});
  }
  QUERN_SLIM_MEMBER Tensor expand(IntArrayRef sizes) const { return quern_slim_call(12, sizes); }
  QUERN_SLIM_MEMBER Tensor select(std::int64_t dim, std::int64_t at) const {
    return quern_slim_call(13, {dim, at});
  }
  QUERN_SLIM_MEMBER Tensor operator[](std::int64_t at) const { return select(0, at); }
  QUERN_SLIM_MEMBER Tensor narrow(std::int64_t dim, std::int64_t from, std::int64_t count) const {
    return quern_slim_call(14, {dim, from, count});
  }
  QUERN_SLIM_MEMBER Tensor cuda() const { return quern_slim_call(15); }
  QUERN_SLIM_MEMBER Tensor cpu() const { return quern_slim_call(16); }
  QUERN_SLIM_MEMBER Tensor sum() const { return quern_slim_call(17); }
  QUERN_SLIM_MEMBER Tensor mean() const { return quern_slim_call(18); }
  QUERN_SLIM_MEMBER Tensor add(const Tensor& other) const {
    return quern_slim_call(19, {}, &other);
  }
  QUERN_SLIM_MEMBER Tensor sub(const Tensor& other) const {
    return quern_slim_call(20, {}, &other);
  }
  QUERN_SLIM_MEMBER Tensor mul(const Tensor& other) const {
    return quern_slim_call(21, {}, &other);
  }
  QUERN_SLIM_MEMBER Tensor div(const Tensor& other) const {
    return quern_slim_call(22, {}, &other);
  }
  QUERN_SLIM_MEMBER Tensor add(const Scalar& value) const {
    return quern_slim_call(25, {}, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor sub(const Scalar& value) const {
    return quern_slim_call(26, {}, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor mul(const Scalar& value) const {
    return quern_slim_call(27, {}, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor div(const Scalar& value) const {
    return quern_slim_call(28, {}, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor sum(IntArrayRef dims, bool keep = false) const {
    return quern_slim_reduced(29, dims, keep);
  }
  QUERN_SLIM_MEMBER Tensor mean(IntArrayRef dims, bool keep = false) const {
    return quern_slim_reduced(30, dims, keep);
  }
  QUERN_SLIM_MEMBER Tensor matmul(const Tensor& other) const {
    return quern_slim_call(23, {}, &other);
  }
  QUERN_SLIM_MEMBER Tensor mm(const Tensor& other) const { return quern_slim_call(24, {}, &other); }
  QUERN_SLIM_MEMBER Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  QUERN_SLIM_MEMBER Tensor to(const TensorOptions& options) const {
    return quern_slim_made([&](void* made) { quern_slim_to(made, *this, options); });
  }
  QUERN_SLIM_MEMBER Tensor to(ScalarType type) const { return to(TensorOptions(type)); }
  QUERN_SLIM_MEMBER Tensor to(Device device) const { return to(TensorOptions(device)); }
  QUERN_SLIM_MEMBER Tensor toType(ScalarType type) const { return to(type); }
  QUERN_SLIM_MEMBER Tensor& zero_() { return quern_slim_change(0, nullptr, 0); }
  QUERN_SLIM_MEMBER Tensor& fill_(const Scalar& value) {
    return quern_slim_change(1, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor& copy_(const Tensor& from) { return quern_slim_change(2, &from, 0); }
  QUERN_SLIM_MEMBER Tensor& add_(const Tensor& other) { return quern_slim_change(3, &other, 0); }
  QUERN_SLIM_MEMBER Tensor& mul_(const Scalar& value) {
    return quern_slim_change(4, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor& div_(const Scalar& value) {
    return quern_slim_change(5, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor& operator+=(const Tensor& other) { return add_(other); }
  QUERN_SLIM_MEMBER Tensor& operator+=(const Scalar& value) {
    return quern_slim_change(6, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor& operator-=(const Scalar& value) {
    return quern_slim_change(7, nullptr, value);
  }
  QUERN_SLIM_MEMBER Tensor& operator-=(const Tensor& other) {
    return quern_slim_change(8, &other, 0);
  }
  QUERN_SLIM_MEMBER Tensor& operator*=(const Tensor& other) {
    return quern_slim_change(9, &other, 0);
  }
  QUERN_SLIM_MEMBER Tensor& operator*=(const Scalar& value) { return mul_(value); }
  QUERN_SLIM_MEMBER Tensor& operator/=(const Tensor& other) {
    return quern_slim_change(10, &other, 0);
  }
  QUERN_SLIM_MEMBER Tensor& operator/=(const Scalar& value) { return div_(value); }
  template <class T>
  QUERN_SLIM_MEMBER T item() const {
    std::int64_t whole = 0;
    const double real = quern_slim_item(*this, &whole);
    return std::is_integral_v<T> ? static_cast<T>(whole) : static_cast<T>(real);
  }

 private:
  QUERN_SLIM_MEMBER Tensor quern_slim_reduced(int method, IntArrayRef dims, bool keep) const {
    std::vector<std::int64_t> numbers = dims.vec();
    numbers.push_back(keep ? 1 : 0);
    return quern_slim_call(method, numbers);
  }
  QUERN_SLIM_MEMBER Tensor& quern_slim_change(int how, const TensorBase* from,
                                              const Scalar& value) {
    quern_slim_set(*this, how, from, value);
    return *this;
  }
};
using TensorList = ArrayRef<Tensor>;

}  // namespace at

#include "quern_functions.h"
