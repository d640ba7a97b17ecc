// What reads a module and its functions, for the parts of the reader.
#pragma once

#include "Opcodes.h"
#include "Tokens.h"

namespace kolo::ptx {

inline Bank bankOf(Type type) {
  return type == Type::Pred ? Bank::Pred : sizeOf(type) == 8 ? Bank::Wide : Bank::Narrow;
}

/// Variables of the module, and constants.
class ModuleReader {
public:
  explicit ModuleReader(std::string_view text) : tokens(text) {}
  Module read();

private:
  friend class FunctionReader;
  void readVariable(bool isShared);
  void readFunction(bool isEntry);
  void skipStatement() {
    while (!tokens.takeIf(";"))
      if (tokens.take().text.empty())
        failAt(tokens.peek().line, "the text ends within a statement");
  }
  Operand constant(uint64_t value, Bank bank);

  Tokens tokens;
  Module module;
  std::map<std::string, uint64_t, std::less<>> addresses; // of variables: offsets in shared memory; constant memory
  std::map<uint64_t, uint32_t> narrow, wide;
  struct CallSite {
    uint32_t instruction;
    std::string callee;
  };
  std::vector<CallSite> calls;
};

/// The body of one function.
class FunctionReader {
public:
  FunctionReader(ModuleReader &ofModule, Function &of) : reader(ofModule), tokens(ofModule.tokens), function(of) {}

  uint32_t addParam(std::string_view name) {
    return params.emplace(std::string(name), addRegister(Bank::Wide)).first->second;
  }
  void read();

private:
  uint32_t addRegister(Bank bank) { return function.sizes[size_t(bank)]++; }
  void readDirective(const Token &directive);
  void readStatement();
  void readInstruction(const Token &opcode, Instruction instruction);
  void readMemory(const MemoryOpcode &opcode, Instruction &instruction);
  void readMove(const Token &opcode, Instruction &instruction, Type type);
  void readCall(Instruction &instruction);
  bool readControl(const Token &opcode, Instruction &instruction);
  void readComputation(const Token &opcode, Instruction &instruction);
  void resolve();

  Operand readRegister(const Token &name);
  Operand readOperand(Bank bank);
  /// Of the bank that the letter of an opcode names.
  Operand readOperand(char letter, const Opcode &opcode);
  int64_t readInteger(const Token &token, bool isNegative);
  void readVector(Instruction &instruction, Type type);
  void readAddress(Instruction &instruction);
  uint32_t readParamName();
  void wantBank(const Operand &operand, Bank bank, uint32_t line) {
    if (operand.bank != bank)
      failAt(line, "a register of another size than " + inQuotes(opcodeText) + " wants");
  }

  ModuleReader &reader;
  Tokens &tokens;
  Function &function;
  struct Declared {
    Bank bank;
    uint64_t number;
  };
  std::map<std::string, Declared, std::less<>> declared; // by prefix
  std::map<std::string, Operand, std::less<>> registers;
  std::map<std::string, uint32_t, std::less<>> params, labels;
  std::map<std::string, std::vector<Token>, std::less<>> targets; // of indexed branches
  struct Jump {
    uint32_t instruction;
    Token label;
    bool isIndexed;
  };
  std::vector<Jump> jumps;
  std::string_view opcodeText;
};

} // namespace kolo::ptx
