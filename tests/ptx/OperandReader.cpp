// Operands of an instruction: registers, numbers, vectors, addresses, parameters.
#include "Readers.h"

#include <cctype>

namespace kolo::ptx {

Operand FunctionReader::readRegister(const Token &name) {
  if (auto found = registers.find(name.text); found != registers.end())
    return found->second;
  size_t digits = name.text.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name.text[digits - 1])))
    --digits;
  auto prefix = declared.find(name.text.substr(0, digits));
  if (prefix == declared.end() || digits == name.text.size() ||
      std::stoull(std::string(name.text.substr(digits))) >= prefix->second.number)
    failAt(name.line, "register " + inQuotes(name.text) + " is not declared");
  Operand made{addRegister(prefix->second.bank), false, prefix->second.bank};
  registers.emplace(std::string(name.text), made);
  return made;
}

int64_t FunctionReader::readInteger(const Token &token, bool isNegative) {
  std::string text(token.text);
  if (!text.empty() && text.back() == 'U')
    text.pop_back();
  bool isHex = text.starts_with("0x"), isFloat = text.starts_with("0f") || text.starts_with("0d");
  size_t used = 0, skipped = isHex || isFloat ? 2 : 0;
  uint64_t value = 0;
  try {
    value = std::stoull(text.substr(skipped), &used, skipped ? 16 : 10);
  } catch (const std::exception &) {
    used = text.size();
  }
  if (text.empty() || used + skipped != text.size())
    failAt(token.line, "unknown operand " + inQuotes(token.text));
  return int64_t(isNegative ? -value : value);
}

Operand FunctionReader::readOperand(Bank bank) {
  bool isNegative = tokens.takeIf("-");
  Token token = tokens.take();
  if (token.text.starts_with("%")) {
    Operand found = readRegister(token);
    wantBank(found, bank, token.line);
    return found;
  }
  if (auto variable = reader.addresses.find(token.text); variable != reader.addresses.end())
    return reader.constant(variable->second, bank);
  return reader.constant(uint64_t(readInteger(token, isNegative)), bank);
}

Operand FunctionReader::readOperand(char letter, const Opcode &opcode) {
  switch (letter) {
  case 'p':
    return readOperand(Bank::Pred);
  case 'r':
    return readOperand(Bank::Narrow);
  case 'd':
    return readOperand(Bank::Wide);
  case 'w':
    return readOperand(sizeOf(opcode.type) >= 4 ? Bank::Wide : Bank::Narrow);
  case 'a':
    return readRegister(tokens.take());
  default:
    return readOperand(bankOf(opcode.op == Op::ConvertPair ? opcode.from : opcode.type));
  }
}

/// {a, b}; or one register, which is a vector of one element. `_` is an element that nobody wants.
void FunctionReader::readVector(Instruction &instruction, Type type) {
  bool isVector = tokens.takeIf("{");
  size_t number = 0;
  do {
    if (number == instruction.elements.size())
      failAt(tokens.peek().line, "a vector of more than four elements");
    if (tokens.takeIf("_"))
      instruction.elements[number++] = {};
    else if (!isVector && !tokens.peek().text.starts_with("%"))
      instruction.elements[number++] = readOperand(bankOf(type));
    else
      instruction.elements[number++] =
          tokens.peek().text.starts_with("%") ? readRegister(tokens.take()) : readOperand(bankOf(type));
  } while (isVector && tokens.takeIf(","));
  if (isVector)
    tokens.expect("}");
  if (instruction.numElements != number)
    failAt(instruction.line, "a vector of another number of elements than " + inQuotes(opcodeText) + " wants");
}

void FunctionReader::readAddress(Instruction &instruction) {
  tokens.expect("[");
  instruction.src[0] = readOperand(Bank::Wide);
  if (tokens.takeIf("+")) {
    bool isNegative = tokens.takeIf("-");
    instruction.immediate = readInteger(tokens.take(), isNegative);
  }
  tokens.expect("]");
}

uint32_t FunctionReader::readParamName() {
  Token name = tokens.take();
  auto found = params.find(name.text);
  if (found == params.end())
    failAt(name.line, "parameter " + inQuotes(name.text) + " is not declared");
  return found->second;
}

} // namespace kolo::ptx
