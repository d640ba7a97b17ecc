// NVIDIA's assembler: found, run, and its report read.
#include "tools/compile/Ptxas.h"
#include "tools/compile/ToolError.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

using llvm::StringRef;

namespace kolo::tools {

std::string findPtxas(const std::string &asked) {
  if (asked != "auto") {
    if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(asked);
        path && llvm::sys::fs::can_execute(*path))
      return *path;
    throw ToolError(ExitCode::Usage, "--ptxas: there is no program " + asked);
  }
  if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  const char *toolkits[] = {std::getenv("CUDA_PATH"), std::getenv("CUDA_HOME"), "/usr/local/cuda"};
  for (const char *toolkit : toolkits) {
    llvm::SmallString<128> path(toolkit ? toolkit : "");
    llvm::sys::path::append(path, "bin", "ptxas");
    if (toolkit && llvm::sys::fs::can_execute(path))
      return std::string(path);
  }
  throw ToolError(ExitCode::Usage, "--ptxas: there is no ptxas on PATH, nor in bin of $CUDA_PATH, of $CUDA_HOME or of "
                                   "/usr/local/cuda; give its path, or leave the PTX to the driver");
}

namespace {

/// A file that lies in memory alone, and is gone with this process and the programs that it starts, however they end.
class MemoryFile {
public:
  explicit MemoryFile(const char *name) : fd(memfd_create(name, /*flags: programs inherit it*/ 0)) {
    if (fd < 0)
      throw ToolError(ExitCode::Usage, std::string("cannot make a file in memory: ") + std::strerror(errno));
  }
  ~MemoryFile() { close(fd); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  /// The same in this process as in those that it starts.
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }
  void write(StringRef bytes) const {
    llvm::raw_fd_ostream out(fd, /*shouldClose=*/false);
    out << bytes;
    out.flush();
    if (std::error_code problem = out.error()) {
      out.clear_error();
      throw ToolError(ExitCode::Usage, "cannot write a file in memory: " + problem.message());
    }
  }
  std::string read() const {
    auto content = llvm::MemoryBuffer::getFile(path(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!content)
      throw ToolError(ExitCode::Usage, "cannot read a file in memory: " + content.getError().message());
    return (*content)->getBuffer().str();
  }

private:
  int fd;
};

/// What is wrong, of all that ptxas says: "ptxas FILE, line 1; fatal   : Missing .version directive".
std::string firstComplaint(StringRef report) {
  llvm::SmallVector<StringRef> lines, parts;
  llvm::SplitString(report, lines, "\n");
  for (StringRef line : lines)
    if (llvm::Regex("^(.*)(fatal|error) *: *(.*)$").match(line, &parts)) {
      StringRef where = parts[1];
      std::string what = parts[3].str();
      return llvm::Regex("line [0-9]+").match(where, &parts) ? what + " (" + parts[0].str() + " of the PTX)" : what;
    }
  return lines.empty() ? "it says nothing" : lines.front().trim().str();
}

std::string run(const std::string &ptxas, const DeviceImage &ptx, std::string &report) {
  MemoryFile source("kolo-ptx"), cubin("kolo-cubin"), log("kolo-ptxas-log");
  source.write(StringRef(ptx.data).rtrim('\0'));
  std::string architecture = "-arch=" + ptx.architecture, from = source.path(), to = cubin.path(), said = log.path();
  StringRef arguments[] = {ptxas, "-v", architecture, from, "-o", to};
  std::optional<StringRef> redirects[] = {"", said, said};
  std::string problem;
  int code = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &problem);
  report = log.read();
  if (code < 0)
    throw ToolError(ExitCode::Usage, "cannot run " + ptxas + ": " + problem);
  std::string data = cubin.read();
  if (code != 0 || data.empty())
    throw ToolError(ExitCode::Usage, ptxas + " does not assemble the code for " + ptx.architecture + ": " +
                                         (code != 0 ? firstComplaint(report) : "it wrote nothing"));
  return data;
}

/// Reads what `ptxas -v` says:
///   ptxas info    : Function properties for NAME
///       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
///   ptxas info    : Used 80 registers, used 1 barriers, 24 bytes cumulative stack size, 128 bytes smem
/// Kernels have all of these lines, the functions that they call the first two.
class Report {
public:
  explicit Report(StringRef text) {
    llvm::SmallVector<StringRef> lines, found;
    llvm::SplitString(text, lines, "\n");
    for (StringRef line : lines) {
      if (llvm::Regex("Function properties for ([^ ]+)").match(line, &found))
        name = found[1].str();
      else if (line.contains("bytes stack frame"))
        functions[name] = {numberBefore(line, "bytes stack frame"),
                           numberBefore(line, "bytes spill stores") + numberBefore(line, "bytes spill loads")};
      else if (line.contains(" registers"))
        kernels[name] = {numberBefore(line, "registers"), numberBefore(line, "bytes cumulative stack size"),
                         numberBefore(line, "bytes smem")};
    }
  }

  DeviceImage::Resources of(StringRef program) const {
    auto kernel = kernels.find(program);
    if (kernel == kernels.end())
      throw ToolError(ExitCode::Usage, "ptxas does not say what kernel " + program.str() + " takes");
    // All kernels share the functions.
    int64_t spilled = 0;
    for (const auto &function : functions)
      if (function.first() == program || !kernels.contains(function.first()))
        spilled += function.second.spilledBytes;
    return {{"registers", kernel->second.registers},
            {"spilledBytes", spilled},
            {"stackBytes", std::max(kernel->second.stackBytes, functions.lookup(program).stackBytes)},
            {"sharedBytes", kernel->second.sharedBytes}};
  }

private:
  static int64_t numberBefore(StringRef line, StringRef words) {
    StringRef before = line.split(words).first;
    int64_t number = 0;
    if (before.size() != line.size())
      (void)before.rtrim().rsplit(' ').second.getAsInteger(10, number);
    return number;
  }
  struct Function {
    int64_t stackBytes = 0, spilledBytes = 0;
  };
  struct Kernel {
    int64_t registers, stackBytes, sharedBytes; // with what it calls
  };
  std::string name;
  llvm::StringMap<Function> functions;
  llvm::StringMap<Kernel> kernels;
};

} // namespace

DeviceImage assemble(const DeviceImage &ptx, llvm::ArrayRef<std::string> programs, const std::string &ptxas) {
  std::string text;
  DeviceImage cubin{ptx.kind, ptx.architecture, KOLO_DEVICE_CUBIN, run(ptxas, ptx, text), {}};
  Report report(text);
  for (const std::string &program : programs)
    cubin.resources.push_back(report.of(program));
  return cubin;
}

} // namespace kolo::tools
