// See Affine.h.
#include "compiler/check/sizes/Affine.h"

namespace kolo::sizes {

std::string Affine::text() const {
  std::string text;
  auto add = [&](int64_t factor, const char *name) {
    if (factor == 0)
      return;
    int64_t amount = factor < 0 ? -factor : factor;
    text += text.empty() ? factor < 0 ? "-" : "" : factor < 0 ? " - " : " + ";
    text += *name == 0 ? std::to_string(amount) : amount == 1 ? name : std::to_string(amount) + name;
  };
  add(size, "n");
  add(round, "s");
  add(place, "k");
  add(constant, "");
  return text.empty() ? "0" : text;
}

bool Region::isAtLeast(const Affine &number, int64_t bound) const {
  auto valueAt = [&](int64_t n, int64_t s) { return number.constant + number.size * n + number.round * s; };
  if (number.place != 0)
    return false;
  if (!firstRound)
    return number.round == 0 && number.size >= 0 && valueAt(least, 0) >= bound;
  // The vertices are the first and the last round of the least n. From there n grows alone, or with the round.
  return valueAt(least, *firstRound) >= bound && valueAt(least, least + lastRound) >= bound && number.size >= 0 &&
         number.size + number.round >= 0;
}

std::optional<int64_t> Residues::modulo(const Affine &number, int64_t divisor) const {
  bool isKnown = divisor > 0 && number.place == 0 &&
                 (period % divisor == 0 || (number.size % divisor == 0 && number.round % divisor == 0));
  if (!isKnown)
    return std::nullopt;
  int64_t rest = (number.constant + number.size * size + number.round * round) % divisor;
  return rest < 0 ? rest + divisor : rest;
}

Affine Decisions::reduce(const Affine &number) {
  for (int64_t turns : {0, 1, -1, 2, -2}) {
    Affine candidate = number.modSize() + Affine::n() * turns;
    if (region.isAtLeast(candidate, 0) && region.isAtLeast(Affine::n() - candidate, 1))
      return candidate;
  }
  fail("nothing shows where " + number.text() + " lies modulo the size n");
  return 0;
}

} // namespace kolo::sizes
