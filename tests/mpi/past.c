/* A program that finds MPI while it runs: `past LIBRARY`. Its calls never meet a preloaded library. */
#include <dlfcn.h>
#include <stddef.h>

int main(int argc, char **argv) {
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library)
    return 1;
  int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(library, "MPI_Init");
  int (*finalize)(void) = (int (*)(void))dlsym(library, "MPI_Finalize");
  return !init || !finalize || init(NULL, NULL) || finalize();
}
