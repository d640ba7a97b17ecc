// What is in a plugin file, and that it is the same however often it is made.
#include "Support.h"

#include "kolo/runtime/PluginAbi.h"

#include "llvm/Object/ELFObjectFile.h"

#include <cstdlib>

using namespace kolo;
using namespace kolo::test;

TEST_P(EveryAlgorithm, NeedsNoSymbolAndNoLibraryAndExportsItsEntryOnly) {
  for (bool optimize : {true, false}) {
    PluginFile plugin = compilePlugin(GetParam(), {smallMesh(definitionOf(GetParam()))}, optimize);
    auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(plugin.library, GetParam()));
    ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
    auto *elf = llvm::cast<llvm::object::ELF64LEObjectFile>(file->get());
    std::vector<std::string> exported;
    for (const llvm::object::ELFSymbolRef symbol : elf->getDynamicSymbolIterators()) {
      std::string name = llvm::cantFail(symbol.getName()).str();
      EXPECT_FALSE(llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined) << name;
      exported.push_back(name);
    }
    EXPECT_EQ(exported, std::vector<std::string>{KOLO_PLUGIN_SYMBOL});
    for (const auto &entry : llvm::cantFail(elf->getELFFile().dynamicEntries())) {
      EXPECT_NE(entry.getTag(), llvm::ELF::DT_NEEDED);
      EXPECT_NE(entry.getTag(), llvm::ELF::DT_INIT_ARRAY); // no constructor
      EXPECT_NE(entry.getTag(), llvm::ELF::DT_TEXTREL);
    }
  }
}

TEST_P(EveryAlgorithm, GivesTheSameBytesInEveryProcess) {
  TemporaryFolder folder;
  const dsl::Definition &definition = definitionOf(GetParam());
  std::string mesh = namedMesh(definition, smallMesh(definition)).toString();
  for (const char *flags : {"", " --no-optimization"}) {
    for (const char *output : {"first.so", "second.so"}) {
      std::string command = std::string(KOLO_TOOL) + " compile " + GetParam() + flags + " --mesh " + mesh + " -o " +
                            folder.file(output) + " > " + folder.file("log");
      ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << readFile(folder.file("log"));
    }
    std::string first = readFile(folder.file("first.so")), second = readFile(folder.file("second.so"));
    EXPECT_GT(first.size(), 1000u);
    EXPECT_TRUE(first == second) << "two processes, two files" << flags;
    PluginFile here = compilePlugin(GetParam(), {smallMesh(definition)}, *flags == 0);
    PluginFile there = readPlugin(folder.file("first.so"));
    EXPECT_TRUE(here.library == there.library) << "another process, another file" << flags;
    EXPECT_EQ(here.manifest, there.manifest);
  }
}
