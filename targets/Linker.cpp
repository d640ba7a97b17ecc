// The linker, in process: lld.
#include "targets/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace kolo {

static Error runLinker(ArrayRef<const char *> arguments) {
  static std::mutex mutex; // lld keeps global state
  std::lock_guard lock(mutex);
  std::string problem;
  raw_string_ostream problems(problem);
  lld::Result result = lld::lldMain(arguments, outs(), problems, {{lld::Gnu, &lld::elf::link}});
  return result.retCode == 0 ? Error::success() : createStringError("linking failed: " + StringRef(problem).rtrim());
}

static Error createFile(StringRef suffix, SmallString<128> &path, StringRef content) {
  int file = -1;
  if (std::error_code problem = sys::fs::createTemporaryFile("kolo", suffix, file, path))
    return createStringError("cannot write a temporary file: " + problem.message());
  raw_fd_ostream stream(file, /*shouldClose=*/true);
  stream << content;
  stream.close();
  std::error_code problem = stream.error();
  stream.clear_error(); // or its destructor ends the process
  return problem ? createStringError("cannot write " + path + ": " + problem.message()) : Error::success();
}

Expected<std::unique_ptr<MemoryBuffer>> linkShared(ArrayRef<StringRef> objects, ArrayRef<const char *> arguments) {
  std::vector<SmallString<128>> paths(objects.size() + 1);
  std::vector<std::unique_ptr<FileRemover>> removers;
  for (size_t i = 0; i < paths.size(); ++i) {
    bool isLibrary = i == objects.size();
    if (Error problem = createFile(isLibrary ? "so" : "o", paths[i], isLibrary ? "" : objects[i]))
      return std::move(problem);
    removers.push_back(std::make_unique<FileRemover>(paths[i]));
  }
  std::vector<const char *> all = {"ld.lld", "-shared"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (size_t i = 0; i < objects.size(); ++i)
    all.push_back(paths[i].c_str());
  all.insert(all.end(), {"-o", paths.back().c_str()});
  if (Error failure = runLinker(all))
    return std::move(failure);
  auto library = MemoryBuffer::getFile(paths.back(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!library)
    return createStringError("cannot read what was linked: " + library.getError().message());
  return std::move(*library);
}

} // namespace kolo
