// An object file, a manifest and a footer become a plugin file. The linker is lld, in process.
#include "targets/AtomicFile.h"
#include "targets/Linker.h"
#include "targets/package/Internal.h"

#include "kolo/runtime/PluginAbi.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace llvm;

namespace kolo::package {

static uint64_t fnv1a(StringRef bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : bytes.bytes())
    hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

Error linkPlugin(const cpu::HostCode &host, const std::string &manifest, const PackRequest &request) {
  SmallVector<StringRef> objects{StringRef(host.object.data(), host.object.size())};
  llvm::append_range(objects, host.kernels);
  // -z defs: a plugin needs no other library, so nothing may stay undefined.
  auto library =
      linkShared(objects, {"-z", request.options.sanitizeThread ? "undefs" : "defs", "-z", "now", "--hash-style=gnu",
                           "--build-id=none", "--gc-sections", "-soname", "kolo-plugin.so"});
  if (!library)
    return library.takeError();
  std::string body = ((*library)->getBuffer() + manifest).str();
  KoloPluginFooter footer{};
  footer.elfBytes = (*library)->getBufferSize();
  footer.manifestBytes = manifest.size();
  footer.checksum = fnv1a(body);
  footer.abiVersion = KOLO_ABI_VERSION;
  footer.footerBytes = sizeof(footer);
  std::memcpy(footer.magic, KOLO_PLUGIN_MAGIC, sizeof(footer.magic));
  StringRef end(reinterpret_cast<const char *>(&footer), sizeof(footer));
  if (request.path == "/dev/null")
    return Error::success();
  // Others than the user never may write the file, whatever the umask is: it is code that will be loaded.
  constexpr unsigned mode = 0644;
  if (Error problem = writeAtomically(request.path, {body, end}, mode))
    return createStringError("cannot write " + request.path + ": " + toString(std::move(problem)));
  return Error::success();
}

} // namespace kolo::package
