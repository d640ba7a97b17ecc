#include "loader/PluginFile.h"

#include "base/Error.h"
#include "kolo/runtime/PluginAbi.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>

namespace kolo::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "a plugin's footer is read as it lies in the file");

constexpr off_t mostFileBytes = off_t(1) << 30;

Result<std::string> readAll(const OpenFile &file, const std::string &path) {
  struct stat info = {};
  if (fstat(file.descriptor(), &info) != 0)
    return systemError(fmt::format("{}: cannot be opened", path), errno);
  if (!S_ISREG(info.st_mode))
    return error(StatusCode::BadPlugin, "{}: is not a regular file", path);
  if (info.st_size > mostFileBytes)
    return error(StatusCode::BadPlugin, "{}: {} bytes is too large for a plugin", path, info.st_size);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    ssize_t got = read(file.descriptor(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError(fmt::format("{}: cannot be read", path), errno);
    if (got == 0)
      return error(StatusCode::BadPlugin, "{}: became shorter while it was read", path);
    at += static_cast<size_t>(got);
  }
  return bytes;
}

Status checkFooter(const KoloPluginFooter &footer, uint64_t fileBytes) {
  if (footer.footerBytes != sizeof(KoloPluginFooter))
    return error(StatusCode::BadPlugin, "its footer says {} bytes, not {}", footer.footerBytes, sizeof(footer));
  uint64_t sum = 0;
  if (__builtin_add_overflow(footer.elfBytes, footer.manifestBytes, &sum) || sum != fileBytes - sizeof(footer))
    return error(StatusCode::BadPlugin, "its footer announces {} + {} bytes before it, the file has {}: truncated",
                 footer.elfBytes, footer.manifestBytes, fileBytes - sizeof(footer));
  return {};
}

} // namespace

uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

Result<PluginFile> readPluginFile(const std::string &path) {
  // O_NONBLOCK: a path that names a pipe must not hang.
  OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor() < 0)
    return limitError(fmt::format("{}: cannot be opened", path), errno);
  return readPluginFile(file, path);
}

Result<PluginFile> readPluginFile(const OpenFile &opened, const std::string &path) {
  Result<std::string> bytes = readAll(opened, path);
  if (!bytes.isOk())
    return bytes.status();
  PluginFile file;
  file.bytes = std::move(bytes).value();
  KoloPluginFooter footer;
  if (file.bytes.size() < sizeof(footer))
    return error(StatusCode::BadPlugin, "{}: {} bytes is too short for a Kolo plugin", path, file.bytes.size());
  size_t bodyBytes = file.bytes.size() - sizeof(footer);
  std::memcpy(&footer, file.bytes.data() + bodyBytes, sizeof(footer));
  if (std::memcmp(footer.magic, KOLO_PLUGIN_MAGIC, sizeof(footer.magic)) != 0)
    return error(StatusCode::BadPlugin, "{}: does not end like a Kolo plugin: another kind of file, or truncated",
                 path);
  if (Status status = checkFooter(footer, file.bytes.size()); !status.isOk())
    return error(status.code(), "{}: {}", path, status.message());
  if (uint64_t found = fnv1a(std::string_view(file.bytes).substr(0, bodyBytes)); found != footer.checksum)
    return error(StatusCode::BadPlugin, "{}: its checksum is {:016x}, its content has {:016x}: damaged", path,
                 footer.checksum, found);
  if (footer.abiVersion != KOLO_ABI_VERSION)
    return error(StatusCode::BadPlugin, "{}: was built for ABI version {}, this runtime has {}", path,
                 footer.abiVersion, KOLO_ABI_VERSION);
  file.elfBytes = footer.elfBytes;
  file.manifestBytes = footer.manifestBytes;
  file.checksum = footer.checksum;
  return file;
}

Status checkElf(std::string_view elf) {
#if defined(__x86_64__)
  constexpr uint16_t hostMachine = EM_X86_64;
#elif defined(__aarch64__)
  constexpr uint16_t hostMachine = EM_AARCH64;
#endif
  Elf64_Ehdr header;
  if (elf.size() < sizeof(header) || std::memcmp(elf.data(), ELFMAG, SELFMAG) != 0)
    return error(StatusCode::BadPlugin, "holds no ELF file");
  std::memcpy(&header, elf.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != hostMachine)
    return error(StatusCode::UnsupportedCpu, "its code is for another architecture (ELF machine {})", header.e_machine);
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr))
    return error(StatusCode::BadPlugin, "its ELF file is not a shared library");
  uint64_t tableBytes = uint64_t(header.e_phnum) * sizeof(Elf64_Phdr);
  if (header.e_phoff > elf.size() || tableBytes > elf.size() - header.e_phoff)
    return error(StatusCode::BadPlugin, "its ELF file is truncated");
  for (size_t index = 0; index < header.e_phnum; ++index) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + index * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_LOAD &&
        (segment.p_offset > elf.size() || segment.p_filesz > elf.size() - segment.p_offset))
      return error(StatusCode::BadPlugin, "its ELF file is truncated");
  }
  return {};
}

} // namespace kolo::runtime
