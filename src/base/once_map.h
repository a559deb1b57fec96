// One creator per key, others wait for its result: an insert-only map whose values are made outside its lock.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace msj {

template <typename Value>
class OnceMap {
 public:
  using Pointer = std::shared_ptr<const Value>;

  // The value of `key`, made by `make` if there is none. If `make` throws, the waiters try in turn.
  Pointer get_or_make(const std::string &key, const std::function<Pointer()> &make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Slot &slot = slots_[key];
      if (slot.value) return slot.value;
      if (!slot.busy) break;
      changed_.wait(lock);
    }
    slots_[key].busy = true;
    lock.unlock();
    Pointer value;
    try {
      value = make();
    } catch (...) {
      finish(key, nullptr);
      throw;
    }
    finish(key, value);
    return value;
  }

  [[nodiscard]] Pointer find(const std::string &key) const {
    const std::scoped_lock lock(mutex_);
    const auto it = slots_.find(key);
    return it == slots_.end() ? nullptr : it->second.value;
  }

  void erase(const std::string &key) {
    const std::scoped_lock lock(mutex_);
    const auto it = slots_.find(key);
    if (it != slots_.end() && !it->second.busy) slots_.erase(it);
  }

 private:
  struct Slot {
    Pointer value;
    bool busy = false;
  };

  void finish(const std::string &key, Pointer value) {
    {
      const std::scoped_lock lock(mutex_);
      Slot &slot = slots_[key];
      slot.value = std::move(value);
      slot.busy = false;
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Slot, std::less<>> slots_;
};

}  // namespace msj
