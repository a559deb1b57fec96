// A value made on first use, once, by whichever thread comes first. A failed attempt throws and is tried again next
// time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

namespace msj {

template <typename T>
class Lazy {
 public:
  explicit Lazy(std::function<std::shared_ptr<const T>()> make) : make_(std::move(make)) {}

  [[nodiscard]] std::shared_ptr<const T> get() {
    const std::scoped_lock lock(mutex_);
    if (!value_) value_ = make_();
    return value_;
  }
  // What is there already, else null: never makes it.
  [[nodiscard]] std::shared_ptr<const T> peek() const {
    const std::scoped_lock lock(mutex_);
    return value_;
  }

 private:
  std::function<std::shared_ptr<const T>()> make_;
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

}  // namespace msj
