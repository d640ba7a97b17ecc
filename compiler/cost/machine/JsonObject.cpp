#include "compiler/cost/machine/JsonObject.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kolo::cost {

std::string didYouMean(const std::string &word, const std::vector<std::string> &known) {
  auto distance = [&](const std::string &candidate) {
    return llvm::StringRef(candidate).edit_distance_insensitive(word);
  };
  auto nearest = std::ranges::min_element(known, {}, distance);
  if (word.empty() || nearest == known.end() || distance(*nearest) > std::max<size_t>(2, word.size() / 2))
    return "";
  return "; did you mean " + *nearest + "?";
}

JsonObject::JsonObject(const Json &value, std::string file, std::string where,
                       std::initializer_list<const char *> fields)
    : value(value), file(std::move(file)), where(std::move(where)) {
  if (!value.is_object())
    fail("is no object");
  std::vector<std::string> known(fields.begin(), fields.end());
  known.push_back("source");
  for (const auto &[name, content] : value.items())
    if (std::ranges::find(known, name) == known.end()) {
      std::string hint = didYouMean(name, known);
      fail(name.c_str(),
           "there is no such field" + (hint.empty() ? fmt::format(" (one of {})", fmt::join(known, ", ")) : hint));
    }
  if (has("source"))
    text("source");
}

void JsonObject::fail(const char *name, const std::string &problem) const {
  throw CostMistake{file + ": " + pathOf(name) + ": " + problem};
}

void JsonObject::fail(const std::string &problem) const {
  throw CostMistake{file + ": " + (where.empty() ? "" : where + ": ") + problem};
}

const Json &JsonObject::field(const char *name) const {
  auto found = value.find(name);
  if (found == value.end())
    fail(name, "is missing");
  return *found;
}

std::string JsonObject::text(const char *name) const {
  const Json &content = field(name);
  if (!content.is_string())
    fail(name, "is no text");
  return content.get<std::string>();
}

std::string JsonObject::name(const char *name) const {
  std::string content = text(name);
  if (content.empty())
    fail(name, "is empty");
  return content;
}

int64_t JsonObject::integer(const char *name, int64_t least, int64_t most) const {
  const Json &content = field(name);
  // An unsigned number beyond the signed range comes out negative.
  if (!content.is_number_integer() || content.get<int64_t>() < least || content.get<int64_t>() > most)
    fail(name, fmt::format("{} is no whole number from {} to {}", content.dump(), least, most));
  return content.get<int64_t>();
}

double JsonObject::number(const char *name, Range range) const {
  const Json &content = field(name);
  if (!content.is_number() || !(content.get<double>() >= range.least && content.get<double>() <= range.most))
    fail(name, fmt::format("{} is no number from {} to {}", content.dump(), range.least, range.most));
  return content.get<double>();
}

bool JsonObject::flag(const char *name) const {
  const Json &content = field(name);
  if (!content.is_boolean())
    fail(name, "is neither true nor false");
  return content.get<bool>();
}

JsonObject JsonObject::object(const char *name, std::initializer_list<const char *> fields) const {
  return JsonObject(field(name), file, pathOf(name), fields);
}

std::vector<JsonObject> JsonObject::objects(const char *name, size_t most,
                                            std::initializer_list<const char *> fields) const {
  std::vector<JsonObject> result;
  if (!has(name))
    return result;
  const Json &content = field(name);
  if (!content.is_array())
    fail(name, "is no array");
  if (content.size() > most)
    fail(name, fmt::format("has {} entries; the most are {}", content.size(), most));
  for (const Json &entry : content)
    result.emplace_back(entry, file, fmt::format("{}[{}]", pathOf(name), result.size()), fields);
  return result;
}

size_t JsonObject::oneOf(const char *name, const std::vector<std::string> &known, const std::string &kind) const {
  std::string word = text(name);
  auto found = std::ranges::find(known, word);
  if (found == known.end())
    fail(name, fmt::format("there is no {} '{}'{}", kind, word, didYouMean(word, known)));
  return size_t(found - known.begin());
}

} // namespace kolo::cost
