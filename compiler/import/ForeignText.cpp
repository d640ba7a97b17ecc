#include "compiler/import/ForeignText.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>

namespace kolo::foreign {

std::variant<ForeignText, Refusal> ForeignText::read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Refusal{0, fmt::format("cannot be opened: {}", std::generic_category().message(errno))};
  std::string text;
  std::vector<char> part(size_t(1) << 16);
  while (file.read(part.data(), std::streamsize(part.size())) || file.gcount() > 0) {
    text.append(part.data(), size_t(file.gcount()));
    if (text.size() > mostBytes)
      return Refusal{0, fmt::format("has more than {} MiB, and no interpreter reads so much", mostBytes >> 20)};
  }
  if (file.bad())
    return Refusal{0, "cannot be read"};
  return ForeignText(std::move(text));
}

ForeignText::ForeignText(std::string text) : characters(std::move(text)) {
  for (size_t at = characters.find('\n'); at != std::string::npos; at = characters.find('\n', at + 1))
    lineEnds.push_back(at);
}

int32_t ForeignText::lineOf(size_t offset) const {
  return 1 + int32_t(std::ranges::lower_bound(lineEnds, offset) - lineEnds.begin());
}

std::optional<int64_t> parseInteger(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::string quote(std::string_view text) {
  std::string result(text.substr(0, 60));
  for (char &character : result)
    if (static_cast<unsigned char>(character) < ' ' || static_cast<unsigned char>(character) > '~')
      character = '?';
  return "'" + result + (text.size() > 60 ? "...'" : "'");
}

} // namespace kolo::foreign
