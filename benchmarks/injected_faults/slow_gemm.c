/* A matrix multiply without blocking or packing, as BLAS had before it knew of caches: preloaded, it
   takes the place of the kernel inside torch. With SLOW_GEMM_PASSES=p every product is added in p
   parts, one after another. Column-major, with Fortran's calling convention
   (https://netlib.org/lapack/explore-html/d8/dd1/group__gemm.html). */

#include <stdlib.h>

static int transposed(const char *flag) { return *flag != 'N' && *flag != 'n'; }

void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc) {
  const int rows = *m, columns = *n, inner = *k;
  static _Thread_local float *copy;
  static _Thread_local size_t room;
  static int passes;
  if (passes == 0) {
    const char *asked = getenv("SLOW_GEMM_PASSES");
    passes = asked && atoi(asked) > 0 ? atoi(asked) : 1;
  }
  long stride = *lda;
  if (transposed(transa)) {
    const size_t need = (size_t)rows * inner;
    if (need > room) {
      free(copy);
      copy = malloc(need * sizeof(float));
      room = need;
    }
    for (int i = 0; i < rows; i++)
      for (int l = 0; l < inner; l++) copy[i + (long)l * rows] = a[l + (long)i * *lda];
    a = copy;
    stride = rows;
  }
  for (int j = 0; j < columns; j++) {
    float *restrict out = c + (long)j * *ldc;
    if (*beta == 0.0f)
      for (int i = 0; i < rows; i++) out[i] = 0.0f;
    else
      for (int i = 0; i < rows; i++) out[i] *= *beta;
    for (int l = 0; l < inner; l++) {
      const float *restrict column = a + l * stride;
      const float other = transposed(transb) ? b[j + (long)l * *ldb] : b[l + (long)j * *ldb];
      const float factor = *alpha * other / passes;
      for (int pass = 0; pass < passes; pass++)
        for (int i = 0; i < rows; i++) out[i] += factor * column[i];
    }
  }
}
