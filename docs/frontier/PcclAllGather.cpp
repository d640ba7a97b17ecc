// PCCL's all-gathers: PcclRails.h says how.
#include "PcclRails.h"

using namespace pccl;

KOLO_COLLECTIVE(pcclRecursiveAllGather, AllGather, Mesh("node", "gpu")) { gatherAll(c, gatherByDoubling); }
KOLO_COLLECTIVE(pcclRingAllGather, AllGather, Mesh("node", "gpu")) { gatherAll(c, gatherByRing); }
