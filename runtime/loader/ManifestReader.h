// ManifestReader: the fields of a manifest, with the first thing that is wrong with them. Used by Manifest and
// Selection.
#pragma once

#include "Error.h"
#include "kolo/runtime/Status.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <string>

namespace kolo::runtime {

using nlohmann::json;

/// Reads fields and remembers the first that is wrong; after that every read gives an empty value.
class ManifestReader {
public:
  const Status &status() const { return failure; }
  void fail(const std::string &path, const char *problem) {
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
    // The parser tells non-negative integers from others; both are integers here.
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
    // An unsigned number beyond the signed range comes out negative, and is refused with the rest.
    auto wide = value.get<int64_t>();
    if (wide < least || wide > std::numeric_limits<int>::max()) {
      fail(path, "is out of range");
      return 0;
    }
    return static_cast<int>(wide);
  }
  const json &array(const json &object, const char *name, const std::string &path) {
    return field(object, name, path, json::value_t::array);
  }

private:
  Status failure;
};

} // namespace kolo::runtime
