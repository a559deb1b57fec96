// JSON that others may have written, read in one pass whose time is linear in the text: what JSON allows and no file of
// ours needs is refused where it is met.
//
// nlohmann's own callback looks at all of a list at the end of each object in it; its parser takes a NUL for the end of
// the text, and the last of two values of one name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/json_problem.h"

namespace msj {

// Of objects and lists in one another, since whoever walks, prints or copies them recurses; and of objects, lists and
// names in all, each of which takes memory that a few bytes of text can ask for.
struct JsonBounds {
  std::size_t depth;
  std::size_t parts;
};

// In one object: an ordered_json looks through them for each of them.
inline constexpr std::size_t kMostJsonNames = 1024;

enum class JsonFault : std::uint8_t { none, no_json, too_deep, too_many_parts, too_many_names, twice };

// nlohmann's SAX interface.
template <typename Json>
class JsonReader {
 public:
  explicit JsonReader(const JsonBounds &bounds) : bounds_(bounds) {}
  JsonReader(const JsonReader &) = delete;
  JsonReader &operator=(const JsonReader &) = delete;
  // What was read until memory ran out, say: nlohmann's destructor asks for memory of its own, but for empty values.
  ~JsonReader() { clear(root_); }

  [[nodiscard]] bool read(std::string_view text) {
    if (!Json::sax_parse(text, this)) {
      if (fault_ == JsonFault::no_json) detail_ = json_problem(text, stop_);
      return false;
    }
    const std::size_t nul = text.find('\0');  // elsewhere than at the end of what was read, it was refused
    if (nul == std::string_view::npos) return true;
    fault_ = JsonFault::no_json;
    detail_ = json_problem(text, {nul, false, {}, "; expected end of input"});
    return false;
  }

  [[nodiscard]] Json take() { return std::move(root_); }
  [[nodiscard]] JsonFault fault() const { return fault_; }
  [[nodiscard]] const std::string &detail() const {
    return detail_;
  }  // where it is no JSON; the name that is there twice

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(typename Json::number_integer_t value) { return put(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return put(value); }
  bool number_float(typename Json::number_float_t value, const std::string & /*token*/) { return put(value); }
  bool string(std::string &value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t & /*value*/) { return false; }  // of other formats
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string &name) {
    auto &object = open_.back()->template get_ref<typename Json::object_t &>();
    if (object.size() == kMostJsonNames) return refuse(JsonFault::too_many_names);
    if (parts_++ == bounds_.parts) return refuse(JsonFault::too_many_parts);
    const auto [member, is_new] = object.emplace(name, Json());
    if (!is_new) return refuse(JsonFault::twice, name);
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string &token, const typename Json::exception &error) {
    constexpr int kOutOfRange = 406;  // nlohmann's number for it
    stop_ = {position == 0 ? 0 : position - 1, error.id == kOutOfRange, token, error.what()};
    return refuse(JsonFault::no_json);
  }

 private:
  bool refuse(JsonFault fault, std::string detail = {}) {
    fault_ = fault;
    detail_ = std::move(detail);
    return false;
  }

  template <typename Value>
  bool put(Value &&value) {
    (void)place(Json(std::forward<Value>(value)));
    return true;
  }

  Json *place(Json &&value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (!open_.back()->is_array()) return &(*member_ = std::move(value));
    return &open_.back()->template get_ref<typename Json::array_t &>().emplace_back(std::move(value));
  }

  bool open(Json &&value) {
    if (open_.size() == bounds_.depth) return refuse(JsonFault::too_deep);
    if (parts_++ == bounds_.parts) return refuse(JsonFault::too_many_parts);
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  static void clear(Json &value) {
    for (Json &child : value) {
      if (child.is_structured()) clear(child);
    }
    if (value.is_structured()) value.clear();
  }

  JsonBounds bounds_;
  Json root_;
  std::vector<Json *>
      open_;  // the objects and lists that are open; none of them moves, as each is the last of its parent
  Json *member_ = nullptr;  // of the innermost, if it is an object
  std::size_t parts_ = 0;
  JsonFault fault_ = JsonFault::none;
  std::string detail_;
  JsonStop stop_;
};

}  // namespace msj
