// The body of a function: directives, labels, statements, and where branches go.
#include "Readers.h"

namespace kolo::ptx {

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
      failAt(type.line, "a parameter of type " + inQuotes(type.text));
    addParam(tokens.take().text);
    tokens.expect(";");
  } else if (directive.text == ".shared") {
    reader.readVariable(true);
  } else if (directive.text == ".pragma") {
    if (Token pragma = tokens.take(); pragma.text != "\"nounroll\"")
      failAt(pragma.line, "unknown pragma " + std::string(pragma.text));
    tokens.expect(";");
  } else {
    failAt(directive.line, "unknown directive " + inQuotes(directive.text));
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
      failAt(label.line, "there is no label " + inQuotes(label.text));
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
      failAt(jump.label.line, "there are no targets " + inQuotes(jump.label.text));
    code[jump.instruction].list = uint32_t(reader.module.lists.size());
    std::vector<uint32_t> &list = reader.module.lists.emplace_back();
    for (const Token &label : found->second)
      list.push_back(find(label));
  }
}

} // namespace kolo::ptx
