// Reads PTX. Only what code for devices has is known; anything else is an error that names the line.
#include "Readers.h"

#include <algorithm>
#include <cstdlib>

namespace kolo::ptx {

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

/// .align 8 .b8 name[2048] = {1, 2}; or .align 8 .u64 name;
void ModuleReader::readVariable(bool isShared) {
  uint64_t alignment = tokens.takeIf(".align") ? tokens.takeNumber() : 1;
  Token typeName = tokens.take();
  auto type = readType(typeName.text.substr(1));
  if (!type || *type == Type::Pred)
    failAt(typeName.line, "a variable of type " + inQuotes(typeName.text));
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
      failAt(typeName.line, "a table of type " + inQuotes(typeName.text));
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
        failAt(word.line, "a parameter of type " + inQuotes(word.text));
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
      failAt(directive.line, "unknown directive " + inQuotes(directive.text));
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
      failAt(directive.line, "unknown directive " + inQuotes(directive.text));
  }
  for (const CallSite &site : calls) {
    auto callee = module.byName.find(site.callee);
    Instruction &call = module.code[site.instruction];
    if (callee == module.byName.end())
      failAt(call.line, "there is no function " + inQuotes(site.callee));
    const Function &called = module.functions[callee->second];
    if (called.params.size() + 1 != module.lists[call.list].size())
      failAt(call.line, inQuotes(site.callee) + " has another number of parameters");
    call.immediate = callee->second;
  }
  return std::move(module);
}

const Function &Module::entry(std::string_view name) const {
  auto found = byName.find(name);
  if (found == byName.end())
    throw std::runtime_error("there is no kernel " + inQuotes(name));
  return functions[found->second];
}

Module readModule(std::string_view text) {
  while (!text.empty() && text.back() == '\0')
    text.remove_suffix(1);
  return ModuleReader(text).read();
}

} // namespace kolo::ptx
