/* What NCCL answers without a GPU: versions, texts, identifiers, groups, wrong arguments. */
#include <nccl.h>

#include <stdio.h>
#include <string.h>

static void say(const char *what, ncclResult_t code) {
  const char *last = ncclGetLastError(NULL);
  printf("%s: %d '%s'\n", what, (int)code, last ? last : "(null)");
}
#define SAY(call) say(#call, call)

int main(void) {
  int version = 0, number = 0, device = 0;
  char memory[64];
  ncclUniqueId id, zero;
  ncclComm_t comm = NULL;
  ncclResult_t error = ncclSuccess;
  setvbuf(stdout, NULL, _IONBF, 0);
  memset(&id, 0, sizeof(id));
  memset(&zero, 0, sizeof(zero));
  SAY(ncclGetVersion(&version));
  SAY(pncclGetVersion(NULL));
  printf("version %d\n", version);
  for (number = -1; number < 10; ++number)
    printf("%d: %s\n", number, ncclGetErrorString((ncclResult_t)number));
  SAY(ncclGetUniqueId(&id));
  printf("%s\n", memcmp(&id, &zero, sizeof(id)) ? "an identifier" : "zeros");
  SAY(ncclGroupStart());
  SAY(ncclGroupStart());
  SAY(ncclGroupEnd());
  SAY(ncclGroupEnd());
  SAY(ncclGroupEnd());
  SAY(ncclCommInitRank(&comm, 0, id, 0));
  SAY(ncclCommInitRank(&comm, 2, id, -1));
  SAY(ncclCommInitRank(NULL, 1, id, 0));
  SAY(ncclCommInitRank(&comm, 1, id, 0));
  SAY(ncclCommInitAll(&comm, -1, NULL));
  SAY(ncclCommInitAll(NULL, 1, &device));
  SAY(ncclCommInitRankConfig(&comm, 1, id, 3, NULL));
  SAY(ncclCommInitRankScalable(&comm, 1, 0, 0, NULL, NULL));
  SAY(ncclCommSplit(NULL, 0, 0, &comm, NULL));
  SAY(ncclCommCount(NULL, &number));
  SAY(ncclCommUserRank(NULL, &number));
  SAY(ncclCommCuDevice(NULL, &number));
  SAY(ncclCommGetAsyncError(NULL, &error));
  SAY(ncclCommFinalize(NULL));
  SAY(ncclCommDestroy(NULL));
  SAY(ncclCommAbort(NULL));
  SAY(ncclAllReduce(memory, memory, 1, ncclInt, ncclSum, NULL, NULL));
  SAY(pncclAllReduce(memory, memory, 1, ncclInt, ncclSum, NULL, NULL));
  SAY(ncclBroadcast(memory, memory, 1, ncclInt, 0, NULL, NULL));
  SAY(ncclBcast(memory, 1, ncclInt, 0, NULL, NULL)); /* calls ncclBroadcast by name */
  SAY(ncclReduce(memory, memory, 1, ncclInt, ncclSum, 0, NULL, NULL));
  SAY(ncclReduceScatter(memory, memory, 1, ncclInt, ncclSum, NULL, NULL));
  SAY(ncclAllGather(memory, memory, 1, ncclInt, NULL, NULL));
  SAY(ncclAlltoAll(memory, memory, 1, ncclInt, NULL, NULL));
  SAY(ncclGather(memory, memory, 1, ncclInt, 0, NULL, NULL));
  SAY(ncclScatter(memory, memory, 1, ncclInt, 0, NULL, NULL));
  SAY(ncclSend(memory, 1, ncclInt, 0, NULL, NULL));
  SAY(ncclRecv(memory, 1, ncclInt, 0, NULL, NULL));
  SAY(ncclRedOpDestroy(ncclSum, NULL));
  SAY(ncclCommRegister(NULL, memory, 1, NULL));
  SAY(ncclCommDeregister(NULL, NULL));
  SAY(ncclMemFree(NULL));
  return 0;
}
