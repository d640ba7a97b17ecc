// One object of a machine file that is being read. Every mistake names the file, the object and the field. No MLIR
// here.
#pragma once

#include "compiler/cost/machine/Machine.h"

#include <nlohmann/json.hpp>

#include <initializer_list>

namespace kolo::cost {

using Json = nlohmann::ordered_json;

/// "; did you mean quad?", or nothing if no known word is near.
std::string didYouMean(const std::string &word, const std::vector<std::string> &known);

/// All functions throw CostMistake.
class JsonObject {
public:
  struct Range {
    double least, most;
  };

  /// `where` is empty for the file itself, else a path such as `node.links[3]`. Fields are those that the object may
  /// have; `source`, a text that says where figures come from, is one of every object.
  JsonObject(const Json &value, std::string file, std::string where, std::initializer_list<const char *> fields);

  bool has(const char *name) const { return value.contains(name); }
  std::string text(const char *name) const;
  /// A text that is not empty.
  std::string name(const char *name = "name") const;
  int64_t integer(const char *name, int64_t least, int64_t most) const;
  double number(const char *name, Range range) const;
  bool flag(const char *name) const;
  JsonObject object(const char *name, std::initializer_list<const char *> fields) const;
  /// Empty where the field is absent.
  std::vector<JsonObject> objects(const char *name, size_t most, std::initializer_list<const char *> fields) const;
  /// Number of the word in a list of known ones, which are of such a kind: "link class".
  size_t oneOf(const char *name, const std::vector<std::string> &known, const std::string &kind) const;

  [[noreturn]] void fail(const char *name, const std::string &problem) const;
  /// The same for the object as a whole.
  [[noreturn]] void fail(const std::string &problem) const;

private:
  const Json &field(const char *name) const;
  std::string pathOf(const char *name) const { return where.empty() ? name : where + "." + name; }

  const Json &value;
  std::string file, where;
};

} // namespace kolo::cost
