#include "store/kind.h"

#include "store/path.h"
#include "store/publish.h"

namespace msj::store {

bool has_our_ending(std::string_view name) { return name.ends_with(kCubinEnding) || name.ends_with(kEntryEnding); }

bool is_lock(std::string_view relative) { return parent_of(relative) == kLocks; }

bool is_kept_file(std::string_view relative) {
  return has_our_ending(relative) && !is_lock(relative) && !is_temporary(name_of(relative));
}

bool is_ours(std::string_view relative) {
  return has_our_ending(relative) || is_lock(relative) || is_temporary(name_of(relative));
}

}  // namespace msj::store
