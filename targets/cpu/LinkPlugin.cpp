// An object file, a manifest and a footer become a plugin file. The linker is lld, in process.
#include "targets/cpu/Internal.h"

#include "kolo/runtime/PluginAbi.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace kolo::cpu {

static uint64_t fnv1a(StringRef bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : bytes.bytes())
    hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

static Error runLinker(StringRef object, StringRef library, bool mayNeedSymbols) {
  static std::mutex mutex; // lld keeps global state
  std::lock_guard lock(mutex);
  std::string problem;
  raw_string_ostream problems(problem);
  std::string from = object.str(), to = library.str();
  // -z defs: a plugin needs no other library, so nothing may stay undefined.
  std::vector<const char *> arguments = {"ld.lld", "-shared", "-z", mayNeedSymbols ? "undefs" : "defs", "-z", "now",
                                         "--hash-style=gnu", "--build-id=none", "--gc-sections", "-soname",
                                         "kolo-plugin.so", from.c_str(), "-o", to.c_str()};
  lld::Result result = lld::lldMain(arguments, outs(), problems, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return makeError("linking the plugin failed: " + StringRef(problem).rtrim());
  return Error::success();
}

/// Writes all of it, or reports an error and leaves `path` as it was.
static Error writeAtomically(StringRef path, ArrayRef<StringRef> pieces) {
  Error problem = writeToOutput(path, [&](raw_ostream &stream) -> Error {
    for (StringRef piece : pieces)
      stream << piece;
    stream.flush();
    if (path == "/dev/null")
      return Error::success(); // the only path that is given another kind of stream
    auto &file = static_cast<raw_fd_ostream &>(stream);
    std::error_code code = file.error();
    file.clear_error(); // or its destructor ends the process
    return errorCodeToError(code);
  });
  // The caller names the path.
  return handleErrors(std::move(problem),
                      [](std::unique_ptr<FileError> error) { return errorCodeToError(error->convertToErrorCode()); });
}

Error linkPlugin(ArrayRef<char> object, const std::string &manifest, const PipelineOptions &options, StringRef path) {
  SmallString<128> objectPath, libraryPath;
  if (std::error_code problem = sys::fs::createTemporaryFile("kolo", "o", objectPath))
    return makeError("cannot write a temporary file: " + problem.message());
  FileRemover removeObject(objectPath);
  if (std::error_code problem = sys::fs::createTemporaryFile("kolo", "so", libraryPath))
    return makeError("cannot write a temporary file: " + problem.message());
  FileRemover removeLibrary(libraryPath);
  if (Error problem = writeAtomically(objectPath, {StringRef(object.data(), object.size())}))
    return makeError("cannot write " + objectPath + ": " + toString(std::move(problem)));
  if (Error problem = runLinker(objectPath, libraryPath, options.sanitizeThread))
    return problem;
  auto library = MemoryBuffer::getFile(libraryPath, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!library)
    return makeError("cannot read the linked plugin: " + library.getError().message());

  std::string body = ((*library)->getBuffer() + manifest).str();
  KoloPluginFooter footer{};
  footer.elfBytes = (*library)->getBufferSize();
  footer.manifestBytes = manifest.size();
  footer.checksum = fnv1a(body);
  footer.abiVersion = KOLO_ABI_VERSION;
  footer.footerBytes = sizeof(footer);
  std::memcpy(footer.magic, KOLO_PLUGIN_MAGIC, sizeof(footer.magic));
  StringRef end(reinterpret_cast<const char *>(&footer), sizeof(footer));
  if (Error problem = writeAtomically(path, {body, end}))
    return makeError("cannot write " + path + ": " + toString(std::move(problem)));
  return Error::success();
}

} // namespace kolo::cpu
