#include "base/Error.h"
#include "kolo/runtime/Plugin.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// How many bytes of the text one character of UTF-8 takes, without long forms. 0: there is none.
size_t characterBytes(std::string_view text) {
  auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  unsigned first = byte(0);
  size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  bool isLead = first < 0x80 || (first >= 0xc2 && first < 0xf5);
  if (!isLead || text.size() < length)
    return 0;
  for (size_t index = 1; index < length; ++index)
    if ((byte(index) & 0xc0) != 0x80)
      return 0;
  bool isLong = length > 2 && byte(1) < (first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80);
  return isLong ? 0 : length;
}

/// Of the first sets ASCII and Latin-1: a character of one or two bytes.
bool isControl(std::string_view character) {
  auto last = static_cast<unsigned char>(character.back());
  return character.size() == 1 ? last < 0x20 || last == 0x7f
                               : character.size() == 2 && character.front() == '\xc2' && last < 0xa0;
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    size_t length = characterBytes(text);
    std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    if (length == 0 || isControl(character))
      shown += fmt::format("\\u{:04x}", static_cast<unsigned char>(character.back()));
    else
      shown += character;
    text.remove_prefix(character.size());
  }
  return shown;
}

} // namespace kolo::runtime
