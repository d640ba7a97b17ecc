// The words of a PTX text.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::ptx {

struct Token {
  std::string_view text; // empty: the end
  uint32_t line = 0;     // from 1 on
};

[[noreturn]] inline void failAt(uint32_t line, const std::string &what) {
  throw std::runtime_error("line " + std::to_string(line) + ": " + what);
}
inline std::string inQuotes(std::string_view text) { return "'" + std::string(text) + "'"; }

class Tokens {
public:
  explicit Tokens(std::string_view text);

  const Token &peek() const { return tokens[next]; }
  bool isNext(std::string_view text) const { return peek().text == text; }
  bool atEnd() const { return peek().text.empty(); }
  Token take() {
    const Token &token = tokens[next];
    next += !atEnd();
    return token;
  }
  bool takeIf(std::string_view text) { return isNext(text) && (take(), true); }
  Token expect(std::string_view text) {
    if (!isNext(text))
      failAt(peek().line, "expected " + inQuotes(text) + " before " + inQuotes(peek().text));
    return take();
  }
  /// A number of decimal digits.
  uint64_t takeNumber();
  /// Of the vector that comes next.
  uint8_t countElements() const;

private:
  std::vector<Token> tokens;
  size_t next = 0;
};

} // namespace kolo::ptx
