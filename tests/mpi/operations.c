/* Every operation that MPI predefines, on every predefined datatype that it is for, beside the MPI library's own
 * results. */
#include "checks.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most = 5000 };

typedef struct {
  float value;
  int location;
} FloatInt;
typedef struct {
  double value;
  int location;
} DoubleInt;
typedef struct {
  long value;
  int location;
} LongInt;
typedef struct {
  int value, location;
} IntInt;
typedef struct {
  short value;
  int location;
} ShortInt;

/* Fills `number` elements with small values, and says whether two elements are equal. Small: no sum is rounded. Nor do
 * the values show where MPI libraries differ: Open MPI 4.1 saturates sums of short integers, and MPICH 4.0 takes the
 * maximum of unsigned short for that of short. */
typedef struct {
  size_t bytes;
  void (*fill)(void *to, int number, int seed);
  int (*areEqual)(const void *left, const void *right);
} Kind;

static int draw(int i, int seed) { return (seed * 31 + i * 7 + i / 5 + 3 * rank) % 5; }

#define NUMBERS(NAME, TYPE, VALUE)                                                                                     \
  static void fill##NAME(void *to, int number, int seed) {                                                             \
    for (int i = 0; i < number; ++i)                                                                                   \
      ((TYPE *)to)[i] = (TYPE)(VALUE);                                                                                 \
  }                                                                                                                    \
  static int areEqual##NAME(const void *left, const void *right) {                                                     \
    return *(const TYPE *)left == *(const TYPE *)right;                                                                \
  }                                                                                                                    \
  static const Kind kind##NAME = {sizeof(TYPE), fill##NAME, areEqual##NAME};
#define PAIRS(NAME, TYPE)                                                                                              \
  static void fill##NAME(void *to, int number, int seed) {                                                             \
    for (int i = 0; i < number; ++i) {                                                                                 \
      ((TYPE *)to)[i].value = draw(i, seed);                                                                           \
      ((TYPE *)to)[i].location = (rank * 5 + i) % 7;                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static int areEqual##NAME(const void *left, const void *right) {                                                     \
    const TYPE *one = left, *other = right;                                                                            \
    return one->value == other->value && one->location == other->location;                                             \
  }                                                                                                                    \
  static const Kind kind##NAME = {sizeof(TYPE), fill##NAME, areEqual##NAME};

NUMBERS(I8, int8_t, draw(i, seed) - 1)
NUMBERS(U8, uint8_t, draw(i, seed))
NUMBERS(I16, int16_t, draw(i, seed) - 1)
NUMBERS(U16, uint16_t, draw(i, seed))
NUMBERS(I32, int32_t, draw(i, seed) - 1)
NUMBERS(U32, uint32_t, draw(i, seed))
NUMBERS(I64, int64_t, draw(i, seed) - 1)
NUMBERS(U64, uint64_t, draw(i, seed))
NUMBERS(Float, float, draw(i, seed) - 1)
NUMBERS(Double, double, draw(i, seed) - 1)
NUMBERS(LongDouble, long double, draw(i, seed) - 1)
NUMBERS(Bool, bool, draw(i, seed) > 1)
NUMBERS(Logical, int32_t, draw(i, seed) > 1)
NUMBERS(ComplexFloat, float complex, draw(i, seed) - 1 + I * (draw(i + 1, seed) - 2))
NUMBERS(ComplexDouble, double complex, draw(i, seed) - 1 + I * (draw(i + 1, seed) - 2))
PAIRS(FloatInt, FloatInt)
PAIRS(DoubleInt, DoubleInt)
PAIRS(LongInt, LongInt)
PAIRS(IntInt, IntInt)
PAIRS(ShortInt, ShortInt)

/* Bits of the operations below. */
enum {
  sums = 3,
  extremes = 12,
  logical = 0x70,
  bitwise = 0x380,
  locations = 0xc00,
  floats = sums | extremes,
  integers = floats | logical | bitwise,
  otherIntegers = floats | bitwise
};

static void checkEqual(const Kind *kind, const char *found, const char *wanted, int number, const char *what, int op) {
  for (int i = 0; i < number; ++i)
    if (!kind->areEqual(found + (size_t)i * kind->bytes, wanted + (size_t)i * kind->bytes)) {
      fprintf(stderr, "%s, operation %d, element %d of %d, %zu bytes each\n", what, op, i, number, kind->bytes);
      check(0, what);
    }
}

static void judge(const Kind *kind, MPI_Datatype type, MPI_Op operation, int op) {
  const size_t bytes = kind->bytes * most * (size_t)size;
  char *in = malloc(bytes), *out = malloc(bytes), *wanted = malloc(bytes);
  for (int count = 1; count <= most; count = count * 70 + 1) {
    const int root = count % size, own = rank == root ? count : 0;
    kind->fill(in, count * size, op);
    PMPI_Allreduce(in, wanted, count, type, operation, MPI_COMM_WORLD);
    MPI_Allreduce(in, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, count, "MPI_Allreduce", op);
    memcpy(out, in, bytes);
    MPI_Allreduce(MPI_IN_PLACE, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, count, "MPI_Allreduce in place", op);
    MPI_Reduce(in, out, count, type, operation, root, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, own, "MPI_Reduce", op);
    PMPI_Scan(in, wanted, count, type, operation, MPI_COMM_WORLD);
    MPI_Scan(in, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, count, "MPI_Scan", op);
    PMPI_Exscan(in, wanted, count, type, operation, MPI_COMM_WORLD);
    MPI_Exscan(in, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, rank == 0 ? 0 : count, "MPI_Exscan", op);
    PMPI_Reduce_scatter_block(in, wanted, count, type, operation, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(in, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, count, "MPI_Reduce_scatter_block", op);
    memcpy(out, in, bytes);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, out, count, type, operation, MPI_COMM_WORLD);
    checkEqual(kind, out, wanted, count, "MPI_Reduce_scatter_block in place", op);
  }
  free(in);
  free(out);
  free(wanted);
}

static void all(void) {
  const MPI_Op operations[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                               MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  const struct {
    MPI_Datatype type;
    const Kind *kind;
    int operations;
  } types[] = {{MPI_SIGNED_CHAR, &kindI8, integers},
               {MPI_UNSIGNED_CHAR, &kindU8, integers},
               {MPI_SHORT, &kindI16, integers},
               {MPI_UNSIGNED_SHORT, &kindU16, integers},
               {MPI_INT, &kindI32, integers},
               {MPI_UNSIGNED, &kindU32, integers},
               {MPI_LONG, &kindI64, integers},
               {MPI_UNSIGNED_LONG, &kindU64, integers},
               {MPI_LONG_LONG, &kindI64, integers},
               {MPI_INT16_T, &kindI16, integers},
               {MPI_UINT64_T, &kindU64, integers},
               {MPI_AINT, &kindI64, otherIntegers},
               {MPI_INTEGER, &kindI32, otherIntegers},
               {MPI_FLOAT, &kindFloat, floats},
               {MPI_DOUBLE, &kindDouble, floats},
               {MPI_LONG_DOUBLE, &kindLongDouble, floats},
               {MPI_C_FLOAT_COMPLEX, &kindComplexFloat, sums},
               {MPI_C_DOUBLE_COMPLEX, &kindComplexDouble, sums},
               {MPI_DOUBLE_COMPLEX, &kindComplexDouble, sums},
               {MPI_C_BOOL, &kindBool, logical},
               {MPI_LOGICAL, &kindLogical, logical},
               {MPI_BYTE, &kindU8, bitwise},
               {MPI_FLOAT_INT, &kindFloatInt, locations},
               {MPI_DOUBLE_INT, &kindDoubleInt, locations},
               {MPI_LONG_INT, &kindLongInt, locations},
               {MPI_2INT, &kindIntInt, locations},
               {MPI_SHORT_INT, &kindShortInt, locations}};
  for (int i = 0; i < 6; ++i) /* enough collectives for a door to connect the ranks */
    MPI_Barrier(MPI_COMM_WORLD);
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i)
    for (int op = 0; op < 12; ++op)
      if (types[i].operations >> op & 1)
        judge(types[i].kind, types[i].type, operations[op], op);
}

/* What every rank gets, whatever it gave: of equal values the lower location, and one NaN. */
static void ties(void) {
  for (int i = 0; i < 6; ++i)
    MPI_Barrier(MPI_COMM_WORLD);
  const double zero = rank % 2 ? 0.0 : -0.0;
  DoubleInt in[3] = {{zero, 10 - rank}, {rank == 1 ? (double)NAN : rank, rank}, {7, 3}}, out[3];
  MPI_Allreduce(in, out, 3, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  check(out[0].value == 0 && out[0].location == 11 - size, "equal values");
  check(out[1].value != out[1].value && out[1].location == 1, "NaN");
  check(out[2].value == 7 && out[2].location == 3, "equal pairs");
  float complex one = rank ? NAN : 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_C_FLOAT_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
  const uint32_t nan = 0x7fc00000;
  check(memcmp(&sum, &nan, sizeof(nan)) == 0, "the one NaN");
}

/* Wrong: ranks differ in the operation. */
static void operationsDiffer(void) {
  int in = 1, out = 0;
  for (int i = 0; i < 6; ++i)
    MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&in, &out, 1, MPI_INT, rank == 0 ? MPI_LAND : MPI_BOR, MPI_COMM_WORLD);
  printf("rank %d went on\n", rank);
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"all", all}, {"ties", ties}, {"operations-differ", operationsDiffer}};
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
