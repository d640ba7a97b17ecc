/* What a stand-in for libnccl offers tests beside NCCL's own functions. It makes communicators between processes and
 * threads of one host, and moves no data of programs: a collective whose result is right was not forwarded to it. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The device of communicators that this thread makes from now on, as cudaSetDevice. */
void standInSetDevice(int device);
/* Collectives, sends and receives that came here so far. */
int64_t standInNumCollectives(void);
/* Uses of a non-blocking communicator before its last call was done. NCCL refuses them, and prints a warning. */
int64_t standInNumTooEarly(void);
/* Calls of ncclCommFinalize that came here so far. */
int64_t standInNumFinalized(void);
/* Addresses at peers that a program, or the door, has asked for. */
int64_t standInNumAddresses(void);
/* 1: from now on every call is written down, answered at once by a code of its own, and nothing else happens. */
void standInRecord(int isRecording);
/* The last call that was written down: "ncclX" and its arguments, byte by byte. */
const char *standInLastRecord(void);

#ifdef __cplusplus
}
#endif
