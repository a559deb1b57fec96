// What a file of the cache is, by its name and place below a layer's root.
#pragma once

#include <string_view>

namespace msj::store {

inline constexpr std::string_view kFormat = "v1";
inline constexpr std::string_view kCubins = "v1/cubins";
inline constexpr std::string_view kLocks = "v1/locks";
inline constexpr std::string_view kCubinEnding = ".cubin";
inline constexpr std::string_view kEntryEnding = ".json";

// What is wrong with a file that is none of the cache's.
inline constexpr std::string_view kNoSuchName = "no file of this cache has such a name";

[[nodiscard]] bool has_our_ending(std::string_view name);  // that of an entry or a cubin
// By its place: locks lie right below kLocks, and nothing lies deeper.
[[nodiscard]] bool is_lock(std::string_view relative);
// An entry or a cubin, by its ending: no lock, no temporary.
[[nodiscard]] bool is_kept_file(std::string_view relative);
// Any of them: what `cache clear` removes.
[[nodiscard]] bool is_ours(std::string_view relative);

}  // namespace msj::store
