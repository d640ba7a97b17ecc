// The linker, in process: lld.
#include "targets/Linker.h"
#include "targets/TemporaryFolder.h"

#include "lld/Common/Driver.h"
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

static Error createFile(StringRef path, StringRef content) {
  std::error_code problem;
  raw_fd_ostream stream(path, problem);
  if (!problem) {
    stream << content;
    stream.close();
    problem = stream.error();
    stream.clear_error(); // or its destructor ends the process
  }
  return problem ? createStringError("cannot write " + path + ": " + problem.message()) : Error::success();
}

Expected<std::unique_ptr<MemoryBuffer>> linkShared(ArrayRef<StringRef> objects, ArrayRef<const char *> arguments) {
  Expected<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder)
    return folder.takeError();
  std::vector<std::string> paths;
  for (StringRef object : objects) {
    paths.push_back(folder->path() + "/" + std::to_string(paths.size()) + ".o");
    if (Error problem = createFile(paths.back(), object))
      return std::move(problem);
  }
  std::string output = folder->path() + "/linked.so";
  std::vector<const char *> all = {"ld.lld", "-shared"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (const std::string &path : paths)
    all.push_back(path.c_str());
  all.insert(all.end(), {"-o", output.c_str()});
  if (Error failure = runLinker(all))
    return std::move(failure);
  auto library = MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!library)
    return createStringError("cannot read what was linked: " + library.getError().message());
  return std::move(*library);
}

} // namespace kolo
