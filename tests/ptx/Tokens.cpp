#include "Tokens.h"

#include <algorithm>
#include <cctype>

namespace kolo::ptx {

namespace {
bool isOfWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.' || c == '%';
}
} // namespace

Tokens::Tokens(std::string_view text) {
  uint32_t line = 1;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n' || std::isspace(static_cast<unsigned char>(text[i]))) {
      line += text[i++] == '\n';
      continue;
    }
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    size_t end = i + 1;
    if (text[i] == '"')
      end = std::min(text.find('"', end), text.size() - 1) + 1;
    else if (isOfWord(text[i]))
      while (end < text.size() && isOfWord(text[end]))
        ++end;
    tokens.push_back({text.substr(i, end - i), line});
    i = end;
  }
  tokens.push_back({{}, line});
}

uint64_t Tokens::takeNumber() {
  Token token = take();
  if (token.text.empty() || !std::ranges::all_of(token.text, [](unsigned char c) { return std::isdigit(c); }))
    failAt(token.line, "expected a number before " + inQuotes(token.text));
  return std::stoull(std::string(token.text));
}

uint8_t Tokens::countElements() const {
  uint8_t number = 1;
  for (size_t ahead = next; ahead < tokens.size() && tokens[ahead].text != "}"; ++ahead)
    number = uint8_t(number + (tokens[ahead].text == ","));
  return number;
}

} // namespace kolo::ptx
