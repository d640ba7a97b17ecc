/* A program for NCCL 2.31 that finds an older one. */
#include <stddef.h>
#include <stdio.h>

int ncclCommSuspend(void *comm, int flags);
int pncclParamGetI32(void *parameter, int *value);
int ncclAllReduceConfig(const void *input, void *output, size_t count, int type, int operation, void *comm,
                        void *stream, const void *config);
const char *ncclGetLastError(void *comm);
int ncclGetVersion(int *version);

static void say(int code) { printf("%d %s\n", code, ncclGetLastError(NULL)); }

int main(void) {
  int version = 0;
  printf("%d\n", ncclGetVersion(&version));
  say(ncclCommSuspend(NULL, 1));
  say(pncclParamGetI32(NULL, &version));
  say(ncclAllReduceConfig(NULL, NULL, 1, 2, 0, NULL, NULL, NULL));
  return 0;
}
