// ManifestReader: reads fields of a manifest and keeps the first error. Manifest and Selection use it.
#pragma once

#include "base/Error.h"
#include "kolo/runtime/Status.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <string>

namespace kolo::runtime {

/// The fields of an object in their order, which the dimensions of a mesh have. There is room for those of most
/// objects: to make room later copies all keys.
template <class Key, class Value, class Less, class Allocator>
struct OrderedFields : nlohmann::ordered_map<Key, Value, Less, Allocator> {
  using nlohmann::ordered_map<Key, Value, Less, Allocator>::ordered_map;
  OrderedFields() { this->reserve(8); }
};
using json = nlohmann::basic_json<OrderedFields>;

/// Reads fields and keeps the first error. After an error every read gives an empty value.
class ManifestReader {
public:
  const Status &status() const { return failure; }
  void fail(const std::string &path, const std::string &problem) {
    if (failure.isOk())
      failure = error(StatusCode::BadPlugin, "its manifest's field '{}' {}", path, problem);
  }

  const json &field(const json &object, const char *name, const std::string &path, json::value_t type) {
    static const json nothing;
    auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end()) {
      fail(path + name, "is missing");
      return nothing;
    }
    // The parser distinguishes unsigned integers; here both kinds are integers.
    bool isRight = type == json::value_t::number_integer ? found->is_number_integer() : found->type() == type;
    if (!isRight) {
      fail(path + name, "has the wrong type");
      return nothing;
    }
    return *found;
  }
  std::string text(const json &object, const char *name, const std::string &path) {
    const json &value = field(object, name, path, json::value_t::string);
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  bool boolean(const json &object, const char *name, const std::string &path) {
    const json &value = field(object, name, path, json::value_t::boolean);
    return value.is_boolean() && value.get<bool>();
  }
  int integer(const json &object, const char *name, const std::string &path) {
    return number(field(object, name, path, json::value_t::number_integer), path + name, 0);
  }
  int number(const json &value, const std::string &path, int least) {
    if (!failure.isOk())
      return 0;
    if (!value.is_number_integer()) {
      fail(path, "has the wrong type");
      return 0;
    }
    // An unsigned number beyond the signed range becomes negative here, so the range check refuses it.
    auto wide = value.get<int64_t>();
    if (wide < least || wide > std::numeric_limits<int>::max()) {
      fail(path, "is out of range");
      return 0;
    }
    return static_cast<int>(wide);
  }
  /// A number of 64 bits that is not negative.
  int64_t count(const json &object, const char *name, const std::string &path) {
    const json &value = field(object, name, path, json::value_t::number_integer);
    int64_t number = value.is_number_integer() ? value.get<int64_t>() : 0;
    if (number < 0)
      fail(path + name, "is out of range");
    return number;
  }
  const json &array(const json &object, const char *name, const std::string &path) {
    return field(object, name, path, json::value_t::array);
  }

private:
  Status failure;
};

} // namespace kolo::runtime
