#include "ops/ready_table.h"

#include <fmt/format.h>

namespace msj::ops {

namespace {

std::size_t mix(std::size_t seed, std::uint64_t value) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  return (seed ^ value) * kMultiplier ^ (seed >> 29);
}

}  // namespace

std::size_t LaunchKey::hash() const {
  std::size_t seed = mix(static_cast<std::size_t>(op->id), context_id);
  seed = mix(seed, (static_cast<std::uint64_t>(features) << 8) | static_cast<std::uint64_t>(layout));
  seed = mix(seed, static_cast<std::uint64_t>(dtypes[0]) << 8 | static_cast<std::uint64_t>(dtypes[1]));
  for (std::size_t i = 0; i < op->sizes.size(); ++i) seed = mix(seed, static_cast<std::uint64_t>(edges[i]));
  return seed ^ (seed >> 32);
}

std::string LaunchKey::text() const {
  std::string text = fmt::format("{}|{}|{}|{}|{}", op->name, context_id, device, features, name(layout));
  for (std::size_t i = 0; i < op->operands.size(); ++i) text += fmt::format("|{}", static_cast<int>(dtypes[i]));
  for (std::size_t i = 0; i < op->sizes.size(); ++i) text += fmt::format("|{}", edges[i]);
  return text;
}

ReadyTable::~ReadyTable() {
  for (auto &slot : slots_) {
    const Node *node = slot.load();
    while (node != nullptr) {
      const std::unique_ptr<const Node> owned(node);
      node = owned->next;
    }
  }
}

const Ready *ReadyTable::find(const LaunchKey &key) const {
  const Node *node = slots_[key.hash() % kSlots].load(std::memory_order_acquire);
  while (node != nullptr && !(node->ready->key == key)) node = node->next;
  return node == nullptr ? nullptr : node->ready.get();
}

const Ready *ReadyTable::insert(std::shared_ptr<const Ready> ready) {
  const std::scoped_lock lock(insert_mutex_);
  if (const Ready *known = find(ready->key)) return known;
  auto &slot = slots_[ready->key.hash() % kSlots];
  auto node = std::make_unique<const Node>(Node{std::move(ready), slot.load(std::memory_order_relaxed)});
  const Ready *inserted = node->ready.get();
  slot.store(node.release(), std::memory_order_release);  // freed by the destructor
  return inserted;
}

}  // namespace msj::ops
