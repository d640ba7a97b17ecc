// Instructions of a function, by their opcode.
#include "Readers.h"

namespace kolo::ptx {

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
    failAt(opcode.line, "unknown opcode " + inQuotes(opcode.text));
  instruction.op = known->op, instruction.type = known->type, instruction.from = known->from;
  instruction.comparison = known->comparison;
  instruction.dst = readOperand(known->operands[0], *known);
  for (size_t source = 0; known->operands[1 + source]; ++source) {
    tokens.expect(",");
    instruction.src[source] = readOperand(known->operands[1 + source], *known);
  }
  if (instruction.dst.isConstant)
    failAt(opcode.line, inQuotes(opcode.text) + " writes a constant");
}

void FunctionReader::readInstruction(const Token &opcode, Instruction instruction) {
  opcodeText = opcode.text;
  std::string_view name = opcode.text;
  if (name.starts_with("ld.") || name.starts_with("st.")) {
    auto memory = readMemoryOpcode(name);
    if (!memory)
      failAt(opcode.line, "unknown opcode " + inQuotes(name));
    readMemory(*memory, instruction);
  } else if (name.starts_with("fence.")) {
    auto fence = readFence(name);
    if (!fence)
      failAt(opcode.line, "unknown opcode " + inQuotes(name));
    instruction.op = Op::Fence, instruction.access = *fence, reader.module.hasFences = true;
  } else if (auto type = name.starts_with("mov.") ? readType(name.substr(4)) : std::nullopt) {
    readMove(opcode, instruction, *type);
  } else if (!readControl(opcode, instruction)) {
    readComputation(opcode, instruction);
  }
  tokens.expect(";");
  reader.module.code.push_back(instruction);
}

} // namespace kolo::ptx
