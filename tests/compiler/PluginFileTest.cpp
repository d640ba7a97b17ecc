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

/// What the tool makes, and what this process makes.
TEST_P(EveryAlgorithm, GivesTheSameBytesInEveryProcess) {
  TemporaryFolder folder;
  const dsl::Definition &definition = definitionOf(GetParam());
  const Sizes sizes = smallMesh(definition);
  const std::string there = folder.file("there.so"), here = folder.file("here.so"), log = folder.file("log");
  for (bool optimize : {true, false}) {
    std::string command = std::string(KOLO_TOOL) + " compile " + GetParam() + (optimize ? "" : " --no-optimization") +
                          " --mesh " + namedMesh(definition, sizes).toString() + " -o " + there + " > " + log;
    ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << readFile(log);
    compilePluginTo(here, GetParam(), {sizes}, optimize);
    std::string bytes = readFile(there);
    EXPECT_GT(bytes.size(), 1000u);
    EXPECT_TRUE(bytes == readFile(here)) << "another process, another file" << (optimize ? "" : ", not optimised");
  }
}

/// What the tool makes twice.
TEST(PluginFile, OfTheToolIsTheSameEachTime) {
  TemporaryFolder folder;
  for (const char *what : {"ringAllReduce --mesh rank=4", "railAllGather --mesh node=2,gpu=4 --no-optimization",
                           "quantisedRingAllReduce --mesh rank=4"}) {
    for (const char *output : {"first.so", "second.so"}) {
      std::string command =
          std::string(KOLO_TOOL) + " compile " + what + " -o " + folder.file(output) + " > " + folder.file("log");
      ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << readFile(folder.file("log"));
    }
    EXPECT_TRUE(readFile(folder.file("first.so")) == readFile(folder.file("second.so"))) << what;
  }
}
