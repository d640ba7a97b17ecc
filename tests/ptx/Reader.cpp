// Reads PTX. Only what code for devices has is known; anything else is an error that names the line.
#include "Opcodes.h"
#include "Tokens.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace kolo::ptx {

namespace {

Bank bankOf(Type type) { return type == Type::Pred ? Bank::Pred : sizeOf(type) == 8 ? Bank::Wide : Bank::Narrow; }

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

Operand ModuleReader::constant(uint64_t value, Bank bank) {
  if (bank == Bank::Pred)
    return {value != 0, true, bank};
  if (bank == Bank::Narrow) {
    auto [entry, isNew] = narrow.try_emplace(uint32_t(value), uint32_t(module.constants.narrow.size()));
    if (isNew)
      module.constants.narrow.emplace_back().fill(uint32_t(value));
    return {entry->second, true, bank};
  }
  auto [entry, isNew] = wide.try_emplace(value, uint32_t(module.constants.wide.size()));
  if (isNew)
    module.constants.wide.emplace_back().fill(value);
  return {entry->second, true, bank};
}

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
      failAt(line, "a register of another size than " + quoted(opcodeText) + " wants");
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

Operand FunctionReader::readRegister(const Token &name) {
  if (auto found = registers.find(name.text); found != registers.end())
    return found->second;
  size_t digits = name.text.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name.text[digits - 1])))
    --digits;
  auto prefix = declared.find(name.text.substr(0, digits));
  if (prefix == declared.end() || digits == name.text.size() ||
      std::stoull(std::string(name.text.substr(digits))) >= prefix->second.number)
    failAt(name.line, "register " + quoted(name.text) + " is not declared");
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
    failAt(token.line, "unknown operand " + quoted(token.text));
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
    failAt(instruction.line, "a vector of another number of elements than " + quoted(opcodeText) + " wants");
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
    failAt(name.line, "parameter " + quoted(name.text) + " is not declared");
  return found->second;
}

void FunctionReader::readMemory(const MemoryOpcode &opcode, Instruction &instruction) {
  instruction.op = opcode.isStore ? Op::Store : Op::Load;
  instruction.type = opcode.type, instruction.access = opcode.access, instruction.numElements = opcode.numElements;
  if (opcode.isParam) {
    instruction.op = Op::MoveParam;
    if (opcode.isStore) {
      tokens.expect("["), instruction.dst = {readParamName(), false, Bank::Wide}, tokens.expect("]"),
                          tokens.expect(",");
      // A register may be wider than what is stored.
      instruction.src[0] =
          tokens.peek().text.starts_with("%") ? readRegister(tokens.take()) : readOperand(bankOf(opcode.type));
    } else {
      instruction.dst = readRegister(tokens.take());
      wantBank(instruction.dst, bankOf(opcode.type), instruction.line);
      tokens.expect(","), tokens.expect("["), instruction.src[0] = {readParamName(), false, Bank::Wide},
                                              tokens.expect("]");
    }
    return;
  }
  if (opcode.isStore) {
    readAddress(instruction);
    tokens.expect(",");
    readVector(instruction, opcode.type);
  } else {
    readVector(instruction, opcode.type);
    tokens.expect(",");
    readAddress(instruction);
  }
}

/// mov: of a register, a constant, an address or a special register; or a vector is packed or unpacked.
void FunctionReader::readMove(const Token &opcode, Instruction &instruction, Type type) {
  static constexpr std::pair<std::string_view, Special> specials[] = {{"%tid.x", Special::ThreadX},
                                                                      {"%ntid.x", Special::NumThreadsX},
                                                                      {"%ctaid.x", Special::BlockX},
                                                                      {"%ctaid.y", Special::BlockY},
                                                                      {"%nctaid.x", Special::NumBlocksX}};
  instruction.op = Op::Mov, instruction.type = type;
  if (tokens.isNext("{")) {
    instruction.op = Op::Unpack, instruction.numElements = tokens.countElements();
    readVector(instruction, type);
    tokens.expect(",");
    instruction.src[0] = readOperand(bankOf(type));
    return;
  }
  instruction.dst = readRegister(tokens.take());
  wantBank(instruction.dst, bankOf(type), opcode.line);
  tokens.expect(",");
  if (tokens.isNext("{")) {
    instruction.op = Op::Pack, instruction.numElements = tokens.countElements();
    readVector(instruction, type);
    return;
  }
  if (type == Type::U64 && tokens.takeIf("%globaltimer")) {
    instruction.op = Op::ReadSpecial, instruction.special = Special::Clock;
    return;
  }
  for (auto [name, special] : specials)
    if (type == Type::U32 && tokens.takeIf(name)) {
      instruction.op = Op::ReadSpecial, instruction.special = special;
      return;
    }
  instruction.src[0] = readOperand(bankOf(type));
}

/// call.uni (result), callee, (parameters);
void FunctionReader::readCall(Instruction &instruction) {
  instruction.op = Op::Call;
  std::vector<uint32_t> list;
  uint32_t result = nowhere;
  if (tokens.takeIf("(")) {
    result = readParamName();
    tokens.expect(")"), tokens.expect(",");
  }
  reader.calls.push_back({uint32_t(reader.module.code.size()), std::string(tokens.take().text)});
  if (tokens.takeIf(",")) {
    tokens.expect("(");
    while (!tokens.takeIf(")")) {
      list.push_back(readParamName());
      tokens.takeIf(",");
    }
  }
  list.push_back(result);
  instruction.list = uint32_t(reader.module.lists.size());
  reader.module.lists.push_back(std::move(list));
}

bool FunctionReader::readControl(const Token &opcode, Instruction &instruction) {
  std::string_view name = opcode.text;
  auto number = uint32_t(reader.module.code.size());
  if (name == "bra" || name == "bra.uni") {
    instruction.op = Op::Branch;
    jumps.push_back({number, tokens.take(), false});
  } else if (name == "brx.idx") {
    instruction.op = Op::BranchIndexed;
    instruction.src[0] = readOperand(Bank::Narrow);
    tokens.expect(",");
    jumps.push_back({number, tokens.take(), true});
  } else if (name == "call.uni") {
    readCall(instruction);
  } else if (name == "ret" || name == "exit" || name == "trap") {
    instruction.op = name == "ret" ? Op::Return : name == "exit" ? Op::Exit : Op::Trap;
  } else if (name == "nanosleep.u32") {
    instruction.op = Op::Nanosleep;
    instruction.src[0] = readOperand(Bank::Narrow);
  } else if (name == "bar.sync" || name == "barrier.sync") {
    instruction.op = Op::Barrier;
    instruction.src[0] = readOperand(Bank::Narrow);
    instruction.src[1] = tokens.takeIf(",") ? readOperand(Bank::Narrow) : Operand{};
  } else if (name == "bar.red.or.pred") {
    instruction.op = Op::BarrierOr;
    instruction.dst = readOperand(Bank::Pred);
    tokens.expect(","), instruction.src[0] = readOperand(Bank::Narrow);
    instruction.src[1] = {};
    tokens.expect(","), instruction.src[2] = readOperand(Bank::Pred);
  } else if (name == "bar.warp.sync") {
    instruction.op = Op::WarpBarrier;
    instruction.src[0] = readOperand(Bank::Narrow);
  } else if (name == "shfl.sync.idx.b32") {
    instruction.op = Op::Shuffle;
    instruction.dst = readOperand(Bank::Narrow);
    for (Operand &source : instruction.src)
      tokens.expect(","), source = readOperand(Bank::Narrow);
  } else {
    return false;
  }
  return true;
}

void FunctionReader::readComputation(const Token &opcode, Instruction &instruction) {
  auto known = findOpcode(opcode.text);
  if (!known)
    failAt(opcode.line, "unknown opcode " + quoted(opcode.text));
  instruction.op = known->op, instruction.type = known->type, instruction.from = known->from;
  instruction.comparison = known->comparison;
  instruction.dst = readOperand(known->operands[0], *known);
  for (size_t source = 0; known->operands[1 + source]; ++source) {
    tokens.expect(",");
    instruction.src[source] = readOperand(known->operands[1 + source], *known);
  }
  if (instruction.dst.isConstant)
    failAt(opcode.line, quoted(opcode.text) + " writes a constant");
}

void FunctionReader::readInstruction(const Token &opcode, Instruction instruction) {
  opcodeText = opcode.text;
  std::string_view name = opcode.text;
  if (name.starts_with("ld.") || name.starts_with("st.")) {
    auto memory = readMemoryOpcode(name);
    if (!memory)
      failAt(opcode.line, "unknown opcode " + quoted(name));
    readMemory(*memory, instruction);
  } else if (name.starts_with("fence.")) {
    auto fence = readFence(name);
    if (!fence)
      failAt(opcode.line, "unknown opcode " + quoted(name));
    instruction.op = Op::Fence, instruction.access = *fence, reader.module.hasFences = true;
  } else if (auto type = name.starts_with("mov.") ? readType(name.substr(4)) : std::nullopt) {
    readMove(opcode, instruction, *type);
  } else if (!readControl(opcode, instruction)) {
    readComputation(opcode, instruction);
  }
  tokens.expect(";");
  reader.module.code.push_back(instruction);
}

void FunctionReader::readDirective(const Token &directive) {
  if (directive.text == ".reg") {
    auto type = readType(tokens.take().text.substr(1));
    Token prefix = tokens.take();
    if (!type)
      failAt(directive.line, "registers of an unknown type");
    tokens.expect("<");
    declared[std::string(prefix.text)] = {bankOf(*type), tokens.takeNumber()};
    tokens.expect(">"), tokens.expect(";");
  } else if (directive.text == ".param") {
    Token type = tokens.take();
    if (type.text != ".b64" && type.text != ".b32")
      failAt(type.line, "a parameter of type " + quoted(type.text));
    addParam(tokens.take().text);
    tokens.expect(";");
  } else if (directive.text == ".shared") {
    reader.readVariable(true);
  } else if (directive.text == ".pragma") {
    if (Token pragma = tokens.take(); pragma.text != "\"nounroll\"")
      failAt(pragma.line, "unknown pragma " + std::string(pragma.text));
    tokens.expect(";");
  } else {
    failAt(directive.line, "unknown directive " + quoted(directive.text));
  }
}

void FunctionReader::readStatement() {
  Token token = tokens.take();
  if (token.text.starts_with("."))
    return readDirective(token);
  if (tokens.takeIf(":")) {
    if (tokens.takeIf(".branchtargets")) {
      do
        targets[std::string(token.text)].push_back(tokens.take());
      while (tokens.takeIf(","));
      tokens.expect(";");
    } else {
      labels[std::string(token.text)] = uint32_t(reader.module.code.size());
    }
    return;
  }
  Instruction instruction;
  instruction.line = token.line;
  if (token.text == "@") {
    instruction.isGuarded = true;
    instruction.isGuardNegated = tokens.takeIf("!");
    Token guard = tokens.take();
    Operand predicate = readRegister(guard);
    wantBank(predicate, Bank::Pred, guard.line);
    instruction.guard = predicate.index;
    token = tokens.take();
  }
  readInstruction(token, instruction);
}

void FunctionReader::read() {
  function.first = uint32_t(reader.module.code.size());
  for (int depth = 1; depth > 0;) {
    if (tokens.atEnd())
      failAt(tokens.peek().line, "the text ends within a function");
    if (tokens.takeIf("{"))
      ++depth;
    else if (tokens.takeIf("}"))
      --depth;
    else
      readStatement();
  }
  Instruction end; // nothing runs past it
  end.op = Op::Trap, end.line = tokens.peek().line;
  reader.module.code.push_back(end);
  function.end = uint32_t(reader.module.code.size());
  resolve();
}

void FunctionReader::resolve() {
  auto &code = reader.module.code;
  auto find = [&](const Token &label) {
    auto found = labels.find(label.text);
    if (found == labels.end())
      failAt(label.line, "there is no label " + quoted(label.text));
    code[found->second].isTarget = true;
    return found->second;
  };
  for (const Jump &jump : jumps) {
    if (!jump.isIndexed) {
      code[jump.instruction].immediate = find(jump.label);
      continue;
    }
    auto found = targets.find(jump.label.text);
    if (found == targets.end())
      failAt(jump.label.line, "there are no targets " + quoted(jump.label.text));
    code[jump.instruction].list = uint32_t(reader.module.lists.size());
    std::vector<uint32_t> &list = reader.module.lists.emplace_back();
    for (const Token &label : found->second)
      list.push_back(find(label));
  }
}

/// .align 8 .b8 name[2048] = {1, 2}; or .align 8 .u64 name;
void ModuleReader::readVariable(bool isShared) {
  uint64_t alignment = tokens.takeIf(".align") ? tokens.takeNumber() : 1;
  Token typeName = tokens.take();
  auto type = readType(typeName.text.substr(1));
  if (!type || *type == Type::Pred)
    failAt(typeName.line, "a variable of type " + quoted(typeName.text));
  std::string name(tokens.take().text);
  uint64_t size = uint64_t(sizeOf(*type));
  if (tokens.takeIf("["))
    size *= tokens.takeNumber(), tokens.expect("]");
  if (isShared) {
    module.sharedBytes = uint32_t((module.sharedBytes + alignment - 1) / alignment * alignment);
    addresses[name] = module.sharedBytes;
    module.sharedBytes += uint32_t(size);
  } else {
    if (*type != Type::B8)
      failAt(typeName.line, "a table of type " + quoted(typeName.text));
    constexpr uint64_t pageBytes = 4096;
    uint64_t rounded = (size + pageBytes - 1) / pageBytes * pageBytes;
    std::unique_ptr<std::byte[], void (*)(void *)> content(
        static_cast<std::byte *>(std::aligned_alloc(pageBytes, rounded)), std::free);
    std::fill_n(content.get(), rounded, std::byte(0));
    if (tokens.takeIf("=")) {
      tokens.expect("{");
      for (uint64_t index = 0; !tokens.takeIf("}"); ++index, tokens.takeIf(","))
        if (uint64_t value = tokens.takeNumber(); index < size)
          content[index] = std::byte(value);
    }
    addresses[name] = uint64_t(reinterpret_cast<uintptr_t>(content.get()));
    module.tables.push_back({size, std::move(content)});
  }
  tokens.expect(";");
}

void ModuleReader::readFunction(bool isEntry) {
  Function function;
  FunctionReader body(*this, function);
  auto readParam = [&] {
    tokens.expect(".param");
    while (tokens.peek().text.starts_with(".") || std::isdigit(static_cast<unsigned char>(tokens.peek().text[0])))
      if (Token word = tokens.take(); word.text == ".v2" || word.text == ".f16")
        failAt(word.line, "a parameter of type " + quoted(word.text));
    return body.addParam(tokens.take().text);
  };
  if (!isEntry && tokens.takeIf("("))
    function.result = readParam(), tokens.expect(")");
  function.name = tokens.take().text;
  tokens.expect("(");
  while (!tokens.takeIf(")")) {
    function.params.push_back(readParam());
    tokens.takeIf(",");
  }
  while (!tokens.isNext("{")) {
    Token directive = tokens.take();
    if (directive.text == ";")
      return; // a declaration
    if (directive.text == ".noreturn")
      continue;
    if (directive.text != ".maxntid" && directive.text != ".minnctapersm")
      failAt(directive.line, "unknown directive " + quoted(directive.text));
    tokens.takeNumber();
  }
  tokens.expect("{");
  body.read();
  module.byName[function.name] = uint32_t(module.functions.size());
  module.functions.push_back(std::move(function));
}

Module ModuleReader::read() {
  while (!tokens.atEnd()) {
    Token directive = tokens.take();
    if (directive.text == ".visible")
      tokens.expect(".entry"), readFunction(true);
    else if (directive.text == ".func")
      readFunction(false);
    else if (directive.text == ".shared" || directive.text == ".global")
      readVariable(directive.text == ".shared");
    else if (directive.text == ".version" || directive.text == ".target" || directive.text == ".address_size")
      tokens.take();
    else
      failAt(directive.line, "unknown directive " + quoted(directive.text));
  }
  for (const CallSite &site : calls) {
    auto callee = module.byName.find(site.callee);
    Instruction &call = module.code[site.instruction];
    if (callee == module.byName.end())
      failAt(call.line, "there is no function " + quoted(site.callee));
    const Function &called = module.functions[callee->second];
    if (called.params.size() + 1 != module.lists[call.list].size())
      failAt(call.line, quoted(site.callee) + " has another number of parameters");
    call.immediate = callee->second;
  }
  return std::move(module);
}

} // namespace

const Function &Module::entry(std::string_view name) const {
  auto found = byName.find(name);
  if (found == byName.end())
    throw std::runtime_error("there is no kernel " + quoted(name));
  return functions[found->second];
}

Module readModule(std::string_view text) {
  while (!text.empty() && text.back() == '\0')
    text.remove_suffix(1);
  return ModuleReader(text).read();
}

} // namespace kolo::ptx
