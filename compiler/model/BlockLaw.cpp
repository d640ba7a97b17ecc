#include "compiler/model/BlockLaw.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace kolo {

using Parsed = std::variant<BlockLaw, std::string>;

static Parsed readNumbers(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return ("'" + path +
            "' is neither zipf:EXPONENT:SEED, random:SEED nor onehot:BLOCK, nor a file that can be read: " +
            file.getError().message())
        .str();
  BlockLaw law{BlockLaw::Kind::Numbers, 0, 0, {}};
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString((*file)->getBuffer(), words);
  for (llvm::StringRef word : words) {
    double number = 0;
    if (word.getAsDouble(number) || !(number >= 0 && number < 0x1p63))
      return ("'" + word + "' in " + path + " is no count").str();
    law.numbers.push_back(number);
  }
  return law;
}

Parsed parseBlockLaw(std::string_view given) {
  const llvm::StringRef text = given;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ':');
  BlockLaw law;
  auto isSeed = [&](size_t at) { return words.size() == at + 1 && !words[at].getAsInteger(10, law.seed); };
  if (words[0] == "zipf") {
    if (words.size() == 3 && !words[1].getAsDouble(law.exponent) && law.exponent >= 0 && law.exponent <= 100 &&
        isSeed(2))
      return law;
    return ("'" + text + "' is not zipf:EXPONENT:SEED, with an exponent from 0 to 100 and a seed").str();
  }
  law.kind = words[0] == "random" ? BlockLaw::Kind::Random : BlockLaw::Kind::OneHot;
  if (words[0] != "random" && words[0] != "onehot")
    return readNumbers(text);
  if (!isSeed(1))
    return ("'" + text + "' is not " + (words[0] == "random" ? "random:SEED" : "onehot:BLOCK")).str();
  return law;
}

} // namespace kolo
