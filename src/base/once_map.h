// One creator per key, others wait for its result: an insert-only map whose values are made outside its lock.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace msj {

template <typename Value>
class OnceMap {
 public:
  using Pointer = std::shared_ptr<const Value>;

  // The value of `key`, made by `make` if there is none. If `make` throws, so it does for those who were waiting for
  // it; whoever comes later tries again.
  Pointer get_or_make(const std::string &key, const std::function<Pointer()> &make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::shared_ptr<Slot> slot = slot_of(key);
      if (slot->value) return slot->value;
      if (!slot->busy) break;
      changed_.wait(lock, [&] { return !slot->busy; });
      if (slot->failure) std::rethrow_exception(slot->failure);
    }
    const std::shared_ptr<Slot> slot = slot_of(key);
    slot->busy = true;
    lock.unlock();
    try {
      Pointer value = make();
      finish(key, slot, value, nullptr);
      return value;
    } catch (...) {
      finish(key, slot, nullptr, std::current_exception());
      throw;
    }
  }

  [[nodiscard]] Pointer find(const std::string &key) const {
    const std::scoped_lock lock(mutex_);
    const auto it = slots_.find(key);
    return it == slots_.end() ? nullptr : it->second->value;
  }

  void erase(const std::string &key) {
    const std::scoped_lock lock(mutex_);
    const auto it = slots_.find(key);
    if (it != slots_.end() && !it->second->busy) slots_.erase(it);
  }

 private:
  struct Slot {
    Pointer value;
    bool busy = false;
    std::exception_ptr failure;
  };

  std::shared_ptr<Slot> slot_of(const std::string &key) {
    std::shared_ptr<Slot> &slot = slots_[key];
    if (!slot) slot = std::make_shared<Slot>();
    return slot;
  }

  // A failed slot goes: those who wait hold it, those who come later make another.
  void finish(const std::string &key, const std::shared_ptr<Slot> &slot, Pointer value,
              const std::exception_ptr &failure) {
    {
      const std::scoped_lock lock(mutex_);
      slot->value = std::move(value);
      slot->failure = failure;
      slot->busy = false;
      if (slot->failure) slots_.erase(key);
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Slot>, std::less<>> slots_;
};

}  // namespace msj
